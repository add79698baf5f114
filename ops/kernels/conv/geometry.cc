#include "ops/kernels/conv/geometry.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kit/options.h"
#include "proto/network.pb.h"

namespace snug::core::ops {
namespace {

absl::Status ReadChannels(const proto::Conv& options, ConvGeometry* g) {
  g->groups = options.groups();
  g->out_channels = options.filters();
  if (options.depthwise()) {
    if (options.has_groups() && options.groups() != g->in_channels) {
      return InferContext::OptionError("groups", absl::StrCat("depthwise means one group per channel, which is ",
                                                              g->in_channels, " groups; found ", options.groups()));
    }
    g->groups = g->in_channels;
    if (!options.has_filters()) g->out_channels = g->in_channels;
  }
  if (g->out_channels < 1 || g->out_channels > kMaxSpatialOption) {
    return InferContext::OptionError(
        "filters", options.has_filters()
                       ? absl::StrCat("expected between 1 and ", kMaxSpatialOption, ", found ", g->out_channels)
                       : "is missing");
  }
  if (g->groups < 1 || g->in_channels % g->groups != 0) {
    return InferContext::OptionError(
        "groups", absl::StrCat("expected a divisor of the input's ", g->in_channels, " channels, found ", g->groups));
  }
  if (g->out_channels % g->groups != 0) {
    return InferContext::OptionError(
        "filters", absl::StrCat("expected a multiple of the ", g->groups, " groups, found ", g->out_channels));
  }
  return absl::OkStatus();
}

absl::Status ReadWindow(const proto::Conv& options, ConvGeometry* g) {
  if (options.kernel().empty()) return InferContext::OptionError("kernel", "is missing");
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("kernel", options.kernel(), g->spatial, 1, &g->kernel));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("stride", options.stride(), g->spatial, 1, &g->stride));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("dilation", options.dilation(), g->spatial, 1, &g->dilation));
  SNUG_RETURN_IF_ERROR(ReadSpatialOption("pad", options.pad(), g->spatial, 0, &g->pad_begin));
  g->pad_end = g->pad_begin;
  if (!options.pad().empty() && options.padding() != proto::EXPLICIT) {
    return InferContext::OptionError("pad", absl::StrCat("goes with padding: EXPLICIT only, found padding: ",
                                                         proto::Padding_Name(options.padding())));
  }
  return absl::OkStatus();
}

}  // namespace

Shape ConvGeometry::input_shape() const {
  Shape shape({batch, in_channels});
  for (int i = 0; i < spatial; ++i) shape.Append(in[static_cast<size_t>(i)]);
  return shape;
}

Shape ConvGeometry::output_shape() const {
  Shape shape({batch, out_channels});
  for (int i = 0; i < spatial; ++i) shape.Append(out[static_cast<size_t>(i)]);
  return shape;
}

Shape ConvGeometry::weight_shape() const {
  Shape shape({out_channels, in_channels / groups});
  for (int i = 0; i < spatial; ++i) shape.Append(kernel[static_cast<size_t>(i)]);
  return shape;
}

double ConvGeometry::multiply_adds() const {
  const int64_t group_channels = in_channels / groups;
  return static_cast<double>(output_shape().num_elements()) * static_cast<double>(group_channels * taps());
}

bool IsStrided(const ConvGeometry& g) {
  return std::any_of(g.stride.begin(), g.stride.begin() + g.spatial, [](int64_t s) { return s != 1; });
}

absl::StatusOr<ConvGeometry> MakeConvGeometry(const proto::Conv& options, const Shape& x) {
  ConvGeometry g;
  g.spatial = x.rank() - 2;
  g.batch = x[0];
  g.in_channels = x[1];
  for (int i = 0; i < g.spatial; ++i) g.in[static_cast<size_t>(i)] = x[i + 2];
  SNUG_RETURN_IF_ERROR(ReadChannels(options, &g));
  SNUG_RETURN_IF_ERROR(ReadWindow(options, &g));
  for (size_t i = 0; i < static_cast<size_t>(g.spatial); ++i) {
    const int64_t extent = (g.kernel[i] - 1) * g.dilation[i] + 1;
    if (options.padding() == proto::SAME) {
      g.out[i] = (g.in[i] + g.stride[i] - 1) / g.stride[i];
      const int64_t padding = std::max<int64_t>(0, (g.out[i] - 1) * g.stride[i] + extent - g.in[i]);
      g.pad_begin[i] = padding / 2;
      g.pad_end[i] = padding - padding / 2;
      continue;
    }
    if (g.pad_begin[i] >= extent) {  // a wider padding gives outputs that see nothing of the input
      return InferContext::OptionError("pad", absl::StrCat("expected less than the kernel, which spans ", extent,
                                                           " of axis ", i + 2, ", found ", g.pad_begin[i]));
    }
    const int64_t room = g.in[i] + g.pad_begin[i] + g.pad_end[i];
    if (room < extent) {
      return InferContext::OptionError(
          "kernel",
          absl::StrCat("a kernel of ", g.kernel[i], " with dilation ", g.dilation[i], " does not fit axis ", i + 2,
                       " of the input: ", g.in[i], " + ", g.pad_begin[i] + g.pad_end[i], " of padding"));
    }
    g.out[i] = (room - extent) / g.stride[i] + 1;
  }
  SNUG_RETURN_IF_ERROR(MakeShape(g.weight_shape().dims()));
  SNUG_RETURN_IF_ERROR(MakeShape(g.output_shape().dims()));
  return g;
}

}  // namespace snug::core::ops
