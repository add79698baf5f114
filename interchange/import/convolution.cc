// Convolutions, pooling and what makes images larger: their windows, and padding that is not the same on both sides.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  bool same = false;  // ceil(in / stride), with an odd surplus at the end

  int64_t Span(size_t axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

// One number, where it is the same for all spatial dimensions; nothing, where that is `usual`.
template <class Field>
void SetSizes(const std::vector<int64_t>& sizes, int64_t usual, Field* field) {
  const bool equal = std::all_of(sizes.begin(), sizes.end(), [&](int64_t s) { return s == sizes[0]; });
  if (equal && !sizes.empty() && sizes[0] == usual) return;
  for (size_t i = 0; i < (equal ? std::min<size_t>(sizes.size(), 1) : sizes.size()); ++i) field->Add(sizes[i]);
}

absl::Status CheckSizes(absl::string_view what, const std::vector<int64_t>& sizes, size_t spatial, int64_t least) {
  if (sizes.size() != spatial) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": expected ", spatial, " numbers, found ", sizes.size()));
  }
  for (const int64_t size : sizes) {
    if (size < least || size > (int64_t{1} << 31)) {
      return absl::InvalidArgumentError(absl::StrCat(what, ": ", size, " is out of range"));
    }
  }
  return absl::OkStatus();
}

// `image`: the spatial dimensions of the input.
absl::StatusOr<Window> WindowOf(NodeContext& c, std::vector<int64_t> kernel, const Dims& image) {
  const size_t spatial = image.size();
  Window w;
  SNUG_ASSIGN_OR_RETURN(w.kernel, c.Ints("kernel_shape"));
  if (w.kernel.empty()) w.kernel = std::move(kernel);
  SNUG_ASSIGN_OR_RETURN(w.stride, c.Ints("strides"));
  SNUG_ASSIGN_OR_RETURN(w.dilation, c.Ints("dilations"));
  SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> pads, c.Ints("pads"));
  SNUG_ASSIGN_OR_RETURN(const std::string auto_pad, c.String("auto_pad", "NOTSET"));
  if (w.stride.empty()) w.stride.assign(spatial, 1);
  if (w.dilation.empty()) w.dilation.assign(spatial, 1);
  if (pads.empty() || auto_pad != "NOTSET") pads.assign(2 * spatial, 0);
  SNUG_RETURN_IF_ERROR(CheckSizes("kernel_shape", w.kernel, spatial, 1));
  SNUG_RETURN_IF_ERROR(CheckSizes("strides", w.stride, spatial, 1));
  SNUG_RETURN_IF_ERROR(CheckSizes("dilations", w.dilation, spatial, 1));
  SNUG_RETURN_IF_ERROR(CheckSizes("pads", pads, 2 * spatial, 0));
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
  w.after.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  if (auto_pad == "SAME_UPPER") {
    w.same = true;
  } else if (auto_pad == "SAME_LOWER") {
    for (size_t i = 0; i < spatial; ++i) {
      const int64_t out = (image[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t all =
          std::max<int64_t>(0, (out - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - image[i]);
      w.after[i] = all / 2;
      w.before[i] = all - all / 2;
    }
  } else if (auto_pad != "NOTSET" && auto_pad != "VALID") {
    return absl::InvalidArgumentError(absl::StrCat("auto_pad ", auto_pad, " is not known"));
  }
  return w;
}

Dims ImageOf(const Ref& x) { return {x.dims.begin() + 2, x.dims.end()}; }

// The input as [batch, channels, spatial...].
absl::StatusOr<Ref> ImageInput(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  if (x.rank() < 3 || x.rank() > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a batch, channels and 1 to 3 spatial dimensions, found ", DimsText(x.shape)));
  }
  return InOrder(c.builder(), x);
}

// Padding on one side only is a layer of its own; then the window has none.
absl::StatusOr<Ref> PadUneven(NodeContext& c, Ref x, double value, Window* w) {
  if (w->before == w->after) return x;
  proto::Layer layer;
  proto::Pad* pad = layer.mutable_pad();
  for (size_t i = 0; i < w->before.size(); ++i) {
    if (w->before[i] == 0 && w->after[i] == 0) continue;
    pad->add_axis(static_cast<int64_t>(i) + 2);
    pad->add_before(w->before[i]);
    pad->add_after(w->after[i]);
  }
  if (value != 0) pad->set_value(value);
  w->before.assign(w->before.size(), 0);
  w->after = w->before;
  return c.builder().AddOne(absl::StrCat(c.LayerName(), ".pad"), std::move(layer), {x});
}

// Returns the weight, which has to have as many axes as x.
absl::StatusOr<Tensor> WeightOf(NodeContext& c, const Ref& x) {
  SNUG_ASSIGN_OR_RETURN(const Tensor* weight, c.ConstantInput(1, "W"));
  if (!weight->is_float() || weight->rank() != static_cast<int>(x.dims.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 1 (W): expected ", x.dims.size(), " axes, found ", DimsText(weight->dims())));
  }
  return *weight;
}

// Makes the layer, of which `conv` is a part, with the bias if the node has one.
template <class Convolution>
absl::Status Convolve(NodeContext& c, const Ref& x, const Tensor& weight, Convolution* conv, proto::Layer* layer) {
  Weights weights = {{"weight", weight}};
  if (c.has(2)) {
    SNUG_ASSIGN_OR_RETURN(const Tensor* bias, c.ConstantInput(2, "B"));
    weights.emplace_back("bias", *bias);
  } else {
    conv->set_bias(false);
  }
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(*layer), {x}, weights, &weight));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::Status Conv(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Ref x, ImageInput(c));
  SNUG_ASSIGN_OR_RETURN(const Tensor weight, WeightOf(c, x));
  SNUG_ASSIGN_OR_RETURN(Window w, WindowOf(c, Dims(weight.dims().begin() + 2, weight.dims().end()), ImageOf(x)));
  SNUG_ASSIGN_OR_RETURN(const int64_t groups, c.Int("group", 1));
  SNUG_ASSIGN_OR_RETURN(x, PadUneven(c, x, 0, &w));
  proto::Layer layer;
  proto::Conv* conv = layer.mutable_conv();
  const int64_t filters = weight.dims()[0];
  if (groups == x.dims[1] && groups > 1) {
    conv->set_depthwise(true);
    if (filters != groups) conv->set_filters(filters);
  } else {
    conv->set_filters(filters);
    if (groups != 1) conv->set_groups(groups);
  }
  SetSizes(w.kernel, 0, conv->mutable_kernel());
  SetSizes(w.stride, 1, conv->mutable_stride());
  SetSizes(w.dilation, 1, conv->mutable_dilation());
  SetSizes(w.before, 0, conv->mutable_pad());
  if (w.same) conv->set_padding(proto::SAME);
  return Convolve(c, x, weight, conv, &layer);
}

absl::Status ConvTranspose(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ImageInput(c));
  SNUG_ASSIGN_OR_RETURN(const Tensor weight, WeightOf(c, x));
  SNUG_ASSIGN_OR_RETURN(const Window w, WindowOf(c, Dims(weight.dims().begin() + 2, weight.dims().end()), ImageOf(x)));
  SNUG_ASSIGN_OR_RETURN(const int64_t groups, c.Int("group", 1));
  SNUG_ASSIGN_OR_RETURN(std::vector<int64_t> output_pad, c.Ints("output_padding"));
  if (c.HasAttribute("output_shape")) return absl::InvalidArgumentError("attribute output_shape: say pads instead");
  SNUG_ASSIGN_OR_RETURN(const std::string auto_pad, c.String("auto_pad", "NOTSET"));
  if (absl::StartsWith(auto_pad, "SAME")) {
    return absl::InvalidArgumentError(absl::StrCat("auto_pad ", auto_pad, ": say pads instead"));
  }
  if (groups < 1) return absl::InvalidArgumentError("attribute group: expected 1 or more");
  if (output_pad.empty()) output_pad.assign(w.kernel.size(), 0);
  SNUG_RETURN_IF_ERROR(CheckSizes("output_padding", output_pad, w.kernel.size(), 0));
  // Less is cut off at the end than at the beginning: that is padding of the output.
  for (size_t i = 0; i < w.before.size(); ++i) output_pad[i] += w.before[i] - w.after[i];
  for (const int64_t pad : output_pad) {
    if (pad < 0) return absl::InvalidArgumentError("cuts more off at the end than at the beginning");
  }
  proto::Layer layer;
  proto::ConvTranspose* conv = layer.mutable_conv_transpose();
  conv->set_filters(weight.dims()[1] * groups);
  if (groups != 1) conv->set_groups(groups);
  SetSizes(w.kernel, 0, conv->mutable_kernel());
  SetSizes(w.stride, 1, conv->mutable_stride());
  SetSizes(w.dilation, 1, conv->mutable_dilation());
  SetSizes(w.before, 0, conv->mutable_pad());
  SetSizes(output_pad, 0, conv->mutable_output_pad());
  return Convolve(c, x, weight, conv, &layer);
}

// How many windows there are along an axis. With `ceil_mode` the last one may stand out, but begins within the data or
// the padding before them.
int64_t WindowsAlong(const Window& w, size_t axis, int64_t size, bool ceil_mode) {
  const int64_t step = w.stride[axis];
  const int64_t room = size + w.before[axis] + w.after[axis] - w.Span(axis);
  const int64_t count = (ceil_mode ? room + step - 1 : room) / step + 1;
  return ceil_mode && (count - 1) * step >= size + w.before[axis] ? count - 1 : count;
}

absl::Status Pool(NodeContext& c, bool max) {
  SNUG_ASSIGN_OR_RETURN(Ref x, ImageInput(c));
  SNUG_ASSIGN_OR_RETURN(Window w, WindowOf(c, {}, ImageOf(x)));
  SNUG_ASSIGN_OR_RETURN(int64_t ceil_mode, c.Int("ceil_mode", 0));
  SNUG_ASSIGN_OR_RETURN(const int64_t include, c.Int("count_include_pad", 0));
  SNUG_ASSIGN_OR_RETURN(const int64_t column_major, c.Int("storage_order", 0));
  if (c.num_outputs() > 1) return absl::InvalidArgumentError("its second output, the indices, is not imported");
  if (column_major != 0) return absl::InvalidArgumentError("attribute storage_order: only 0");
  const bool padded = w.same || w.before != std::vector<int64_t>(w.before.size(), 0) || w.before != w.after;
  Dims expected;
  if (w.before != w.after) {
    for (size_t i = 0; i < w.before.size(); ++i) expected.push_back(WindowsAlong(w, i, x.dims[i + 2], ceil_mode != 0));
  }
  if (!max && include == 0) {
    // A mean that does not count more padding at the end is one whose last window stands out: ceil_mode.
    w.after = w.before;
  } else if (!expected.empty() && ceil_mode != 0) {
    // Padding is a layer of its own, in which no window may begin: it ends with the last one.
    for (size_t i = 0; i < w.before.size(); ++i) {
      const int64_t end = (expected[i] - 1) * w.stride[i] + w.Span(i) - x.dims[i + 2] - w.before[i];
      if (!max && end > w.after[i]) return absl::InvalidArgumentError("ceil_mode: averages beyond the padding");
      w.after[i] = std::max<int64_t>(end, 0);
    }
    ceil_mode = 0;
  }
  SNUG_ASSIGN_OR_RETURN(x, PadUneven(c, x, max ? -std::numeric_limits<double>::infinity() : 0, &w));
  proto::Layer layer;
  proto::Pool* pool = max ? layer.mutable_max_pool() : layer.mutable_avg_pool();
  SetSizes(w.kernel, 0, pool->mutable_kernel());
  if (w.stride != w.kernel) SetSizes(w.stride, 0, pool->mutable_stride());
  SetSizes(w.dilation, 1, pool->mutable_dilation());
  SetSizes(w.before, 0, pool->mutable_pad());
  if (w.same) pool->set_padding(proto::SAME);
  if (ceil_mode != 0 || (!expected.empty() && !max && include == 0)) pool->set_ceil_mode(true);
  if (!max && include == 0 && padded) pool->set_include_padding(false);
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {x}));
  if (!expected.empty() && ImageOf(y) != expected) {
    return absl::InvalidArgumentError(max || include != 0
                                          ? "padding that is not the same on both sides, with these windows"
                                          : "averages without padding that is not the same on both sides");
  }
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

absl::Status MaxPool(NodeContext& c) { return Pool(c, true); }
absl::Status AveragePool(NodeContext& c) { return Pool(c, false); }

absl::Status GlobalPool(NodeContext& c, bool max) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ImageInput(c));
  proto::Layer layer;
  max ? void(layer.mutable_global_max_pool()) : void(layer.mutable_global_avg_pool());
  Value y;
  SNUG_ASSIGN_OR_RETURN(y.ref, c.Layer(std::move(layer), {x}));
  // In ONNX the spatial dimensions stay, with size 1.
  y.shape = {x.dims[0], x.dims[1]};
  y.axes = {{0}, {1}};
  y.shape.resize(x.dims.size(), 1);
  y.axes.resize(x.dims.size());
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

absl::Status GlobalAveragePool(NodeContext& c) { return GlobalPool(c, false); }
absl::Status GlobalMaxPool(NodeContext& c) { return GlobalPool(c, true); }

absl::Status Resize(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Ref x, ImageInput(c));
  SNUG_ASSIGN_OR_RETURN(const std::string mode, c.String("mode", "nearest"));
  SNUG_ASSIGN_OR_RETURN(const std::string where, c.String("coordinate_transformation_mode", "half_pixel"));
  SNUG_ASSIGN_OR_RETURN(const std::string nearest, c.String("nearest_mode", "round_prefer_floor"));
  SNUG_ASSIGN_OR_RETURN(const int64_t antialias, c.Int("antialias", 0));
  SNUG_ASSIGN_OR_RETURN(const std::string policy, c.String("keep_aspect_ratio_policy", "stretch"));
  for (const char* name : {"cubic_coeff_a", "exclude_outside", "extrapolation_value"}) c.Ignore(name);
  if (antialias != 0 || c.HasAttribute("axes") || policy != "stretch") {
    return absl::InvalidArgumentError("attributes antialias, axes and keep_aspect_ratio_policy are not imported");
  }
  Dims size = x.dims;
  if (c.has(3)) {
    SNUG_ASSIGN_OR_RETURN(size, c.ListInput(3, "sizes"));
    if (size.size() != x.dims.size()) return absl::InvalidArgumentError("its sizes are not one for each axis");
  } else {
    SNUG_ASSIGN_OR_RETURN(const Tensor* scales, c.ConstantInput(2, "scales"));
    if (scales->stored_count() != static_cast<int64_t>(size.size())) {
      return absl::InvalidArgumentError("its scales are not one for each axis");
    }
    for (size_t i = 0; i < size.size(); ++i) {
      const double exact = static_cast<double>(size[i]) * scales->Get(static_cast<int64_t>(i));
      if (!(exact >= 1 && exact < 0x1p31) || exact != std::floor(exact)) {
        return absl::InvalidArgumentError(absl::StrCat("scales ", size[i], " to ", exact));
      }
      size[i] = static_cast<int64_t>(exact);
    }
  }
  if (size[0] != x.dims[0] || size[1] != x.dims[1]) return absl::InvalidArgumentError("resizes batch or channels");
  proto::Layer layer;
  proto::Upsample* upsample = layer.mutable_upsample();
  for (size_t i = 2; i < size.size(); ++i) upsample->add_size(size[i]);
  if (mode == "linear" && (where == "half_pixel" || where == "pytorch_half_pixel" || where == "align_corners")) {
    upsample->set_mode(proto::Upsample::BILINEAR);
    if (where == "align_corners") upsample->set_align_corners(true);
  } else if (mode != "nearest" || where != "asymmetric" || nearest != "floor") {
    return absl::InvalidArgumentError(absl::StrCat(
        "mode ", mode, " with coordinates ", where, mode == "nearest" ? absl::StrCat(" and ", nearest) : "",
        ": only linear with half_pixel or align_corners, and nearest with asymmetric and floor"));
  }
  SNUG_ASSIGN_OR_RETURN(Ref y, c.Layer(std::move(layer), {x}));
  c.SetRef(0, std::move(y));
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedMapping> ConvolutionMappings() {
  return {{"Conv", Conv},
          {"ConvTranspose", ConvTranspose},
          {"MaxPool", MaxPool},
          {"AveragePool", AveragePool},
          {"GlobalAveragePool", GlobalAveragePool},
          {"GlobalMaxPool", GlobalMaxPool},
          {"Resize", Resize}};
}

}  // namespace snug::core::onnx
