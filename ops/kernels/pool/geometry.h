// Says which elements a pooling window covers, and which windows cover an element: that is all in which pooling with a
// kernel, adaptive and global pooling differ. Shape inference and kernels start from it.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/host_device.h"
#include "engine/graph/value_type.h"

namespace snug::proto {
class Pool;
}

namespace snug::core {

struct IndexRange {
  int64_t begin, end;
  SNUG_HOST_DEVICE int64_t size() const { return end - begin; }
};

// One spatial dimension. Window o has the taps k = 0, 1, ... at the elements start(o) + k * dilation.
struct PoolAxis {
  int64_t in = 1, out = 1;
  int64_t window = 1;  // the number of taps; if adaptive, the most that any window has
  int64_t stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  bool adaptive = false;  // PyTorch's rule: window o is [floor(o in / out), ceil((o + 1) in / out))

  SNUG_HOST_DEVICE int64_t start(int64_t o) const { return adaptive ? o * in / out : o * stride - pad_begin; }
  // Returns the taps of window o that lie inside of the input.
  SNUG_HOST_DEVICE IndexRange taps(int64_t o) const {
    const int64_t first = start(o);
    if (adaptive) return {0, DivideUp((o + 1) * in, out) - first};
    return {first < 0 ? DivideUp(-first, dilation) : 0, std::min(window, DivideUp(in - first, dilation))};
  }
  // Returns how many lie inside of the input or its padding.
  SNUG_HOST_DEVICE int64_t padded_taps(int64_t o) const {
    return adaptive ? taps(o).size() : std::min(window, DivideUp(in + pad_end - start(o), dilation));
  }
  // Returns the windows that reach over element i; with dilation, i may fall between their taps.
  SNUG_HOST_DEVICE IndexRange windows(int64_t i) const {
    if (adaptive) return {i * out / in, DivideUp((i + 1) * out, in)};
    const int64_t behind = i + pad_begin - (window - 1) * dilation;
    return {behind <= 0 ? 0 : DivideUp(behind, stride), std::min(out, Divide(i + pad_begin, stride) + 1)};
  }
  // No element is in more windows.
  int64_t most_windows() const {
    if (adaptive) return out == 1 ? 1 : DivideUp(out, in) + 1;
    return std::min(out, DivideUp((window - 1) * dilation + 1, stride));
  }
  // Says that windows are runs of elements which do not overlap.
  bool tiles() const { return most_windows() == 1 && (dilation == 1 || window == 1); }
  // Returns which tap of window o element i is, or -1 if it is none.
  SNUG_HOST_DEVICE int64_t tap(int64_t o, int64_t i) const {
    const int64_t distance = i - start(o);
    if (dilation == 1) return distance;
    return distance % dilation == 0 ? distance / dilation : -1;
  }

 private:
  // Divides with shifts where that is possible: divisors are mostly 1 or 2, and no instruction is slower than a
  // division.
  SNUG_HOST_DEVICE static int64_t Divide(int64_t a, int64_t b) { return b == 1 ? a : b == 2 ? a >> 1 : a / b; }
  SNUG_HOST_DEVICE static int64_t DivideUp(int64_t a, int64_t b) { return Divide(a + b - 1, b); }
};

// The input is seen as [outer, depth, height, width, lanes]. Plain storage has samples and channels outside and one
// lane; channels-last storage has samples outside and the channels as lanes.
struct PoolGeometry {
  int64_t outer = 1, lanes = 1;
  std::array<PoolAxis, 3> axes;  // depth, height, width; absent dimensions have size 1

  int64_t inputs() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t outputs() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t window() const { return axes[0].window * axes[1].window * axes[2].window; }
  // Returns the type in which an index within the window is stored.
  DType index_type() const { return window() <= 255 ? DType::kUint8 : DType::kInt32; }
};

// `x` is [batch, channels, spatial...] with 1 to 3 spatial dimensions. Errors say which option does not suit.
absl::StatusOr<PoolGeometry> MakePoolGeometry(const proto::Pool& options, const Shape& x, const Layout& layout);
// `size` has one number for all spatial dimensions, or one for each.
absl::StatusOr<PoolGeometry> MakeAdaptivePoolGeometry(absl::Span<const int64_t> size, const Shape& x,
                                                      const Layout& layout);
// Makes the geometry of one window over everything.
PoolGeometry MakeGlobalPoolGeometry(const Shape& x, const Layout& layout);

// Returns x's batch and channels with the geometry's output sizes.
Shape PooledShape(const PoolGeometry& geometry, const Shape& x);

}  // namespace snug::core
