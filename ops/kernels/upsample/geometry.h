// Says where the places of a resized image lie in the image before, along each axis by itself. Shape inference and
// kernels start from it.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/host_device.h"
#include "engine/graph/value_type.h"

namespace snug::proto {
class Upsample;
}

namespace snug::core {

// One spatial dimension. Place o of the output lies at element Position(o) / unit of the input. These are whole
// numbers, so every kernel finds the same places.
struct UpsampleAxis {
  int64_t in = 1, out = 1;
  int64_t step = 1, shift = 0, unit = 1;  // the position is step * o + shift, within the input

  SNUG_HOST_DEVICE int64_t Position(int64_t o) const {
    const int64_t position = step * o + shift;
    const int64_t last = (in - 1) * unit;
    return position < 0 ? 0 : position > last ? last : position;
  }
  // Returns the first place at element i or behind it; `out`: there is none.
  SNUG_HOST_DEVICE int64_t FirstFrom(int64_t i) const {
    const int64_t distance = i * unit - shift;
    if (i <= 0 || distance <= 0) return 0;
    if (step == 0) return out;
    const int64_t first = (distance + step - 1) / step;
    return first < out ? first : out;
  }
};

// The input is seen as [outer, depth, height, width, lanes]. Plain storage has samples and channels outside and one
// lane; channels-last storage has samples outside and the channels as lanes.
struct UpsampleGeometry {
  int64_t outer = 1, lanes = 1;
  std::array<UpsampleAxis, 3> axes;  // depth, height, width; absent dimensions have size 1
  // A place takes the elements before and behind it, each by how near it is; otherwise the one before it.
  bool linear = false;

  int64_t input_rows() const { return outer * axes[0].in * axes[1].in; }
  int64_t output_rows() const { return outer * axes[0].out * axes[1].out; }
};

// `x` is [batch, channels, spatial...] with 1 to 3 spatial dimensions. Errors say which option does not suit.
absl::StatusOr<UpsampleGeometry> MakeUpsampleGeometry(const proto::Upsample& options, const Shape& x,
                                                      const Layout& layout);

// Returns x's batch and channels with the geometry's output sizes.
Shape UpsampledShape(const UpsampleGeometry& geometry, const Shape& x);

}  // namespace snug::core
