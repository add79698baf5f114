#include "ops/kernels/fused/cuda.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <utility>

#include "engine/base/status.h"
#include "ops/kit/cuda/kernel.h"

namespace snug::core {
namespace {

// The headers that a fused kernel's source includes, by name; CMake writes the list. Substitutes for standard headers
// come first, so they are found first.
constexpr cuda::SourceHeader kHeaders[] = {
    {"bit", "#include \"ops/kernels/fused/std.h\"\n"},
    {"cmath", "#include \"ops/kernels/fused/std.h\"\n"},
    {"cstdint", "#include \"ops/kernels/fused/std.h\"\n"},
    {"limits", "#include \"ops/kernels/fused/std.h\"\n"},
    {"type_traits", "#include \"ops/kernels/fused/std.h\"\n"},
    {"ops/kit/isa.h", "#include \"ops/kernels/fused/std.h\"\n"},
#include "ops/fused_headers.inc"
};

uint64_t Word(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// A kernel's one argument; `third` is the word after the output's pointer.
class Argument {
 public:
  Argument(const KernelContext& k, uint64_t third) {
    for (int i = 0; i < k.num_inputs(); ++i) words_[count_++] = Word(k.input<void>(i));
    words_[count_++] = Word(k.output<void>(0));
    words_[count_++] = third;
    words_[count_++] = 0;
  }
  absl::Span<const uint64_t> words() const { return {words_.data(), count_}; }

 private:
  std::array<uint64_t, kMostFusedInputs + kFusedArgumentsBesideInputs> words_ = {};
  size_t count_ = 0;
};

// Says whether all that is read and written in packs begins at multiples of 16 bytes.
bool ReadsPacks(const KernelContext& k, const FusedSource& source) {
  for (int i = 0; i < k.num_inputs(); ++i) {
    if (source.packed[static_cast<size_t>(i)] && !IsAligned(k.input<void>(i))) return false;
  }
  return IsAligned(k.output<void>(0));
}

absl::Status LaunchElements(const KernelContext& k, const FusedSource& source, const cuda::CudaCode& code) {
  const int64_t n = k.output_type(0).num_elements();
  const bool packs = n % source.pack == 0 && ReadsPacks(k, source);
  return code.Launch(k.cuda()->stream(), packs ? kFusedPacked : kFusedSingle, ShapeFor(packs ? n / source.pack : n),
                     Argument(k, static_cast<uint64_t>(n)).words());
}

absl::Status LaunchReduction(const KernelContext& k, const FusedSource& source, const cuda::CudaCode& code) {
  const FusedReduce& reduce = *source.reduce;
  const Argument argument(k, Word(k.workspace()));
  const bool packs = source.pack == 1 || ReadsPacks(k, source);
  SNUG_RETURN_IF_ERROR(code.Launch(k.cuda()->stream(), packs ? kFusedPacked : kFusedSingle,
                                   {.blocks = reduce.blocks, .blocks_y = reduce.parts, .threads = kCudaThreads},
                                   argument.words()));
  if (reduce.parts == 1) return absl::OkStatus();
  return code.Launch(k.cuda()->stream(), kFusedCombine, {.blocks = reduce.combine_blocks, .threads = kCudaThreads},
                     argument.words());
}

}  // namespace

cuda::KernelSource FusedKernel::ForCompiler() const {
  return {.name = source_.name, .text = source_.text, .headers = kHeaders};
}

FusedKernel::DeviceKind FusedKernel::KindOf(const cuda::CudaDevice& device) {
  return {device.shared_api(), device.info().major, device.info().minor};
}

absl::Status FusedKernel::Load(cuda::CodeCache& cache, const cuda::CudaDevice& device) const {
  const std::lock_guard<std::mutex> lock(mu_);
  const DeviceKind kind = KindOf(device);
  if (code_.count(kind) == 1) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(code_[kind], cache.Get(device, ForCompiler()));
  return absl::OkStatus();
}

std::shared_ptr<const cuda::CudaCode> FusedKernel::CodeFor(const cuda::CudaDevice& device) const {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto found = code_.find(KindOf(device));
  return found == code_.end() ? nullptr : found->second;
}

absl::Status PrepareFusedCuda(PrepareContext& c) {
  SNUG_ASSIGN_OR_RETURN(const FusedChain chain, ReadFusedChain(c.types()));
  FusedSource source = WriteFusedSource(chain);
  if (source.reduce.has_value()) c.SetWorkspaceBytes(source.reduce->workspace_bytes);
  c.SetKernel(std::make_shared<const FusedKernel>(std::move(source)));
  return absl::OkStatus();
}

absl::Status FusedCuda(const KernelContext& k) {
  const auto& kernel = k.prepared<FusedKernel>();
  std::shared_ptr<const cuda::CudaCode> code = kernel.CodeFor(k.cuda()->device());
  if (code == nullptr) {
    cuda::CodeCache cache(cuda::DefaultCodeFolder());
    SNUG_RETURN_IF_ERROR(kernel.Load(cache, k.cuda()->device()));
    code = kernel.CodeFor(k.cuda()->device());
  }
  return kernel.source().reduce.has_value() ? LaunchReduction(k, kernel.source(), *code)
                                            : LaunchElements(k, kernel.source(), *code);
}

KernelRow FusedCudaRow() {
  return {.device = kOnCuda,
          .name = kFusedCudaRow,
          .prepare = PrepareFusedCuda,
          .settle =
              [](const SettleContext& s) {
                return static_cast<const FusedKernel*>(s.prepared)->Load(*s.code, s.cuda->device());
              },
          .run = FusedCuda};
}

}  // namespace snug::core
