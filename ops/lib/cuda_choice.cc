#include "ops/lib/cuda_choice.h"

#include <absl/strings/str_cat.h>

namespace snug {

absl::StatusOr<CudaChoice> ChooseCuda(const PrepareContext& c, bool serves) {
  const absl::string_view name = c.choice();
  const bool rounds = c.types().output(0).dtype == DType::kFloat32;
  if (name.empty()) return CudaChoice{.library = serves};
  if (name == kOwnKernel) return CudaChoice{};
  if (name == kLibraryKernel && serves) return CudaChoice{.library = true};
  if (name == kTf32Kernel && serves && rounds) return CudaChoice{.library = true, .tf32 = true};
  return absl::UnimplementedError(absl::StrCat("there is no CUDA kernel \"", name, "\" for this"));
}

}  // namespace snug
