#include "ops/lib/cuda_choice.h"

#include <absl/strings/str_cat.h>

namespace snug {

absl::StatusOr<CudaChoice> ChooseCuda(const PrepareContext& c, const LibraryOffer& offer) {
  const absl::string_view name = c.choice();
  if (name.empty()) return CudaChoice{.library = offer.serves};
  if (name == kOwnKernel) return CudaChoice{};
  const CudaChoice choice{
      .library = true, .tf32 = name == kTf32Kernel || name == kTf32FastKernel, .fast = MayVary(name)};
  const bool known = name == kLibraryKernel || choice.tf32 || choice.fast;
  const bool rounds = c.types().output(0).dtype == DType::kFloat32;
  if (known && offer.serves && (rounds || !choice.tf32) && (offer.varies || !choice.fast)) return choice;
  return absl::UnimplementedError(absl::StrCat("there is no CUDA kernel \"", name, "\" for this"));
}

}  // namespace snug
