#include "ops/slice_box.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kit/options.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

absl::Status CheckCount(absl::string_view option, int count, int axes) {
  if (count <= axes) return absl::OkStatus();
  return InferContext::OptionError(
      option, absl::StrCat("expected at most one number for each of the ", axes, " in \"axis\", found ", count));
}

}  // namespace

absl::StatusOr<SliceBox> ResolveSlice(const proto::Slice& options, const Shape& whole) {
  SNUG_RETURN_IF_ERROR(CheckCount("begin", options.begin_size(), options.axis_size()));
  SNUG_RETURN_IF_ERROR(CheckCount("end", options.end_size(), options.axis_size()));
  SNUG_RETURN_IF_ERROR(CheckCount("step", options.step_size(), options.axis_size()));
  SliceBox box = {whole, whole, whole};
  for (int i = 0; i < whole.rank(); ++i) {
    box.begin[i] = 0;
    box.step[i] = 0;  // the axis has not been named yet
  }
  for (int i = 0; i < options.axis_size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption("axis", options.axis(i), whole.rank()));
    const int64_t size = whole[axis];
    const int64_t begin = i < options.begin_size() ? options.begin(i) : 0;
    const int64_t end = i < options.end_size() ? options.end(i) : size;
    const int64_t step = i < options.step_size() ? options.step(i) : 1;
    if (box.step[axis] != 0) {
      return InferContext::OptionError("axis", absl::StrCat("expected each axis once, found axis ", axis, " again"));
    }
    if (begin < -size || begin >= size) {
      return InferContext::OptionError(
          "begin", absl::StrCat("expected between ", -size, " and ", size - 1, " for axis ", axis, ", found ", begin));
    }
    if (end < -size || end > size) {
      return InferContext::OptionError(
          "end", absl::StrCat("expected between ", -size, " and ", size, " for axis ", axis, ", found ", end));
    }
    if (step < 1) return InferContext::OptionError("step", absl::StrCat("expected at least 1, found ", step));
    const int64_t first = begin < 0 ? begin + size : begin;
    const int64_t behind = end < 0 ? end + size : end;
    if (first >= behind) {
      return InferContext::OptionError(
          "end", absl::StrCat("nothing is left of axis ", axis, " (", size, " elements) from ", begin, " to ", end));
    }
    box.begin[axis] = first;
    box.step[axis] = step;
    box.shape[axis] = (behind - first - 1) / step + 1;
  }
  for (int i = 0; i < whole.rank(); ++i) box.step[i] = std::max<int64_t>(box.step[i], 1);
  return box;
}

proto::Slice SliceAlong(int axis, int64_t begin, int64_t size) {
  proto::Slice slice;
  slice.add_axis(axis);
  slice.add_begin(begin);
  slice.add_end(begin + size);
  return slice;
}

}  // namespace snug::core
