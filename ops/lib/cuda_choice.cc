#include "ops/lib/cuda_choice.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

namespace snug {
namespace {

constexpr int kMostRank = 4;
constexpr char kBeforeRank = ':';

struct Named {
  absl::string_view kernel;
  int rank = 1;  // 0: not a number there may be
};

Named Parse(absl::string_view name) {
  const size_t at = name.find(kBeforeRank);
  if (at == absl::string_view::npos) return {name};
  Named named = {name.substr(0, at), 0};
  if (!absl::SimpleAtoi(name.substr(at + 1), &named.rank) || named.rank < 1 || named.rank > kMostRank) named.rank = 0;
  return named;
}

bool Varies(absl::string_view kernel) { return kernel == kFastKernel || kernel == kTf32FastKernel; }

}  // namespace

absl::StatusOr<CudaChoice> ChooseCuda(const PrepareContext& c, const LibraryOffer& offer) {
  const absl::string_view name = c.choice();
  if (name.empty()) return CudaChoice{.library = offer.serves};
  if (name == kOwnKernel) return CudaChoice{};
  const Named named = Parse(name);
  const CudaChoice choice{.library = true,
                          .tf32 = named.kernel == kTf32Kernel || named.kernel == kTf32FastKernel,
                          .fast = Varies(named.kernel),
                          .rank = named.rank};
  const bool known = (named.kernel == kLibraryKernel || choice.tf32 || choice.fast) && named.rank > 0;
  const bool rounds = c.types().output(0).dtype == DType::kFloat32;
  if (known && offer.serves && (rounds || !choice.tf32) && (offer.varies || !choice.fast)) return choice;
  return absl::UnimplementedError(absl::StrCat("there is no CUDA kernel \"", name, "\" for this"));
}

bool MayVary(absl::string_view name) { return Varies(Parse(name).kernel); }

std::vector<std::string> OtherCudaKernels(absl::string_view name) {
  std::vector<std::string> others;
  if (name == kOwnKernel) return others;  // the library has none
  for (int rank = 2; rank <= kMostRank; ++rank) others.push_back(absl::StrCat(name, ":", rank));
  others.emplace_back(kOwnKernel);
  return others;
}

}  // namespace snug
