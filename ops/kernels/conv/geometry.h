// The numbers of one convolution, worked out from its options and shapes. Shape inference, the plain kernels and the
// library wrapper all start from them.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>

#include "engine/base/shape.h"
#include "ops/kit/options.h"

namespace snug::proto {
class Conv;
}

namespace snug::core::ops {

// In spatial arrays the first `spatial` numbers count; beyond them a size is 1 and a padding 0.
struct ConvGeometry {
  int spatial = 0;  // 1 to 3
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  std::array<int64_t, kMaxSpatial> in = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> out = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> kernel = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> stride = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> dilation = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> pad_begin = {0, 0, 0};
  std::array<int64_t, kMaxSpatial> pad_end = {0, 0, 0};

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }  // in one channel
  Shape input_shape() const;
  Shape output_shape() const;
  Shape weight_shape() const;  // [filters, channels / groups, kernel...]
  // These count padding as data, and no bias.
  double multiply_adds() const;
};

// Says whether it goes in longer steps than of one along an axis.
bool IsStrided(const ConvGeometry& g);

// `x` is [batch, channels, spatial...] with 1 to 3 spatial dimensions. The error says which option does not suit.
absl::StatusOr<ConvGeometry> MakeConvGeometry(const proto::Conv& options, const Shape& x);

}  // namespace snug::core::ops
