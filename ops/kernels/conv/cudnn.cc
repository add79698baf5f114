// The kernel rows of cuDNN's convolutions. Where data is channels-last, the library wants the weights so too. Prepare
// then asks for that layout, and the compiler inserts nodes that reorder ours. Weights of one pixel, or of one channel
// in a group, lie alike in both.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cudnn_conv.h"
#include "ops/kernels/conv/cuda.h"
#include "ops/kit/cuda_finish.h"
#include "ops/kit/library_variant.h"

namespace snug::core::ops {
namespace {

using cuda::CudnnConvKind;

// The types of a node's values or of their gradients.
struct ConvTypes {
  const ValueType &x, &w, &y;
};

bool Fits(const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || shape[i] > std::numeric_limits<int32_t>::max()) return false;
  }
  return true;
}

// Says whether the library can pad so: it pads alike on both sides. What lies beyond the last window is no padding.
bool PadsAlike(const ConvGeometry& g) {
  for (size_t i = 0; i < static_cast<size_t>(g.spatial); ++i) {
    const int64_t span = (g.kernel[i] - 1) * g.dilation[i] + 1;
    if (g.in[i] + 2 * g.pad_begin[i] < span) return false;
    if ((g.in[i] + 2 * g.pad_begin[i] - span) / g.stride[i] + 1 != g.out[i]) return false;
  }
  return true;
}

// Returns the size with the channels filled up to a multiple of 16 bytes, which is what tensor cores take at once; 0 if
// they are such a multiple already.
int64_t FilledUpBytes(const ValueType& type) {
  const int64_t item = SizeOf(type.dtype);
  const int64_t channels = type.shape[1];
  const int64_t wanted = (channels * item + 15) / 16 * 16;
  return wanted == channels * item ? 0 : type.shape.num_elements() / channels * wanted;
}

// Returns how much room the library gets. In general it is for the values once more in another layout, which some
// algorithms want, and for partial sums, but never more than any good algorithm asks for on large convolutions. Values
// of few channels (an image has 3) get room for copies with more, however large: without these the library has nothing
// good for them.
int64_t WorkspaceLimit(const ConvGeometry& g, const ConvTypes& types) {
  constexpr int64_t kMost = int64_t{64} << 20;
  const int64_t in_general = std::min(kMost, 2 * (types.x.size_bytes() + types.w.size_bytes() + types.y.size_bytes()));
  if (g.groups > 1) return in_general;
  return in_general + FilledUpBytes(types.x) + FilledUpBytes(types.w) + FilledUpBytes(types.y);
}

// Returns [outer, inner, h, w]; with one spatial dimension h is 1.
std::array<int32_t, 4> FourDims(const Shape& shape) {
  const int spatial = shape.rank() - 2;
  return {static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1]),
          spatial == 1 ? 1 : static_cast<int32_t>(shape[2]), static_cast<int32_t>(shape[spatial + 1])};
}
std::array<int32_t, 2> TwoDims(const ConvGeometry& g, const std::array<int64_t, kMaxSpatial>& of, int32_t neutral) {
  const auto last = static_cast<int32_t>(of[static_cast<size_t>(g.spatial) - 1]);
  return {g.spatial == 1 ? neutral : static_cast<int32_t>(of[0]), last};
}

ConvTypes TypesAround(const NodeTypes& t, ConvPart part) {
  switch (part) {
    case ConvPart::kForward:
      return {t.input(0), t.input(1), t.output(0)};
    case ConvPart::kGradInput:
      return {t.output(0), t.input(1), t.input(0)};
    case ConvPart::kGradWeight:
      break;
  }
  return {t.input(0), t.output(0), t.input(1)};
}

std::optional<NotServed> WhyNotServed(const NodeTypes& node_types, ConvPart part, const ConvNode& node) {
  if (std::optional<NotServed> in_double = NotInDouble(node_types)) return in_double;
  const ConvTypes types = TypesAround(node_types, part);
  if (node.geometry.spatial > 2) return Refused("it takes 1 and 2 spatial dimensions");
  if (!PadsAlike(node.geometry)) return Refused("it takes padding that is alike on both sides");
  if (!Fits(types.x.shape) || !Fits(types.w.shape) || !Fits(types.y.shape)) {
    return Refused("it takes dimensions from 1 to 2147483647");
  }
  if (!(types.x.layout == types.y.layout)) return Refused("it takes data and result in one layout");
  return std::nullopt;
}

cuda::CudnnConv ByLibrary(CudnnConvKind kind, const ConvGeometry& g, const ConvTypes& types) {
  return cuda::CudnnConv{.kind = kind,
                         .dtype = types.x.dtype,
                         .channels_last = types.x.layout.channels_last(),
                         .x = FourDims(types.x.shape),
                         .w = FourDims(types.w.shape),
                         .y = FourDims(types.y.shape),
                         .pad = TwoDims(g, g.pad_begin, 0),
                         .stride = TwoDims(g, g.stride, 1),
                         .dilation = TwoDims(g, g.dilation, 1),
                         .groups = static_cast<int32_t>(g.groups),
                         .workspace_bytes = WorkspaceLimit(g, types)};
}

bool WantsWeightsTurned(const cuda::CudnnConv& conv, const ConvGeometry& g, const ValueType& w) {
  return conv.channels_last && !w.layout.channels_last() && g.taps() > 1 && g.in_channels > g.groups;
}

// Returns what the library computes of a node that it serves.
cuda::CudnnConv LibraryConvOf(const NodeTypes& t, ConvPart part, const ConvNode& node) {
  const ConvTypes types = TypesAround(t, part);
  if (part == ConvPart::kGradInput) return ByLibrary(CudnnConvKind::kGradInput, node.geometry, types);
  if (part == ConvPart::kGradWeight) return ByLibrary(CudnnConvKind::kGradWeight, node.geometry, types);
  cuda::CudnnConv conv = ByLibrary(CudnnConvKind::kForward, node.geometry, types);
  // The library knows no activation but relu.
  if (t.has_input(2)) {
    conv.relu = node.activation == Activation::kRelu;
    conv.bias = conv.relu || node.activation == Activation::kIdentity;
  }
  return conv;
}

bool Varies(ConvPart part) { return part != ConvPart::kForward; }

absl::Status PrepareCudnn(PrepareContext& c, ConvPart part, const ConvNode& node) {
  cuda::CudnnConv conv = LibraryConvOf(c.types(), part, node);
  SNUG_ASSIGN_OR_RETURN(const LibraryVariant variant, TakeLibraryVariant(c, Varies(part)));
  const bool weights_are_input = part != ConvPart::kGradWeight;
  if (WantsWeightsTurned(conv, node.geometry, weights_are_input ? c.types().input(1) : c.types().output(0))) {
    weights_are_input ? c.WantInputLayout(1, Layout::ChannelsLast()) : c.WantOutputLayout(0, Layout::ChannelsLast());
    return absl::OkStatus();
  }
  conv.tf32 = variant.tf32;
  conv.fast = variant.fast;
  conv.rank = variant.rank;
  c.SetWorkspaceBytes(conv.workspace_bytes);
  c.SetKernel(std::make_shared<cuda::CudnnConv>(conv));
  return absl::OkStatus();
}

absl::StatusOr<cuda::CudnnConvs*> ConvsOn(const cuda::LaunchContext& cuda) {
  return cuda::LibrariesOf(cuda.stream()).convs();
}

absl::Status RunCudnn(const KernelContext& k, ConvPart part, const ConvNode& node) {
  const auto& conv = k.prepared<cuda::CudnnConv>();
  SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, ConvsOn(*k.cuda()));
  SNUG_ASSIGN_OR_RETURN(const bool finished, convs->Run(conv, {.data = k.input<void>(0),
                                                               .factor = k.input<void>(1),
                                                               .bias = conv.bias ? k.input<void>(2) : nullptr,
                                                               .result = k.output<void>(0),
                                                               .workspace = k.workspace()}));
  if (part != ConvPart::kForward || finished) return absl::OkStatus();
  const ConvGeometry& g = node.geometry;
  const int64_t pixels = g.out[0] * g.out[1] * g.out[2];
  return FinishCuda(k, k.has_input(2) ? 2 : -1, g.out_channels, conv.channels_last ? 1 : pixels, node.activation);
}

}  // namespace

KernelRow CudnnConvRow(ConvPart part, DescribeConv describe) {
  return {.device = kOnCuda,
          .name = "cudnn",
          .library = "cuDNN",
          .serves = [part, describe](const NodeTypes& types) { return WhyNotServed(types, part, describe(types)); },
          .prepare = [part, describe](PrepareContext& c) { return PrepareCudnn(c, part, describe(c.types())); },
          .variants = [part](const PrepareContext& c) { return OtherLibraryVariants(c, Varies(part)); },
          .settle = [](const SettleContext& s) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, ConvsOn(*s.cuda));
            return convs->Settle(*static_cast<const cuda::CudnnConv*>(s.prepared));
          },
          .run = [part, describe](const KernelContext& k) { return RunCudnn(k, part, describe(k.types())); }};
}

}  // namespace snug::core::ops
