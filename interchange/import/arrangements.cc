#include "interchange/import/arrangements.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/status.h"

namespace snug::core::onnx {
namespace {

absl::StatusOr<std::vector<bool>> MarkedAxes(NodeContext& c, const std::vector<int64_t>& axes, int rank) {
  std::vector<bool> marked(static_cast<size_t>(rank), false);
  for (const int64_t written : axes) {
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(written, rank));
    if (marked[static_cast<size_t>(axis)])
      return absl::InvalidArgumentError(absl::StrCat("names axis ", axis, " twice"));
    marked[static_cast<size_t>(axis)] = true;
  }
  return marked;
}

}  // namespace

absl::StatusOr<std::vector<SliceRange>> SliceRanges(NodeContext& c, const Dims& dims) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> starts, c.ListInput(1, "starts"));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> ends, c.ListInput(2, "ends"));
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (c.has(3)) {
    SNUG_ASSIGN_OR_RETURN(axes, c.ListInput(3, "axes"));
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (c.has(4)) {
    SNUG_ASSIGN_OR_RETURN(steps, c.ListInput(4, "steps"));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return absl::InvalidArgumentError("starts, ends, axes and steps have different lengths");
  }
  const int rank = static_cast<int>(dims.size());
  SNUG_RETURN_IF_ERROR(MarkedAxes(c, axes, rank).status());
  std::vector<SliceRange> ranges;
  for (size_t i = 0; i < starts.size(); ++i) {
    SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(axes[i], rank));
    const int64_t size = dims[static_cast<size_t>(axis)];
    if (steps[i] == 0) return absl::InvalidArgumentError("has a step of 0");
    // Any step that is longer than the axis takes one element.
    const int64_t step = std::clamp(steps[i], -std::max<int64_t>(size, 1), std::max<int64_t>(size, 1));
    // Numbers below 0 count from the end; what lies outside means the outermost.
    const auto place = [size](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 && at >= -size ? at + size : at < 0 ? int64_t{-1} : at, low, high);
    };
    const int64_t begin = step > 0 ? place(starts[i], 0, size) : place(starts[i], -1, size - 1);
    const int64_t end = step > 0 ? place(ends[i], 0, size) : place(ends[i], -1, size - 1);
    const int64_t span = step > 0 ? end - begin : begin - end;
    ranges.push_back({axis, begin, step, span <= 0 ? 0 : (span - 1) / std::abs(step) + 1});
  }
  return ranges;
}

absl::StatusOr<SplitSizes> SplitSizesOf(NodeContext& c, const Dims& dims) {
  SplitSizes split;
  SNUG_ASSIGN_OR_RETURN(split.axis, c.AxisAttribute(0, static_cast<int>(dims.size())));
  SNUG_ASSIGN_OR_RETURN(const auto sizes, c.ListOf("split", 1));
  const int64_t size = dims[static_cast<size_t>(split.axis)];
  const int64_t outputs = c.num_outputs();
  SNUG_ASSIGN_OR_RETURN(const int64_t parts, c.Int("num_outputs", outputs));
  if (sizes.has_value()) {
    split.sizes = *sizes;
  } else {
    if (parts < 1 || parts > size)
      return absl::InvalidArgumentError(absl::StrCat("cuts ", size, " in ", parts, " parts"));
    const int64_t each = (size + parts - 1) / parts;  // the last may be smaller
    for (int64_t begin = 0; begin < size; begin += each) split.sizes.push_back(std::min(each, size - begin));
  }
  int64_t sum = 0;
  for (const int64_t part : split.sizes) {
    if (part < 0 || part > size) return absl::InvalidArgumentError(absl::StrCat("has a part of ", part, " of ", size));
    sum += part;
  }
  if (sum != size || static_cast<int64_t>(split.sizes.size()) != c.num_outputs()) {
    return absl::InvalidArgumentError(absl::StrCat("cuts ", size, " in ", split.sizes.size(), " parts of ", sum,
                                                   " for ", c.num_outputs(), " outputs"));
  }
  return split;
}

absl::StatusOr<Dims> ReshapeDims(NodeContext& c, const Dims& from) {
  SNUG_ASSIGN_OR_RETURN(Dims dims, c.ListInput(1, "shape"));
  SNUG_ASSIGN_OR_RETURN(const int64_t allow_zero, c.Int("allowzero", 0));
  int64_t product = 1, total = 1;
  int open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && allow_zero == 0) {
      if (i >= from.size()) return absl::InvalidArgumentError("its shape has a 0 for an axis that is not there");
      dims[i] = from[i];
    }
    if (dims[i] == -1) {
      if (open >= 0) return absl::InvalidArgumentError("its shape has two open sizes");
      open = static_cast<int>(i);
      continue;
    }
    if (dims[i] < 0) return absl::InvalidArgumentError(absl::StrCat("its shape has a size of ", dims[i]));
    if (__builtin_mul_overflow(product, dims[i], &product)) return absl::InvalidArgumentError("its shape is too large");
  }
  SNUG_ASSIGN_OR_RETURN(total, CountElements(from));
  if (open >= 0) {
    if (product == 0 || total % product != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot give ", DimsText(from), " the shape ", DimsText(dims)));
    }
    dims[static_cast<size_t>(open)] = total / product;
  } else if (product != total) {
    return absl::InvalidArgumentError(absl::StrCat("cannot give ", DimsText(from), " the shape ", DimsText(dims)));
  }
  return dims;
}

absl::StatusOr<Dims> UnsqueezedDims(NodeContext& c, const Dims& from) {
  SNUG_ASSIGN_OR_RETURN(const auto axes, c.ListOf("axes", 1));
  if (!axes.has_value()) return absl::InvalidArgumentError("names no axes");
  if (axes->size() > 64) return absl::InvalidArgumentError("names too many axes");
  const int rank = static_cast<int>(from.size() + axes->size());
  SNUG_ASSIGN_OR_RETURN(const std::vector<bool> added, MarkedAxes(c, *axes, rank));
  Dims dims;
  size_t next = 0;
  for (const bool is_new : added) dims.push_back(is_new ? 1 : from[next++]);
  return dims;
}

absl::StatusOr<Dims> SqueezedDims(NodeContext& c, const Dims& from) {
  SNUG_ASSIGN_OR_RETURN(const auto axes, c.ListOf("axes", 1));
  Dims dims;
  if (!axes.has_value()) {
    for (const int64_t dim : from) {
      if (dim != 1) dims.push_back(dim);
    }
    return dims;
  }
  SNUG_ASSIGN_OR_RETURN(const std::vector<bool> removed, MarkedAxes(c, *axes, static_cast<int>(from.size())));
  for (size_t i = 0; i < from.size(); ++i) {
    if (!removed[i]) dims.push_back(from[i]);
    if (removed[i] && from[i] != 1) return absl::InvalidArgumentError(absl::StrCat("removes an axis of ", from[i]));
  }
  return dims;
}

absl::StatusOr<Dims> FlattenedDims(NodeContext& c, const Dims& from) {
  SNUG_ASSIGN_OR_RETURN(const int64_t written, c.Int("axis", 1));
  const auto rank = static_cast<int64_t>(from.size());
  if (written < -rank || written > rank) return absl::InvalidArgumentError(absl::StrCat("axis ", written));
  const int64_t axis = written < 0 ? written + rank : written;
  SNUG_ASSIGN_OR_RETURN(const int64_t outer, CountElements(Dims(from.begin(), from.begin() + axis)));
  SNUG_ASSIGN_OR_RETURN(const int64_t inner, CountElements(Dims(from.begin() + axis, from.end())));
  return Dims{outer, inner};
}

absl::StatusOr<std::vector<int>> PermutationOf(NodeContext& c, int rank) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> written, c.Ints("perm"));
  std::vector<int> axes;
  if (written.empty()) {
    for (int i = rank; i-- > 0;) axes.push_back(i);
    return axes;
  }
  if (written.size() != static_cast<size_t>(rank))
    return absl::InvalidArgumentError("perm has another length than the shape");
  SNUG_RETURN_IF_ERROR(MarkedAxes(c, written, rank).status());
  for (const int64_t axis : written) {
    SNUG_ASSIGN_OR_RETURN(const int a, c.Axis(axis, rank));
    axes.push_back(a);
  }
  return axes;
}

}  // namespace snug::core::onnx
