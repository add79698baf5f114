#include "engine/base/shape.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "engine/base/status.h"

namespace snug::core {

Shape::Shape(absl::Span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  SNUG_CHECK(dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::num_elements() const { return Count(0, rank_); }

int64_t Shape::Count(int begin, int end) const {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= (*this)[i];
  return n;
}

void Shape::Append(int64_t dim) {
  SNUG_CHECK(rank_ < kMaxRank);
  (*this)[rank_++] = dim;
}

Shape Shape::WithDim(int axis, int64_t dim) const {
  Shape result = *this;
  result[axis] = dim;
  return result;
}

Shape Shape::Without(int axis) const {
  Shape result;
  for (int i = 0; i < rank_; ++i) {
    if (i != axis) result.Append((*this)[i]);
  }
  return result;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims(), ", "), "]"); }

absl::StatusOr<Shape> MakeShape(absl::Span<const int64_t> dims, bool allow_empty) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shape has at most ", kMaxRank, " dimensions, found ", dims.size()));
  }
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < (allow_empty ? 0 : 1)) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", dim, " of shape [", absl::StrJoin(dims, ", "),
                                                     "]: expected at least ", allow_empty ? 0 : 1));
    }
    if (dim > 0 && elements > kMaxElements / dim) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", absl::StrJoin(dims, ", "), "] has too many elements: at most 2^46 are allowed"));
    }
    elements *= dim;
  }
  return Shape(dims);
}

Strides PlainStrides(const Shape& shape) {
  Strides strides = {};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia];
    const int64_t db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast: ", da, " against ", db));
    }
    result.Append(da == 1 ? db : da);
  }
  return MakeShape(result.dims(), /*allow_empty=*/true);
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, ": expected between ", -rank, " and ", rank - 1, " for a value of rank ", rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace snug::core
