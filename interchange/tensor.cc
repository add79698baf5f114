#include "interchange/tensor.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/status.h"

namespace snug::core::onnx {
namespace {

// To convert what no int64 can hold would be undefined; ends of slices are as large as they come.
int64_t Saturated(double value) {
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value <= -0x1p63) return std::numeric_limits<int64_t>::min();
  return value == value ? static_cast<int64_t>(value) : 0;
}

int64_t Count(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Where element i of a shape lies in a tensor with these strides.
class Walk {
 public:
  Walk(const Dims& dims, std::vector<int64_t> strides)
      : dims_(dims), strides_(std::move(strides)), at_(dims.size(), 0) {}
  int64_t offset() const { return offset_; }
  void Next() {
    for (size_t a = dims_.size(); a-- > 0;) {
      offset_ += strides_[a];
      if (++at_[a] < dims_[a]) return;
      offset_ -= strides_[a] * dims_[a];
      at_[a] = 0;
    }
  }

 private:
  const Dims& dims_;
  std::vector<int64_t> strides_;
  std::vector<int64_t> at_;
  int64_t offset_ = 0;
};

// The strides of a dense tensor, 0 along axes of size 1.
std::vector<int64_t> StridesOf(const Dims& dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t a = dims.size(); a-- > 0;) {
    strides[a] = dims[a] == 1 ? 0 : stride;
    stride *= dims[a];
  }
  return strides;
}

template <class T>
std::vector<T> Gathered(const std::vector<T>& from, const Dims& dims, const std::vector<int64_t>& strides) {
  std::vector<T> to(static_cast<size_t>(Count(dims)));
  Walk walk(dims, strides);
  for (T& value : to) {
    value = from[static_cast<size_t>(walk.offset())];
    walk.Next();
  }
  return to;
}

}  // namespace

absl::StatusOr<int64_t> CountElements(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("a dimension is negative: ", DimsText(dims)));
    if (__builtin_mul_overflow(count, dim, &count) || count > (int64_t{1} << 48)) {
      return absl::InvalidArgumentError(absl::StrCat("too many elements: ", DimsText(dims)));
    }
  }
  return count;
}

std::string DimsText(const Dims& dims) { return absl::StrCat("[", absl::StrJoin(dims, ", "), "]"); }

absl::StatusOr<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {  // from the end
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", DimsText(a), " and ", DimsText(b), " do not fit"));
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Tensor Tensor::Floats(Dims dims, std::vector<float> values) {
  Tensor t;
  t.kind_ = Kind::kFloat;
  t.stored_ = dims;
  t.dims_ = std::move(dims);
  SNUG_CHECK(static_cast<size_t>(Count(t.dims_)) == values.size());
  t.floats_ = std::make_shared<const std::vector<float>>(std::move(values));
  return t;
}

Tensor Tensor::Ints(Dims dims, std::vector<int64_t> values, Kind kind) {
  Tensor t;
  t.kind_ = kind;
  t.stored_ = dims;
  t.dims_ = std::move(dims);
  SNUG_CHECK(static_cast<size_t>(Count(t.dims_)) == values.size());
  t.ints_ = std::make_shared<const std::vector<int64_t>>(std::move(values));
  return t;
}

Tensor Tensor::Make(Kind kind, Dims dims, Dims stored, const std::vector<double>& values) {
  Tensor t;
  if (kind == Kind::kFloat) {
    t = Floats(std::move(stored), {values.begin(), values.end()});
  } else {
    std::vector<int64_t> ints(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ints[i] = kind == Kind::kBool ? static_cast<int64_t>(values[i] != 0) : Saturated(values[i]);
    }
    t = Ints(std::move(stored), std::move(ints), kind);
  }
  t.dims_ = std::move(dims);
  return t;
}

int64_t Tensor::stored_count() const { return Count(stored_); }

absl::StatusOr<Tensor> Tensor::Spread() const {
  if (dims_ == stored_) return *this;
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(dims_));
  if (count > kMaxFoldedElements) {
    return absl::InvalidArgumentError(absl::StrCat("a constant of shape ", DimsText(dims_), " is too large"));
  }
  Tensor t = *this;
  t.stored_ = dims_;
  const std::vector<int64_t> strides = StridesOf(stored_);
  if (is_float()) {
    t.floats_ = std::make_shared<const std::vector<float>>(Gathered(*floats_, dims_, strides));
  } else {
    t.ints_ = std::make_shared<const std::vector<int64_t>>(Gathered(*ints_, dims_, strides));
  }
  return t;
}

absl::StatusOr<Tensor> Tensor::Reshaped(Dims dims) const {
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(dims));
  SNUG_ASSIGN_OR_RETURN(const int64_t own, CountElements(dims_));
  if (count != own) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant of shape ", DimsText(dims_), " cannot become ", DimsText(dims)));
  }
  // Axes of size 1 that come and go change nothing about which axes are repeated.
  const auto without_ones = [](const Dims& d) {
    Dims kept;
    for (const int64_t dim : d) {
      if (dim != 1) kept.push_back(dim);
    }
    return kept;
  };
  Tensor t = *this;
  if (without_ones(dims) == without_ones(dims_)) {
    Dims stored(dims.size(), 1);
    size_t from = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 1) continue;
      while (dims_[from] == 1) ++from;
      stored[i] = stored_[from++];
    }
    t.stored_ = std::move(stored);
  } else {
    SNUG_ASSIGN_OR_RETURN(t, Spread());
    t.stored_ = dims;
  }
  t.dims_ = std::move(dims);
  return t;
}

Tensor Tensor::OnlyStored() const {
  Tensor t = *this;
  t.dims_ = stored_;
  return t;
}

absl::StatusOr<Tensor> Tensor::Transposed(const std::vector<int>& axes) const {
  if (axes.size() != dims_.size())
    return absl::InvalidArgumentError("a constant is transposed by other axes than it has");
  const std::vector<int64_t> strides = StridesOf(stored_);
  Dims dims, stored;
  std::vector<int64_t> moved;
  for (const int axis : axes) {
    const auto a = static_cast<size_t>(axis);
    dims.push_back(dims_[a]);
    stored.push_back(stored_[a]);
    moved.push_back(strides[a]);
  }
  Tensor t = *this;
  if (is_float()) {
    t.floats_ = std::make_shared<const std::vector<float>>(Gathered(*floats_, stored, moved));
  } else {
    t.ints_ = std::make_shared<const std::vector<int64_t>>(Gathered(*ints_, stored, moved));
  }
  t.dims_ = std::move(dims);
  t.stored_ = std::move(stored);
  return t;
}

absl::StatusOr<Tensor> Tensor::BroadcastTo(const Dims& dims) const {
  SNUG_ASSIGN_OR_RETURN(const Dims whole, BroadcastDims(dims_, dims));
  if (whole.size() != dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("shapes ", DimsText(dims_), " and ", DimsText(dims), " do not fit"));
  }
  SNUG_RETURN_IF_ERROR(CountElements(whole).status());
  Tensor t = *this;
  t.stored_.insert(t.stored_.begin(), whole.size() - t.stored_.size(), 1);
  t.dims_ = whole;
  return t;
}

Tensor Tensor::As(Kind kind) const {
  if (kind == kind_) return *this;
  std::vector<double> values(static_cast<size_t>(stored_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = Get(static_cast<int64_t>(i));
  return Make(kind, dims_, stored_, values);
}

absl::StatusOr<std::vector<int64_t>> Tensor::IntList() const {
  if (is_float() || rank() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected a list of integers, found ",
                                                   is_float() ? "floating-point numbers " : "", DimsText(dims_)));
  }
  SNUG_ASSIGN_OR_RETURN(const Tensor all, Spread());
  return all.ints();
}

bool Tensor::IsScalar() const { return stored_count() == 1; }

}  // namespace snug::core::onnx
