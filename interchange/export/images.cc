// Convolutions, pooling and what makes images larger.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "interchange/export/writer.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

// A spatial option for each dimension: one number holds for all.
template <class Field>
std::vector<int64_t> Sizes(const Field& field, int spatial, int64_t usual) {
  std::vector<int64_t> sizes(static_cast<size_t>(spatial), usual);
  for (int i = 0; i < spatial && field.size() > 0; ++i)
    sizes[static_cast<size_t>(i)] = field.Get(field.size() == 1 ? 0 : i);
  return sizes;
}

struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;

  std::vector<int64_t> pads() const {
    std::vector<int64_t> all = before;
    all.insert(all.end(), after.begin(), after.end());
    return all;
  }
};

template <class Message>
Window WindowOf(const Message& o, const Shape& x, const std::vector<int64_t>& kernel) {
  const int spatial = x.rank() - 2;
  Window w;
  w.kernel = kernel;
  w.stride = Sizes(o.stride(), spatial, 1);
  w.dilation = Sizes(o.dilation(), spatial, 1);
  w.before = Sizes(o.pad(), spatial, 0);
  w.after = w.before;
  for (size_t i = 0; o.padding() != proto::EXPLICIT && i < static_cast<size_t>(spatial); ++i) {
    const int64_t in = x[static_cast<int>(i) + 2], out = (in + w.stride[i] - 1) / w.stride[i];
    const int64_t all = (out - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - in;
    const int64_t missing = o.padding() == proto::SAME ? std::max<int64_t>(all, 0) : 0;
    w.before[i] = missing / 2;
    w.after[i] = missing - missing / 2;
  }
  return w;
}

std::vector<int64_t> Spatial(const Shape& shape) { return {shape.dims().begin() + 2, shape.dims().end()}; }

absl::Status Conv(ExportContext& c) {
  const auto& o = c.options<proto::Conv>();
  const Shape& weight = c.shape(1);
  const Window w = WindowOf(o, c.shape(0), Spatial(weight));
  std::vector<std::string> inputs = {c.in(0), c.in(1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  return c.Finish("Conv", inputs,
                  {{"kernel_shape", w.kernel},
                   {"strides", w.stride},
                   {"dilations", w.dilation},
                   {"pads", w.pads()},
                   {"group", c.shape(0)[1] / weight[1]}});
}

// A layer conv_transpose: the gradient of a convolution's input, of a shape that is given.
absl::Status ConvTranspose(ExportContext& c) {
  const auto& o = c.options<proto::ConvGrad>().conv();
  const Shape& x = c.shape(0);
  const Shape& y = c.out_shape();
  const Window w = WindowOf(o, x, Spatial(c.shape(1)));
  if (o.padding() != proto::EXPLICIT) return absl::InvalidArgumentError("has a padding that depends on the result");
  std::vector<int64_t> missing;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t reach =
        (x[axis] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - w.before[i] - w.after[i];
    missing.push_back(y[axis] - reach);
    if (missing[i] < 0) return absl::InvalidArgumentError("is cut off more at the end than at the beginning");
  }
  return c.Finish("ConvTranspose", {c.in(0), c.in(1)},
                  {{"kernel_shape", w.kernel},
                   {"strides", w.stride},
                   {"dilations", w.dilation},
                   {"pads", w.pads()},
                   {"output_padding", missing},
                   {"group", o.groups()}});
}

absl::Status BiasAdd(ExportContext& c) {
  const int64_t written = c.options<proto::BiasAdd>().axis();
  const int64_t axis = written < 0 ? written + c.shape(0).rank() : written;
  std::vector<int64_t> dims(static_cast<size_t>(c.shape(0).rank() - axis), 1);
  dims[0] = c.shape(1)[0];
  return c.Finish("Add", {c.in(0), dims.size() == 1 ? c.in(1) : c.Add("Reshape", {c.in(1), c.List(dims)})});
}

absl::Status Pool(ExportContext& c, bool max) {
  const auto& o = c.options<proto::Pool>();
  const int spatial = c.shape(0).rank() - 2;
  Window w = WindowOf(o, c.shape(0), Sizes(o.kernel(), spatial, 1));
  if (o.stride_size() == 0) w.stride = w.kernel;
  if (o.padding() != proto::EXPLICIT && o.stride_size() == 0) {  // the padding follows from the stride
    proto::Pool with_stride = o;
    for (const int64_t size : w.kernel) with_stride.add_stride(size);
    w = WindowOf(with_stride, c.shape(0), w.kernel);
  }
  // A last window that stands out (ceil_mode) is written as padding, which counts nowhere here: a maximum, or a mean
  // without padding. In a mean with padding it would count, and there windows are cut off by the op itself.
  const bool counts = !max && o.include_padding();
  int64_t stands_out = 0;
  for (size_t i = 0; i < w.kernel.size() && o.ceil_mode(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t reach = (c.out_shape()[axis] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    const int64_t more = std::max<int64_t>(0, reach - c.shape(0)[axis] - w.before[i] - w.after[i]);
    stands_out += more;
    if (!counts) w.after[i] += more;
  }
  Attributes attributes = {{"kernel_shape", w.kernel}, {"strides", w.stride}, {"pads", w.pads()}};
  if (max) attributes.emplace_back("dilations", w.dilation);
  if (counts) attributes.emplace_back("count_include_pad", int64_t{1});
  if (counts && stands_out > 0) attributes.emplace_back("ceil_mode", int64_t{1});
  return c.Finish(max ? "MaxPool" : "AveragePool", {c.in(0)}, attributes);
}

absl::Status MaxPool(ExportContext& c) { return Pool(c, true); }
absl::Status AveragePool(ExportContext& c) { return Pool(c, false); }

absl::Status GlobalPool(ExportContext& c, const char* op) {
  if (c.options<proto::GlobalPool>().keep_dims()) return c.Finish(op, {c.in(0)});
  return c.Finish("Flatten", {c.Add(op, {c.in(0)})}, {{"axis", int64_t{1}}});
}
absl::Status GlobalAveragePool(ExportContext& c) { return GlobalPool(c, "GlobalAveragePool"); }
absl::Status GlobalMaxPool(ExportContext& c) { return GlobalPool(c, "GlobalMaxPool"); }

// Windows of one size, where the image is a multiple of what comes out.
bool HasEqualWindows(ExportContext& c, std::vector<int64_t>* kernel) {
  for (int i = 2; i < c.shape(0).rank(); ++i) {
    if (c.shape(0)[i] % c.out_shape()[i] != 0) return false;
    kernel->push_back(c.shape(0)[i] / c.out_shape()[i]);
  }
  return true;
}

absl::Status AdaptiveMaxPool(ExportContext& c) {
  std::vector<int64_t> kernel;
  if (!HasEqualWindows(c, &kernel)) {
    return absl::InvalidArgumentError(absl::StrCat("has windows of several sizes, from [",
                                                   absl::StrJoin(Spatial(c.shape(0)), ", "), "] to [",
                                                   absl::StrJoin(Spatial(c.out_shape()), ", "), "]"));
  }
  return c.Finish("MaxPool", {c.in(0)}, {{"kernel_shape", kernel}, {"strides", kernel}});
}

// The means over windows of a line, as a matrix [in, out].
std::vector<float> Means(int64_t in, int64_t out) {
  std::vector<float> matrix(static_cast<size_t>(in * out), 0);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    for (int64_t i = begin; i < end; ++i)
      matrix[static_cast<size_t>(i * out + o)] = 1 / static_cast<float>(end - begin);
  }
  return matrix;
}

// Windows of several sizes are products of matrices: a mean over a rectangle is one over its rows of those over
// columns.
absl::Status AdaptiveAveragePool(ExportContext& c) {
  std::vector<int64_t> kernel;
  if (HasEqualWindows(c, &kernel)) {
    return c.Finish("AveragePool", {c.in(0)}, {{"kernel_shape", kernel}, {"strides", kernel}});
  }
  const int rank = c.shape(0).rank();
  const int64_t width = c.shape(0)[rank - 1], out_width = c.out_shape()[rank - 1];
  const std::string columns = c.writer().Floats({width, out_width}, Means(width, out_width));
  if (rank == 3) return c.Finish("MatMul", {c.in(0), columns});
  if (rank > 4) return absl::InvalidArgumentError("has windows of several sizes in three dimensions");
  const std::vector<int64_t> turned = {0, 1, 3, 2};
  const int64_t height = c.shape(0)[2], out_height = c.out_shape()[2];
  const std::string rows = c.writer().Floats({height, out_height}, Means(height, out_height));
  const std::string narrow = c.Add("Transpose", {c.Add("MatMul", {c.in(0), columns})}, {{"perm", turned}});
  return c.Finish("Transpose", {c.Add("MatMul", {narrow, rows})}, {{"perm", turned}});
}

absl::Status Upsample(ExportContext& c) {
  const auto& o = c.options<proto::Upsample>();
  // The size is that of the product, rounded down: where that is not exact, sizes say it.
  std::vector<float> scales;
  bool exact = true;
  for (int i = 0; i < c.shape(0).rank(); ++i) {
    const auto in = static_cast<double>(c.shape(0)[i]), out = static_cast<double>(c.out_shape()[i]);
    scales.push_back(static_cast<float>(out / in));
    exact = exact && static_cast<double>(scales.back()) * in == out;
  }
  Attributes attributes = {{"mode", std::string("nearest")},
                           {"coordinate_transformation_mode", std::string("asymmetric")},
                           {"nearest_mode", std::string("floor")}};
  if (o.mode() == proto::Upsample::BILINEAR) {
    attributes = {{"mode", std::string("linear")},
                  {"coordinate_transformation_mode", std::string(o.align_corners() ? "align_corners" : "half_pixel")}};
  }
  if (exact) {
    const auto count = static_cast<int64_t>(scales.size());
    return c.Finish("Resize", {c.in(0), "", c.writer().Floats({count}, scales)}, attributes);
  }
  const absl::Span<const int64_t> dims = c.out_shape().dims();
  SNUG_ASSIGN_OR_RETURN(const std::string sizes, c.SizesThere({dims.begin(), dims.end()}));
  return c.Finish("Resize", {c.in(0), "", "", sizes}, attributes);
}

}  // namespace

std::vector<NamedTranslation> ImageTranslations() {
  return {{"adaptive_avg_pool", AdaptiveAveragePool},
          {"adaptive_max_pool", AdaptiveMaxPool},
          {"avg_pool", AveragePool},
          {"bias_add", BiasAdd},
          {"conv", Conv},
          {"conv_grad_input", ConvTranspose},
          {"global_avg_pool", GlobalAveragePool},
          {"global_max_pool", GlobalMaxPool},
          {"max_pool", MaxPool},
          {"upsample", Upsample}};
}

}  // namespace snug::core::onnx
