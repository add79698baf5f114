// The kernel rows of cuDNN's convolutions. Where data is channels-last, the library wants the weights so too. Prepare
// then asks for that layout, and the compiler inserts nodes that reorder ours. Weights of one pixel, or of one channel
// in a group, lie alike in both.
//
// Convolutions of few channels are folded (fold.h): kernels of ours before the library's, and after it for the gradient
// of weights, which take weights as they lie. Types and sizes decide.
#include "ops/kernels/conv/cudnn.h"

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
#include "ops/kernels/conv/cuda_fold.h"
#include "ops/kit/cuda/finish.h"
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

// Returns the size of a copy that lies channels-last, with the channels filled up to a multiple of 16 bytes, which is
// what tensor cores take at once; 0 if the value lies so already.
int64_t CopyBytes(const ValueType& type, bool channels_last) {
  const int64_t item = SizeOf(type.dtype);
  const int64_t channels = type.shape[1];
  const int64_t wanted = (channels * item + 15) / 16 * 16;
  return channels_last && wanted == channels * item ? 0 : type.shape.num_elements() / channels * wanted + 256;
}

// Returns how much room the library gets. In general it is for the values once more in another layout, which some
// algorithms want, and for partial sums, but never more than any good algorithm asks for on large convolutions. Values
// of few channels (an image has 3), or that are not channels-last, get room for copies that are as the library wants
// them, however large: without these it has nothing good for them.
int64_t WorkspaceLimit(const ConvGeometry& g, const ConvTypes& types) {
  constexpr int64_t kMost = int64_t{64} << 20;
  const int64_t in_general = std::min(kMost, 2 * (types.x.size_bytes() + types.w.size_bytes() + types.y.size_bytes()));
  if (g.groups > 1) return in_general;
  const bool last = types.x.layout.channels_last();
  return in_general + CopyBytes(types.x, last) + CopyBytes(types.w, last) + CopyBytes(types.y, last);
}

// Of one spatial dimension the library gets two, the first of which has size 1.
int LibrarySpatial(const ConvGeometry& g) { return std::max(g.spatial, 2); }

// Returns [outer, inner, spatial...].
std::array<int32_t, 5> LibraryDims(const Shape& shape) {
  std::array<int32_t, 5> dims = {static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1])};
  size_t next = 2;
  if (shape.rank() == 3) dims[next++] = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) dims[next++] = static_cast<int32_t>(shape[axis]);
  return dims;
}
std::array<int32_t, 3> LibraryWindow(const ConvGeometry& g, const std::array<int64_t, kMaxSpatial>& of,
                                     int32_t neutral) {
  std::array<int32_t, 3> numbers = {};
  size_t next = 0;
  if (g.spatial == 1) numbers[next++] = neutral;
  for (size_t axis = 0; axis < static_cast<size_t>(g.spatial); ++axis) {
    numbers[next++] = static_cast<int32_t>(of[axis]);
  }
  return numbers;
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

std::optional<NotServed> WhyNotServed(const NodeTypes& node_types, ConvPart part) {
  if (std::optional<NotServed> in_double = NotInDouble(node_types)) return in_double;
  const ConvTypes types = TypesAround(node_types, part);
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
                         .spatial = LibrarySpatial(g),
                         .x = LibraryDims(types.x.shape),
                         .w = LibraryDims(types.w.shape),
                         .y = LibraryDims(types.y.shape),
                         .pad_begin = LibraryWindow(g, g.pad_begin, 0),
                         .pad_end = LibraryWindow(g, g.pad_end, 0),
                         .stride = LibraryWindow(g, g.stride, 1),
                         .dilation = LibraryWindow(g, g.dilation, 1),
                         .workspace_bytes = WorkspaceLimit(g, types)};
}

// Says whether a node is folded, and how. The gradient of x stays as it is: images need none. That of the weights was
// faster folded for large windows alone (on an H100 7 x 7: 684 us in place of 1188; 3 x 3: 732 in place of 572).
std::optional<ConvFold> FoldOfNode(const ConvTypes& types, ConvPart part, const ConvGeometry& g) {
  constexpr int64_t kManyTaps = 25;
  if (part == ConvPart::kGradWeight && g.taps() < kManyTaps) return std::nullopt;
  const bool suits = part != ConvPart::kGradInput && types.x.layout.channels_last() &&
                     types.x.dtype == DType::kBFloat16 && types.w.dtype == DType::kBFloat16 &&
                     types.y.dtype == DType::kBFloat16;
  return suits ? FoldOf(g) : std::nullopt;
}

cuda::CudnnConv FoldedByLibrary(CudnnConvKind kind, const ConvFold& fold, DType dtype) {
  const ConvGeometry g = FoldedGeometry(fold);
  const Layout last = Layout::ChannelsLast();
  const ValueType x = {dtype, g.input_shape(), last}, w = {dtype, g.weight_shape(), last},
                  y = {dtype, g.output_shape(), last};
  return ByLibrary(kind, g, {x, w, y});
}

bool WantsWeightsTurned(const cuda::CudnnConv& conv, const ConvGeometry& g, const ValueType& w) {
  return conv.channels_last && !w.layout.channels_last() && g.taps() > 1 && g.in_channels > g.groups;
}

CudnnConvKind KindOf(ConvPart part) {
  switch (part) {
    case ConvPart::kForward:
      return CudnnConvKind::kForward;
    case ConvPart::kGradInput:
      return CudnnConvKind::kGradInput;
    case ConvPart::kGradWeight:
      break;
  }
  return CudnnConvKind::kGradWeight;
}

// Returns what is computed of a node that the library serves.
CudnnConvKernel KernelOf(const NodeTypes& t, ConvPart part, const ConvNode& node) {
  const ConvTypes types = TypesAround(t, part);
  CudnnConvKernel kernel;
  kernel.fold = FoldOfNode(types, part, node.geometry);
  kernel.conv = kernel.fold.has_value() ? FoldedByLibrary(KindOf(part), *kernel.fold, types.x.dtype)
                                        : ByLibrary(KindOf(part), node.geometry, types);
  // The library knows no activation but relu.
  if (part == ConvPart::kForward && t.has_input(2)) {
    kernel.conv.relu = node.activation == Activation::kRelu;
    kernel.conv.bias = kernel.conv.relu || node.activation == Activation::kIdentity;
  }
  return kernel;
}

bool Varies(ConvPart part) { return part != ConvPart::kForward; }

absl::Status PrepareCudnn(PrepareContext& c, ConvPart part, const ConvNode& node) {
  CudnnConvKernel kernel = KernelOf(c.types(), part, node);
  SNUG_ASSIGN_OR_RETURN(const LibraryVariant variant, TakeLibraryVariant(c, Varies(part)));
  const bool weights_are_input = part != ConvPart::kGradWeight;
  if (!kernel.fold.has_value() &&
      WantsWeightsTurned(kernel.conv, node.geometry, weights_are_input ? c.types().input(1) : c.types().output(0))) {
    weights_are_input ? c.WantInputLayout(1, Layout::ChannelsLast()) : c.WantOutputLayout(0, Layout::ChannelsLast());
    return absl::OkStatus();
  }
  kernel.conv.tf32 = variant.tf32;
  kernel.conv.fast = variant.fast;
  kernel.conv.rank = variant.rank;
  c.SetWorkspaceBytes(kernel.folded_bytes() + kernel.conv.workspace_bytes);
  c.SetKernel(std::make_shared<CudnnConvKernel>(kernel));
  return absl::OkStatus();
}

// For predictions. Beside the library's kernel there are two sweeps of what is folded: x to that, and w or its
// gradient.
KernelCalls CallsOf(const CudnnConvKernel& kernel) {
  KernelCalls calls;
  if (kernel.fold.has_value()) {
    const auto folded = static_cast<double>(kernel.folded_bytes());
    calls.sweeps = 2;
    calls.sweep_bytes = folded;
    calls.kept_bytes = folded;
  }
  return calls;
}

absl::StatusOr<cuda::CudnnConvs*> ConvsOn(const cuda::LaunchContext& cuda) {
  return cuda::LibrariesOf(cuda.stream()).convs();
}

// Folds what goes into the library's convolution, and has it take that, and put a gradient of folded weights there.
absl::Status FoldAround(const KernelContext& k, ConvPart part, const ConvFold& fold, cuda::CudnnArguments* at) {
  std::byte* const data = k.workspace<std::byte>();
  std::byte* const weights = data + fold.data_bytes();
  SNUG_RETURN_IF_ERROR(FoldData(*k.cuda(), fold, at->data, data));
  at->data = data;
  at->workspace = weights + fold.weight_bytes();
  if (part == ConvPart::kGradWeight) {
    at->result = weights;
    return absl::OkStatus();
  }
  SNUG_RETURN_IF_ERROR(FoldWeights(*k.cuda(), fold, k.input_type(1).layout.channels_last(), at->factor, weights));
  at->factor = weights;
  return absl::OkStatus();
}

absl::Status RunCudnn(const KernelContext& k, ConvPart part, const ConvNode& node) {
  const auto& kernel = k.prepared<CudnnConvKernel>();
  const cuda::CudnnConv& conv = kernel.conv;
  SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, ConvsOn(*k.cuda()));
  cuda::CudnnArguments at = {.data = k.input<void>(0),
                             .factor = k.input<void>(1),
                             .bias = conv.bias ? k.input<void>(2) : nullptr,
                             .result = k.output<void>(0),
                             .workspace = k.workspace()};
  if (kernel.fold.has_value()) SNUG_RETURN_IF_ERROR(FoldAround(k, part, *kernel.fold, &at));
  SNUG_ASSIGN_OR_RETURN(const bool finished, convs->Run(conv, at));
  if (part == ConvPart::kGradWeight && kernel.fold.has_value()) {
    return UnfoldWeights(*k.cuda(), *kernel.fold, k.output_type(0).layout.channels_last(), at.result,
                         k.output<void>(0));
  }
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
          .serves = [part](const NodeTypes& types) { return WhyNotServed(types, part); },
          .prepare = [part, describe](PrepareContext& c) { return PrepareCudnn(c, part, describe(c.types())); },
          .variants = [part](const PrepareContext& c) { return OtherLibraryVariants(c, Varies(part)); },
          .settle = [](const SettleContext& s) -> absl::Status {
            SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, ConvsOn(*s.cuda));
            return convs->Settle(static_cast<const CudnnConvKernel*>(s.prepared)->conv);
          },
          .calls = [](const void* prepared) { return CallsOf(*static_cast<const CudnnConvKernel*>(prepared)); },
          .run = [part, describe](const KernelContext& k) { return RunCudnn(k, part, describe(k.types())); }};
}

}  // namespace snug::core::ops
