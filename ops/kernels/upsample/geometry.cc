#include "ops/kernels/upsample/geometry.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <numeric>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/options.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

constexpr int64_t kLongestAxis = int64_t{1} << 24;  // so that a float holds an element's number

using AxisSizes = std::array<int64_t, kMaxSpatial>;

// Reads the sizes that the scale gives. Each has to be a whole number: how a part of a pixel counts is for `size` to
// say.
absl::Status ReadScale(const proto::Upsample& options, const Shape& x, AxisSizes* sizes) {
  const int spatial = x.rank() - 2;
  const int count = options.scale_size();
  if (count != 1 && count != spatial) {
    return OptionError("scale", absl::StrCat("expected ", spatial == 1 ? "1 number" : absl::StrCat("1 or ", spatial),
                                             spatial == 1 ? "" : " numbers", ", found ", count));
  }
  for (int i = 0; i < spatial; ++i) {
    const double scale = options.scale(count == 1 ? 0 : i);
    const double size = scale * static_cast<double>(x[2 + i]);
    if (!(scale > 0) || size > static_cast<double>(kLongestAxis)) {
      return OptionError("scale", absl::StrCat("expected more than 0, and at most ", kLongestAxis, " along axis ",
                                               2 + i, ", found ", scale));
    }
    const double whole = std::round(size);
    if (whole < 1 || std::abs(size - whole) > 1e-9 * whole) {
      return OptionError("scale", absl::StrCat(scale, " times the ", x[2 + i], " of axis ", 2 + i,
                                               " is no whole number: \"size\" can say which is meant"));
    }
    (*sizes)[static_cast<size_t>(i)] = static_cast<int64_t>(whole);
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const proto::Upsample& options, const Shape& x, AxisSizes* sizes) {
  if (options.scale().empty() && options.size().empty()) return OptionError("scale", "is missing, and so is \"size\"");
  if (!options.scale().empty() && !options.size().empty()) return OptionError("size", "goes without \"scale\" only");
  if (options.size().empty()) return ReadScale(options, x, sizes);
  return ReadSpatialOption("size", options.size(), x.rank() - 2, 1, sizes);
}

UpsampleAxis MakeAxis(int64_t in, int64_t out, bool linear, bool align_corners) {
  UpsampleAxis axis{.in = in, .out = out};
  if (!linear) {  // PyTorch's rule: floor(o in / out)
    axis.step = in;
    axis.unit = out;
  } else if (align_corners) {
    axis.step = out == 1 ? 0 : in - 1;
    axis.unit = out == 1 ? 1 : out - 1;
  } else {  // the middle of a pixel, (o + 1/2) in / out - 1/2
    axis.step = 2 * in;
    axis.shift = in - out;
    axis.unit = 2 * out;
  }
  const int64_t common = std::gcd(std::gcd(axis.step, axis.shift), axis.unit);
  axis.step /= common;
  axis.shift /= common;
  axis.unit /= common;
  return axis;
}

}  // namespace

absl::StatusOr<UpsampleGeometry> MakeUpsampleGeometry(const proto::Upsample& options, const Shape& x,
                                                      const Layout& layout) {
  UpsampleGeometry g;
  g.linear = options.mode() == proto::Upsample::BILINEAR;
  if (options.align_corners() && !g.linear) {
    return OptionError("align_corners", "goes with mode: BILINEAR only, found mode: NEAREST");
  }
  AxisSizes sizes = {1, 1, 1};
  SNUG_RETURN_IF_ERROR(ReadSizes(options, x, &sizes));
  const int spatial = x.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    if (std::max(x[2 + i], size) > kLongestAxis) {
      return OptionError("size",
                         absl::StrCat("expected axes of at most ", kLongestAxis, ", found ", x[2 + i], " and ", size));
    }
    g.axes[static_cast<size_t>(3 - spatial + i)] = MakeAxis(x[2 + i], size, g.linear, options.align_corners());
  }
  g.outer = layout.channels_last() ? x[0] : x[0] * x[1];
  g.lanes = layout.channels_last() ? x[1] : 1;
  return g;
}

Shape UpsampledShape(const UpsampleGeometry& geometry, const Shape& x) {
  Shape y = x;
  for (int i = 2; i < x.rank(); ++i) y[i] = geometry.axes[static_cast<size_t>(3 - x.rank() + i)].out;
  return y;
}

}  // namespace snug::core
