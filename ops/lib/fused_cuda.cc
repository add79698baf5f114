#include "ops/lib/fused_cuda.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <utility>

#include "engine/base/status.h"
#include "ops/lib/cuda_kernel.h"

namespace snug {
namespace {

// What a fused kernel's source includes, by name: written by CMake. What stands for another file comes first.
constexpr cuda::SourceHeader kHeaders[] = {
    {"bit", "#include \"ops/lib/fused_std.h\"\n"},         {"cmath", "#include \"ops/lib/fused_std.h\"\n"},
    {"cstdint", "#include \"ops/lib/fused_std.h\"\n"},     {"limits", "#include \"ops/lib/fused_std.h\"\n"},
    {"type_traits", "#include \"ops/lib/fused_std.h\"\n"}, {"ops/lib/isa.h", "#include \"ops/lib/fused_std.h\"\n"},
#include "ops/fused_headers.inc"
};

uint64_t Word(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

cuda::KernelSource FusedKernel::ForCompiler() const {
  return {.name = source_.name, .text = source_.text, .headers = kHeaders};
}

absl::Status FusedKernel::Load(cuda::CodeCache& cache, const cuda::CudaDevice& device) const {
  const std::lock_guard<std::mutex> lock(mu_);
  if (code_ != nullptr) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(code_, cache.Get(device, ForCompiler()));
  return absl::OkStatus();
}

std::shared_ptr<const cuda::CudaCode> FusedKernel::code() const {
  const std::lock_guard<std::mutex> lock(mu_);
  return code_;
}

absl::Status PrepareFusedCuda(PrepareContext& c) {
  SNUG_ASSIGN_OR_RETURN(const FusedChain chain, ReadFusedChain(c.types()));
  c.SetKernel(std::make_shared<const FusedKernel>(WriteFusedSource(chain)));
  return absl::OkStatus();
}

absl::Status FusedCuda(const KernelContext& k) {
  const auto& kernel = k.prepared<FusedKernel>();
  std::shared_ptr<const cuda::CudaCode> code = kernel.code();
  if (code == nullptr) {
    cuda::CodeCache cache(cuda::DefaultCodeFolder());
    SNUG_RETURN_IF_ERROR(kernel.Load(cache, k.cuda()->device()));
    code = kernel.code();
  }
  const int64_t n = k.output_type(0).num_elements();
  bool packs = n % kernel.source().pack == 0 && IsAligned(k.output<void>(0));
  std::array<uint64_t, kMostFusedInputs + kFusedArgumentsBesideInputs> argument = {};
  size_t words = 0;
  for (int i = 0; i < k.num_inputs(); ++i) {
    const void* const x = k.input<void>(i);
    packs = packs && (!kernel.source().packed[static_cast<size_t>(i)] || IsAligned(x));
    argument[words++] = Word(x);
  }
  argument[words++] = Word(k.output<void>(0));
  argument[words++] = static_cast<uint64_t>(n);
  argument[words++] = 0;
  return code->Launch(k.cuda()->stream(), packs ? kFusedPacked : kFusedSingle,
                      ShapeFor(packs ? n / kernel.source().pack : n), {argument.data(), words});
}

const FusedKernel* FusedKernelOf(KernelFn kernel, const void* prepared) {
  return kernel == FusedCuda ? static_cast<const FusedKernel*>(prepared) : nullptr;
}

}  // namespace snug
