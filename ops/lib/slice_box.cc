#include "ops/lib/slice_box.h"

#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/lib/axis_option.h"
#include "proto/network.pb.h"

namespace snug {
namespace {

int64_t FromTheEnd(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

}  // namespace

absl::StatusOr<SliceBox> ResolveSlice(const InferContext& c, const proto::Slice& options, const Shape& whole) {
  const auto list = [&](absl::string_view name, int size) {
    if (size <= options.axis_size()) return absl::OkStatus();
    return c.OptionError(name, absl::StrCat("expected at most one number for each of the ", options.axis_size(),
                                            " in \"axis\", found ", size));
  };
  SNUG_RETURN_IF_ERROR(list("begin", options.begin_size()));
  SNUG_RETURN_IF_ERROR(list("end", options.end_size()));
  SNUG_RETURN_IF_ERROR(list("step", options.step_size()));
  std::array<bool, kMaxRank> used = {};
  for (int i = 0; i < options.axis_size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(const int axis, AxisOption(c, "axis", options.axis(i), whole.rank()));
    if (used[static_cast<size_t>(axis)]) {
      return c.OptionError("axis", absl::StrCat("expected each axis once, found axis ", axis, " again"));
    }
    used[static_cast<size_t>(axis)] = true;
    const int64_t size = whole[axis];
    const int64_t begin = i < options.begin_size() ? options.begin(i) : 0;
    const int64_t end = i < options.end_size() ? options.end(i) : size;
    if (begin < -size || begin >= size) {
      return c.OptionError(
          "begin", absl::StrCat("expected between ", -size, " and ", size - 1, " for axis ", axis, ", found ", begin));
    }
    if (end < -size || end > size) {
      return c.OptionError(
          "end", absl::StrCat("expected between ", -size, " and ", size, " for axis ", axis, ", found ", end));
    }
    if (FromTheEnd(begin, size) >= FromTheEnd(end, size)) {
      return c.OptionError(
          "end", absl::StrCat("nothing is left of axis ", axis, " (", size, " elements) from ", begin, " to ", end));
    }
    if (i < options.step_size() && options.step(i) < 1) {
      return c.OptionError("step", absl::StrCat("expected at least 1, found ", options.step(i)));
    }
  }
  return ResolveSlice(options, whole);
}

SliceBox ResolveSlice(const proto::Slice& options, const Shape& whole) {
  SliceBox box = {whole, whole, whole};
  for (int i = 0; i < whole.rank(); ++i) {
    box.begin[i] = 0;
    box.step[i] = 1;
  }
  for (int i = 0; i < options.axis_size(); ++i) {
    const int axis = static_cast<int>(FromTheEnd(options.axis(i), whole.rank()));
    const int64_t size = whole[axis];
    const int64_t begin = i < options.begin_size() ? FromTheEnd(options.begin(i), size) : 0;
    const int64_t end = i < options.end_size() ? FromTheEnd(options.end(i), size) : size;
    const int64_t step = i < options.step_size() ? options.step(i) : 1;
    box.begin[axis] = begin;
    box.step[axis] = step;
    box.shape[axis] = (end - begin - 1) / step + 1;
  }
  return box;
}

proto::Slice SliceAlong(int axis, int64_t begin, int64_t size) {
  proto::Slice slice;
  slice.add_axis(axis);
  slice.add_begin(begin);
  slice.add_end(begin + size);
  return slice;
}

}  // namespace snug
