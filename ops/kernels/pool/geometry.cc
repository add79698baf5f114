#include "ops/kernels/pool/geometry.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kit/options.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

constexpr int64_t kMaxAdaptiveSize = 1 << 16;  // keeps products with input sizes far from overflow

using SpatialNumbers = std::array<int64_t, kMaxSpatial>;

// Starts a geometry with what does not depend on the windows.
PoolGeometry Start(const Shape& x, const Layout& layout) {
  PoolGeometry g;
  const bool channels_inside = layout.channels_last();
  g.outer = channels_inside ? x[0] : x[0] * x[1];
  g.lanes = channels_inside ? x[1] : 1;
  return g;
}

// Returns the axis of spatial dimension i of `spatial`; the last one is the width.
PoolAxis& AxisAt(PoolGeometry& g, int spatial, int i) { return g.axes[static_cast<size_t>(kMaxSpatial - spatial + i)]; }

// Sets `out` and, for SAME, the padding.
absl::Status PlaceWindows(const proto::Pool& options, int axis_number, PoolAxis* a) {
  const int64_t extent = (a->window - 1) * a->dilation + 1;
  if (options.padding() == proto::SAME) {
    a->out = (a->in + a->stride - 1) / a->stride;
    const int64_t padding = std::max<int64_t>(0, (a->out - 1) * a->stride + extent - a->in);
    a->pad_begin = padding / 2;
    a->pad_end = padding - padding / 2;
  } else {
    int64_t room = a->in + a->pad_begin + a->pad_end - extent;
    // The last window, even if it is the only one, may then reach beyond the padding (PyTorch's rule).
    if (options.ceil_mode()) room += a->stride - 1;
    if (room < 0) {
      return InferContext::OptionError("kernel", absl::StrCat("a window of ", a->window, " with dilation ", a->dilation,
                                                              " does not fit axis ", axis_number, " of the input: ",
                                                              a->in, " + ", a->pad_begin + a->pad_end, " of padding"));
    }
    a->out = room / a->stride + 1;
    // But it has to start within the input or the padding before it.
    if (options.ceil_mode() && (a->out - 1) * a->stride >= a->in + a->pad_begin) --a->out;
  }
  // Every window has to hold an element of the input. So it may reach over the border by half at most (PyTorch's rule),
  // and its taps may not step over the whole input.
  if (2 * std::max(a->pad_begin, a->pad_end) > extent) {
    return InferContext::OptionError("pad", absl::StrCat("expected at most half of the window, which spans ", extent,
                                                         " of axis ", axis_number, ", found ", a->pad_end));
  }
  if (a->dilation > a->in && a->pad_end > 0) {
    return InferContext::OptionError("dilation",
                                     absl::StrCat("expected at most ", a->in, ", the size of axis ", axis_number,
                                                  ", where there is padding, found ", a->dilation));
  }
  return absl::OkStatus();
}

// The number of a tap is kept in an int32 where the gradient needs it.
absl::Status CheckTaps(const PoolGeometry& g, absl::string_view option) {
  constexpr int64_t kMostTaps = std::numeric_limits<int32_t>::max();
  int64_t room = kMostTaps;
  for (const PoolAxis& axis : g.axes) room /= std::max<int64_t>(1, axis.window);
  if (room > 0) return absl::OkStatus();
  return InferContext::OptionError(
      option, absl::StrCat("expected windows of at most ", kMostTaps, " elements, found ",
                           absl::StrJoin({g.axes[0].window, g.axes[1].window, g.axes[2].window}, " x ")));
}

}  // namespace

absl::StatusOr<PoolGeometry> MakePoolGeometry(const proto::Pool& options, const Shape& x, const Layout& layout) {
  const int spatial = x.rank() - 2;
  PoolGeometry g = Start(x, layout);
  if (options.kernel().empty()) return InferContext::OptionError("kernel", "is missing");
  SpatialNumbers kernel = {1, 1, 1};
  SpatialNumbers dilation = {1, 1, 1};
  SpatialNumbers pad = {0, 0, 0};
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("kernel", options.kernel(), spatial, 1, &kernel));
  SpatialNumbers stride = kernel;
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("stride", options.stride(), spatial, 1, &stride));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("dilation", options.dilation(), spatial, 1, &dilation));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("pad", options.pad(), spatial, 0, &pad));
  if (!options.pad().empty() && options.padding() != proto::EXPLICIT) {
    return InferContext::OptionError("pad", absl::StrCat("goes with padding: EXPLICIT only, found padding: ",
                                                         proto::Padding_Name(options.padding())));
  }
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    PoolAxis& a = AxisAt(g, spatial, i);
    a.in = x[i + 2];
    a.window = kernel[at];
    a.stride = stride[at];
    a.dilation = dilation[at];
    a.pad_begin = a.pad_end = pad[at];
    SNUG_RETURN_IF_ERROR(PlaceWindows(options, i + 2, &a));
  }
  SNUG_RETURN_IF_ERROR(CheckTaps(g, "kernel"));
  return g;
}

absl::StatusOr<PoolGeometry> MakeAdaptivePoolGeometry(absl::Span<const int64_t> given, const Shape& x,
                                                      const Layout& layout) {
  const int spatial = x.rank() - 2;
  PoolGeometry g = Start(x, layout);
  if (given.empty()) return InferContext::OptionError("size", "is missing");
  SpatialNumbers size = {1, 1, 1};
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("size", given, spatial, 1, &size));
  for (int i = 0; i < spatial; ++i) {
    PoolAxis& a = AxisAt(g, spatial, i);
    a.in = x[i + 2];
    a.out = size[static_cast<size_t>(i)];
    a.adaptive = true;
    if (a.out > kMaxAdaptiveSize) {
      return InferContext::OptionError("size", absl::StrCat("expected at most ", kMaxAdaptiveSize, ", found ", a.out));
    }
    a.window = 1;
    for (int64_t o = 0; o < a.out; ++o) a.window = std::max(a.window, a.taps(o).size());
  }
  SNUG_RETURN_IF_ERROR(CheckTaps(g, "size"));
  return g;
}

PoolGeometry MakeGlobalPoolGeometry(const Shape& x, const Layout& layout) {
  PoolGeometry g = Start(x, layout);
  PoolAxis& a = g.axes[2];  // the spatial dimensions lie together, so they can be one
  a.in = a.window = x.Count(2, x.rank());
  a.adaptive = true;
  return g;
}

Shape PooledShape(const PoolGeometry& geometry, const Shape& x) {
  Shape shape = x;
  const int spatial = x.rank() - 2;
  for (int i = 0; i < spatial; ++i) shape[i + 2] = geometry.axes[static_cast<size_t>(kMaxSpatial - spatial + i)].out;
  return shape;
}

}  // namespace snug::core
