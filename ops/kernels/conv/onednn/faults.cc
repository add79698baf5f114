#include "ops/kernels/conv/onednn/faults.h"

#include <absl/algorithm/container.h>
#include <absl/types/span.h>

namespace snug::core::ops {
namespace {

bool IsPointwise(const ConvGeometry& g) {
  return absl::c_all_of(absl::MakeConstSpan(g.kernel).subspan(0, static_cast<size_t>(g.spatial)),
                        [](int64_t size) { return size == 1; });
}

// For windows of one element in steps, the gradient of weights first gathers the elements that they meet, by vectors of
// channels. Where there are fewer channels than a vector has, it writes into the part of the workspace that is another
// thread's, and behind the workspace.
bool GathersFewChannels(const ConvGeometry& g) {
  constexpr int64_t kVector = 16;
  return IsPointwise(g) && IsStrided(g) && g.in_channels < kVector;
}

// In the depth of volumes the library counts the windows that begin before the data, then those that lie within them,
// then those that reach beyond them: wrongly, where the latter begin before the first have ended.
bool DepthIsAllEdges(const ConvGeometry& g) {
  if (g.spatial != 3 || g.stride[0] == 1 || g.pad_begin[0] <= g.stride[0]) return false;
  // Of the padded data.
  const auto windows_before = [&](int64_t element) { return (element + g.stride[0] - 1) / g.stride[0]; };
  return windows_before(g.pad_begin[0] + g.in[0] - (g.kernel[0] - 1) * g.dilation[0]) <= windows_before(g.pad_begin[0]);
}

// Whether some tap meets nothing but padding along an axis.
bool HasIdleTap(const ConvGeometry& g, size_t axis) {
  for (int64_t tap = 0; tap < g.kernel[axis]; ++tap) {
    const int64_t first = tap * g.dilation[axis] - g.pad_begin[axis];  // what it meets in the first window
    const int64_t windows_before_data = first < 0 ? (-first + g.stride[axis] - 1) / g.stride[axis] : 0;
    if (windows_before_data >= g.out[axis] || first + windows_before_data * g.stride[axis] >= g.in[axis]) return true;
  }
  return false;
}

// The gradient of weights in bfloat16 leaves out the taps that meet nothing but padding, whose gradient is 0 and not
// what was there before.
bool LeavesTapsOut(const ConvGeometry& g) {
  for (size_t axis = 0; axis < static_cast<size_t>(g.spatial); ++axis) {
    if (HasIdleTap(g, axis)) return true;
  }
  return false;
}

// The same gradient takes taps that lie apart for neighbours where it leaves out the padding.
bool TakesTapsForNeighbours(const ConvGeometry& g) {
  const auto is_dilated = [](int64_t step) { return step != 1; };
  const auto is_padded = [](int64_t elements) { return elements != 0; };
  return absl::c_any_of(g.dilation, is_dilated) &&
         (absl::c_any_of(g.pad_begin, is_padded) || absl::c_any_of(g.pad_end, is_padded));
}

// The gradient of data in bfloat16 takes filters by pairs, and an odd one is lost for some pixels.
bool LosesTheOddFilter(const ConvGeometry& g) { return IsPointwise(g) && g.out_channels / g.groups % 2 != 0; }

}  // namespace

std::optional<std::string> OneDnnFaultOf(ConvPart part, const ConvGeometry& g, DType dtype) {
  if (DepthIsAllEdges(g)) return "oneDNN computes wrongly what is padded so far in depth";
  if (part == ConvPart::kGradWeight && GathersFewChannels(g)) {
    return "oneDNN writes beyond its memory for so few channels in steps";
  }
  if (dtype != DType::kBFloat16) return std::nullopt;
  if (part == ConvPart::kGradInput && LosesTheOddFilter(g)) return "oneDNN loses the last of an odd number of filters";
  if (part != ConvPart::kGradWeight) return std::nullopt;
  if (LeavesTapsOut(g)) return "oneDNN leaves out taps that meet padding alone";
  if (TakesTapsForNeighbours(g)) return "oneDNN computes dilated taps beside padding wrongly";
  return std::nullopt;
}

}  // namespace snug::core::ops
