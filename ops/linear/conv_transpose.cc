// conv_transpose: what a convolution's gradient does to an image, as a layer of its own: conv_grad_input, and a bias. A
// stride makes the image larger.
//
// The convolution in question goes from y to x. It has the same kernel, stride, dilation, pad and groups.
#include <absl/strings/str_cat.h>

#include <array>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::conv_transpose {
namespace {

using Numbers = std::array<int64_t, kMaxSpatial>;

struct Window {
  Numbers kernel = {1, 1, 1}, stride = {1, 1, 1}, dilation = {1, 1, 1}, pad = {}, output_pad = {};
};

absl::Status CheckChannels(const proto::ConvTranspose& options, int64_t channels) {
  if (!options.has_filters()) return OptionError("filters", "is missing");
  if (options.filters() < 1 || options.filters() > kMaxSpatialOption) {
    return OptionError("filters",
                       absl::StrCat("expected between 1 and ", kMaxSpatialOption, ", found ", options.filters()));
  }
  const int64_t groups = options.groups();
  if (groups < 1 || channels % groups != 0) {
    return OptionError("groups",
                       absl::StrCat("expected a divisor of the input's ", channels, " channels, found ", groups));
  }
  if (options.filters() % groups != 0) {
    return OptionError("filters",
                       absl::StrCat("expected a multiple of the ", groups, " groups, found ", options.filters()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Window> ReadWindow(const proto::ConvTranspose& options, int spatial) {
  Window w;
  if (options.kernel().empty()) return OptionError("kernel", "is missing");
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("kernel", options.kernel(), spatial, 1, &w.kernel));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("stride", options.stride(), spatial, 1, &w.stride));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("dilation", options.dilation(), spatial, 1, &w.dilation));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("pad", options.pad(), spatial, 0, &w.pad));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("output_pad", options.output_pad(), spatial, 0, &w.output_pad));
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    const int64_t span = (w.kernel[i] - 1) * w.dilation[i] + 1;
    if (w.pad[i] >= span) {
      return OptionError("pad", absl::StrCat("expected less than the kernel, which spans ", span, " of axis ", i + 2,
                                             ", found ", w.pad[i]));
    }
    if (w.output_pad[i] >= w.stride[i] && w.output_pad[i] >= w.dilation[i]) {
      return OptionError("output_pad",
                         absl::StrCat("expected less than the stride, ", w.stride[i], ", or the dilation, ",
                                      w.dilation[i], ", of axis ", i + 2, ", found ", w.output_pad[i]));
    }
  }
  return w;
}

absl::StatusOr<Shape> OutputShape(const Window& w, const Shape& x, int64_t filters) {
  Shape y({x[0], filters});
  for (int axis = 2; axis < x.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis - 2);
    const int64_t span = (w.kernel[i] - 1) * w.dilation[i] + 1;
    // It is checked before it is multiplied, so that nothing overflows.
    if (x[axis] - 1 > kMaxElements / w.stride[i]) {
      return OptionError("stride", absl::StrCat("makes axis ", axis, " too long: ", x[axis], " times ", w.stride[i]));
    }
    const int64_t size = (x[axis] - 1) * w.stride[i] + span - 2 * w.pad[i] + w.output_pad[i];
    if (size < 1) {
      return OptionError("pad", absl::StrCat("leaves nothing of axis ", axis, ": ", w.pad[i], " on both sides of ",
                                             size + 2 * w.pad[i]));
    }
    y.Append(size);
  }
  return MakeShape(y.dims());
}

// Zeros behind x say that the convolution finds more windows in y than x has places: `output_pad` is a stride or more.
ValueId WithMorePlaces(LayerContext& c, ValueId x, const Window& w) {
  proto::Pad more;
  for (int axis = 2; axis < c.type(x).shape.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis - 2);
    if (w.output_pad[i] < w.stride[i]) continue;
    more.add_axis(axis);
    more.add_before(0);
    more.add_after(w.output_pad[i] / w.stride[i]);
  }
  return more.axis().empty() ? x : c.Op("pad", {x}, proto::MakeOptions(more), "more");
}

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const auto& options = c.options<proto::ConvTranspose>();
  const Shape x = c.type(c.input(0)).shape;
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > kMaxSpatial) {
    return About({.kind = ErrorPart::Kind::kInput, .index = 0},
                 absl::InvalidArgumentError(
                     absl::StrCat("input 0 \"x\" ", x.ToString(),
                                  ": expected 3 to 5 dimensions (batch, channels, 1 to 3 spatial), found ", x.rank())));
  }
  SNUG_RETURN_IF_ERROR(CheckChannels(options, x[1]));
  SNUG_ASSIGN_OR_RETURN(const Window window, ReadWindow(options, spatial));
  SNUG_ASSIGN_OR_RETURN(const Shape y, OutputShape(window, x, options.filters()));

  proto::ConvGrad grad;
  proto::Conv* const conv = grad.mutable_conv();
  conv->set_filters(x[1]);
  *conv->mutable_kernel() = options.kernel();
  *conv->mutable_stride() = options.stride();
  *conv->mutable_dilation() = options.dilation();
  *conv->mutable_pad() = options.pad();
  conv->set_groups(options.groups());
  conv->set_bias(false);
  SetShapeOption(y, &grad);

  Shape weight({x[1], options.filters() / options.groups()});
  for (int i = 0; i < spatial; ++i) weight.Append(window.kernel[static_cast<size_t>(i)]);
  // As PyTorch counts them, as if it were the convolution's weight.
  const int64_t fan_in = weight.Count(1, weight.rank());
  const int64_t fan_out = x[1] / options.groups() * weight.Count(2, weight.rank());
  const ValueId w = c.Parameter({.name = "weight", .shape = weight, .fan_in = fan_in, .fan_out = fan_out});
  const ValueId from = WithMorePlaces(c, c.input(0), window);
  const absl::string_view name = options.bias() ? "product" : "";  // the last node has the layer's own name
  ValueId result = c.Op("conv_grad_input", {from, w}, proto::MakeOptions(grad), name);
  if (options.bias()) {
    const ValueId bias =
        c.Parameter({.name = "bias", .shape = Shape({options.filters()}), .fan_in = fan_in, .fan_out = fan_out});
    result = c.Op("bias_add", {result, bias}, proto::MakeOptions(proto::BiasAdd()));
  }
  c.SetOutput(0, result);
  return c.status();
}

}  // namespace

SNUG_OPS(conv_transpose) {
  return {{.name = "conv_transpose",
           .doc = "y = conv_grad_input(x, w) + bias over 1 to 3 spatial dimensions",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .layer = Layer,
           .gradient = [](GradContext& /*g*/) { return absl::OkStatus(); },  // its nodes have theirs
           .traits = {.layer_only = true}}};
}

}  // namespace snug::core::ops::conv_transpose
