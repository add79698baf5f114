// Shape holds up to eight dimensions inline, and does the arithmetic that every op needs. Sizes never overflow
// silently: shapes that come from outside go through MakeShape, which bounds the number of elements.
#pragma once

#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace snug::core {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 46;

class Shape {
 public:
  Shape() = default;  // rank 0: one element
  Shape(std::initializer_list<int64_t> dims) : Shape(absl::Span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  absl::Span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  int64_t num_elements() const;
  // Returns the number of elements in axes [begin, end).
  int64_t Count(int begin, int end) const;

  void Append(int64_t dim);
  Shape WithDim(int axis, int64_t dim) const;
  Shape Without(int axis) const;
  std::string ToString() const;  // "[2, 3]"

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims() == b.dims(); }

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

// Makes a shape from untrusted numbers: at most kMaxRank dimensions, each >= 0 (>= 1 unless allow_empty), and at most
// kMaxElements elements.
absl::StatusOr<Shape> MakeShape(absl::Span<const int64_t> dims, bool allow_empty = false);

using Strides = std::array<int64_t, kMaxRank>;  // counted in elements; 0 beyond the rank
Strides PlainStrides(const Shape& shape);       // row-major

// Broadcasts as NumPy does; an error names both shapes.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Turns -1 into rank - 1, and so on; an error states the range.
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank);

}  // namespace snug::core
