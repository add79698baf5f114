// The library reads weights channels-last where it reads data so: ours are then reordered, by nodes that the compiler
// inserts when Prepare wishes for that layout. Weights of one pixel, or of one channel to a group, lie alike in both.
#include "ops/lib/conv_cuda.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cudnn_conv.h"
#include "ops/lib/conv_cuda_own.h"
#include "ops/lib/cuda_choice.h"
#include "ops/lib/cuda_finish.h"

namespace snug::ops {
namespace {

using cuda::CudnnConvKind;

// What the library computes of a node. Nothing: our own kernel.
struct CudaConv {
  std::optional<cuda::CudnnConv> conv;
};

// The types of a node's values, or of their gradients.
struct ConvTypes {
  const ValueType &x, &w, &y;
};

bool Fits(const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] < 1 || shape[i] > std::numeric_limits<int32_t>::max()) return false;
  }
  return true;
}

// The library pads alike on both sides; what lies beyond the last window is no padding.
bool PadsAlike(const ConvGeometry& g) {
  for (size_t i = 0; i < static_cast<size_t>(g.spatial); ++i) {
    const int64_t span = (g.kernel[i] - 1) * g.dilation[i] + 1;
    if (g.in[i] + 2 * g.pad_begin[i] < span) return false;
    if ((g.in[i] + 2 * g.pad_begin[i] - span) / g.stride[i] + 1 != g.out[i]) return false;
  }
  return true;
}

// With its channels filled up to a multiple of 16 bytes, which is what tensor cores take at once. 0: they are such
// already.
int64_t FilledUpBytes(const ValueType& type) {
  const int64_t item = SizeOf(type.dtype);
  const int64_t channels = type.shape[1];
  const int64_t wanted = (channels * item + 15) / 16 * 16;
  return wanted == channels * item ? 0 : type.shape.num_elements() / channels * wanted;
}

// Room for the values once more in another layout, which some algorithms want, and for partial sums; never more than
// any good algorithm asks for on large convolutions. Beside that, for copies of values of few channels (an image has 3)
// with more, without which the library has nothing good for them, however large they are.
int64_t WorkspaceLimit(const ConvGeometry& g, const ConvTypes& types) {
  constexpr int64_t kMost = int64_t{64} << 20;
  const int64_t in_general = std::min(kMost, 2 * (types.x.size_bytes() + types.w.size_bytes() + types.y.size_bytes()));
  if (g.groups > 1) return in_general;
  return in_general + FilledUpBytes(types.x) + FilledUpBytes(types.w) + FilledUpBytes(types.y);
}

// [outer, inner, h, w]; the h of one dimension is 1.
std::array<int32_t, 4> FourDims(const Shape& shape) {
  const int spatial = shape.rank() - 2;
  return {static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1]),
          spatial == 1 ? 1 : static_cast<int32_t>(shape[2]), static_cast<int32_t>(shape[spatial + 1])};
}
std::array<int32_t, 2> TwoDims(const ConvGeometry& g, const std::array<int64_t, kMaxSpatial>& of, int32_t neutral) {
  const auto last = static_cast<int32_t>(of[static_cast<size_t>(g.spatial) - 1]);
  return {g.spatial == 1 ? neutral : static_cast<int32_t>(of[0]), last};
}

std::optional<cuda::CudnnConv> ByLibrary(CudnnConvKind kind, const ConvGeometry& g, const ConvTypes& types) {
  const DType dtype = types.x.dtype;
  const bool serves = dtype != DType::kFloat64 && g.spatial <= 2 && PadsAlike(g) && Fits(types.x.shape) &&
                      Fits(types.w.shape) && Fits(types.y.shape) && types.x.layout == types.y.layout;
  if (!serves) return std::nullopt;
  return cuda::CudnnConv{.kind = kind,
                         .dtype = dtype,
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

// `wish`: for the layout of the weights.
template <class Wish>
absl::Status Prepare(PrepareContext& c, const ConvGeometry& g, const ConvTypes& types,
                     std::optional<cuda::CudnnConv> conv, int64_t own_workspace_bytes, const Wish& wish) {
  const bool gradient = conv.has_value() && conv->kind != CudnnConvKind::kForward;
  SNUG_ASSIGN_OR_RETURN(const CudaChoice choice, ChooseCuda(c, {.serves = conv.has_value(), .varies = gradient}));
  if (!choice.library) conv.reset();
  if (conv.has_value()) {
    if (WantsWeightsTurned(*conv, g, types.w)) {
      wish(Layout::ChannelsLast());
      return absl::OkStatus();
    }
    conv->tf32 = choice.tf32;
    conv->fast = choice.fast;
    conv->rank = choice.rank;
  }
  c.SetWorkspaceBytes(std::max(own_workspace_bytes, conv.has_value() ? conv->workspace_bytes : 0));
  c.SetKernel(std::make_shared<CudaConv>(CudaConv{std::move(conv)}));
  return absl::OkStatus();
}

// Whether bias and relu are in the result. Unimplemented: the library is not there, or has nothing for this; that is
// left for whoever asked for the node.
absl::StatusOr<bool> RunByLibrary(const KernelContext& k, const cuda::CudnnConv& conv) {
  cuda::StreamLibraries& libraries = cuda::LibrariesOf(k.cuda()->stream());
  const auto run = [&]() -> absl::StatusOr<bool> {
    SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, libraries.convs());
    return convs->Run(conv, {.data = k.input<void>(0),
                             .factor = k.input<void>(1),
                             .bias = conv.bias ? k.input<void>(2) : nullptr,
                             .result = k.output<void>(0),
                             .workspace = k.workspace()});
  };
  absl::StatusOr<bool> finished = run();
  if (absl::IsUnimplemented(finished.status())) libraries.Refused(cuda::Library::kCudnn, finished.status());
  return finished;
}

absl::Status RunGradient(const KernelContext& k, const ConvGeometry& g,
                         absl::Status (*own)(const KernelContext&, const ConvGeometry&)) {
  const std::optional<cuda::CudnnConv>& conv = k.prepared<CudaConv>().conv;
  if (conv.has_value()) {
    absl::Status status = RunByLibrary(k, *conv).status();
    if (!absl::IsUnimplemented(status)) return status;
  }
  return own(k, g);
}

}  // namespace

absl::Status PrepareConvCuda(PrepareContext& c, const ConvGeometry& g, Activation activation) {
  const NodeTypes& t = c.types();
  const ConvTypes types{t.input(0), t.input(1), t.output(0)};
  std::optional<cuda::CudnnConv> conv = ByLibrary(CudnnConvKind::kForward, g, types);
  // Of activations the library knows relu, and no other.
  if (conv.has_value() && t.has_input(2)) {
    conv->relu = activation == Activation::kRelu;
    conv->bias = conv->relu || activation == Activation::kIdentity;
  }
  return Prepare(c, g, types, std::move(conv), OwnConvWorkspace(g, types.x.dtype),
                 [&](const Layout& layout) { c.WantInputLayout(1, layout); });
}

absl::Status PrepareConvGradInputCuda(PrepareContext& c, const ConvGeometry& g) {
  const NodeTypes& t = c.types();
  const ConvTypes types{t.output(0), t.input(1), t.input(0)};
  return Prepare(c, g, types, ByLibrary(CudnnConvKind::kGradInput, g, types),
                 OwnConvGradInputWorkspace(g, types.x.dtype),
                 [&](const Layout& layout) { c.WantInputLayout(1, layout); });
}

absl::Status PrepareConvGradWeightCuda(PrepareContext& c, const ConvGeometry& g) {
  const NodeTypes& t = c.types();
  const ConvTypes types{t.input(0), t.output(0), t.input(1)};
  return Prepare(c, g, types, ByLibrary(CudnnConvKind::kGradWeight, g, types),
                 OwnConvGradWeightWorkspace(g, types.x.dtype),
                 [&](const Layout& layout) { c.WantOutputLayout(0, layout); });
}

absl::Status ConvCuda(const KernelContext& k, const ConvGeometry& g, Activation activation) {
  const std::optional<cuda::CudnnConv>& conv = k.prepared<CudaConv>().conv;
  if (conv.has_value()) {
    const absl::StatusOr<bool> finished = RunByLibrary(k, *conv);
    if (finished.ok() && *finished) return absl::OkStatus();
    if (finished.ok()) {
      const int64_t pixels = g.out[0] * g.out[1] * g.out[2];
      return FinishCuda(k, k.has_input(2) ? 2 : -1, g.out_channels, conv->channels_last ? 1 : pixels, activation);
    }
    if (!absl::IsUnimplemented(finished.status())) return finished.status();
  }
  return OwnConvCuda(k, g, activation);
}

absl::Status ConvGradInputCuda(const KernelContext& k, const ConvGeometry& g) {
  return RunGradient(k, g, OwnConvGradInputCuda);
}

absl::Status ConvGradWeightCuda(const KernelContext& k, const ConvGeometry& g) {
  return RunGradient(k, g, OwnConvGradWeightCuda);
}

}  // namespace snug::ops
