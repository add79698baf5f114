// The kernel rows of cuDNN's fused attention.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cudnn_attention.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kit/library_variant.h"
#include "ops/prepare_context.h"

namespace snug::core {
namespace {

// Backward the library keeps the gradient of the scores of all samples that it works at. On an H100 a step of GPT-2
// (16 x 1024) takes 34.6 ms with 512 MiB, where all samples are one group, 35.2 with 256, 36.0 with 128, 36.7 with 64
// and 38.8 with 32. The plan's peak, which lies elsewhere, is the same.
constexpr int64_t kMostBackwardBytes = int64_t{512} << 20;

cuda::CudnnHeads Heads(const AttentionOperand& at) { return {.batch = at.batch, .head = at.head, .row = at.row}; }

cuda::CudnnAttention LibraryAttention(const AttentionSizes& s, bool backward) {
  cuda::CudnnAttention attention{.backward = backward,
                                 .batch = s.batch,
                                 .heads = s.heads,
                                 .queries = s.queries,
                                 .keys = s.keys,
                                 .width = s.width,
                                 .q = Heads(s.q),
                                 .k = Heads(s.k),
                                 .v = Heads(s.k),
                                 .out = Heads(s.out),
                                 .scale = static_cast<float>(s.scale),
                                 .causal = s.causal};
  attention.workspace_bytes = cuda::GroupWithin(attention, kMostBackwardBytes).workspace_bytes;
  return attention;
}

// The library's kernels read 16 bytes at a time, which is what the width has to be a multiple of; then all rows begin
// at such multiples, packed or not.
std::optional<NotServed> WhyNotServed(const NodeTypes& types, const AttentionSizes& s, bool has_mask) {
  constexpr int64_t kMostWidth = 128;
  constexpr int64_t kMostLength = std::numeric_limits<int32_t>::max() / 2;
  if (types.input(0).dtype != DType::kBFloat16) return ByDesign("it is for bfloat16");
  if (has_mask) return Refused("it knows no mask but the causal one");
  if (s.width % 8 != 0 || s.width < 8 || s.width > kMostWidth) {
    return Refused("it is for heads whose width is a multiple of 8, up to 128");
  }
  const bool fits = s.batch > 0 && s.heads > 0 && s.queries > 0 && s.keys > 0 &&
                    std::max({s.batch, s.heads, s.queries, s.keys}) <= kMostLength;
  return fits ? std::nullopt : std::optional(Refused("it is for operands that are not empty"));
}

absl::StatusOr<cuda::CudnnAttentions*> AttentionsOn(const cuda::LaunchContext& cuda) {
  return cuda::LibrariesOf(cuda.stream()).attentions();
}

using ArgumentsOf = std::function<cuda::CudnnAttentionArguments(const KernelContext&)>;

KernelRow Row(const AttentionSizesOf& sizes, const std::function<bool(const NodeTypes&)>& has_mask, bool backward,
              const ArgumentsOf& arguments) {
  return {.device = kOnCuda,
          .name = "cudnn",
          .library = "cuDNN",
          .serves = [sizes,
                     has_mask](const NodeTypes& types) { return WhyNotServed(types, sizes(types), has_mask(types)); },
          .prepare = [sizes, backward](PrepareContext& c) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(const LibraryVariant variant, TakeLibraryVariant(c, /*varies=*/false));
            auto attention = std::make_shared<cuda::CudnnAttention>(LibraryAttention(sizes(c.types()), backward));
            attention->rank = variant.rank;
            c.SetWorkspaceBytes(attention->workspace_bytes);
            c.SetKernel(std::move(attention));
            return absl::OkStatus();
          },
          .variants = [](const PrepareContext& c) { return OtherLibraryVariants(c, /*varies=*/false); },
          .settle = [](const SettleContext& s) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(cuda::CudnnAttentions* const attentions, AttentionsOn(*s.cuda));
            return attentions->Settle(*static_cast<const cuda::CudnnAttention*>(s.prepared));
          },
          .run = [arguments](const KernelContext& k) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(cuda::CudnnAttentions* const attentions, AttentionsOn(*k.cuda()));
            return attentions->Run(k.prepared<cuda::CudnnAttention>(), arguments(k));
          }};
}

}  // namespace

KernelRow CudnnAttentionRow(const AttentionSizesOf& sizes, const std::function<bool(const NodeTypes&)>& has_mask,
                            std::function<AttentionForward<BFloat16>(const KernelContext&)> call) {
  return Row(sizes, has_mask, /*backward=*/false,
             [call = std::move(call)](const KernelContext& k) -> cuda::CudnnAttentionArguments {
               const AttentionForward<BFloat16> at = call(k);
               return {.q = at.q, .k = at.k, .v = at.v, .out = at.out, .lse = at.lse, .workspace = k.workspace()};
             });
}

KernelRow CudnnAttentionGradRow(const AttentionSizesOf& sizes, const std::function<bool(const NodeTypes&)>& has_mask,
                                std::function<AttentionBackward<BFloat16>(const KernelContext&)> call) {
  return Row(sizes, has_mask, /*backward=*/true,
             [call = std::move(call)](const KernelContext& k) -> cuda::CudnnAttentionArguments {
               const AttentionBackward<BFloat16> at = call(k);
               return {.q = at.q,
                       .k = at.k,
                       .v = at.v,
                       .out = at.out,
                       .lse = at.lse,
                       .dout = at.dout,
                       .dq = at.dq,
                       .dk = at.dk,
                       .dv = at.dv,
                       .workspace = k.workspace()};
             });
}

}  // namespace snug::core
