// A value in memory, for tests: typed, guarded bytes, and its numbers as doubles in logical (row-major) order whatever
// the dtype and layout.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "tests/testing/guarded_bytes.h"

namespace snug::core::test {

struct Tensor {
  Tensor() = default;
  explicit Tensor(ValueType value_type, uint8_t fill = 0);
  // Rounds to the dtype; as many values as the type has elements. Plain or channels-last.
  static Tensor FromDoubles(const ValueType& type, absl::Span<const double> values);

  std::vector<double> ToDoubles() const;  // plain or channels-last
  double At(int64_t logical_index) const;
  void Set(int64_t logical_index, double value);
  void* data() { return bytes.data(); }
  const void* data() const { return bytes.data(); }

  ValueType type;
  GuardedBytes bytes;
};

// Where the element of row-major number `logical_index` lies, in elements.
int64_t StorageOffset(const ValueType& type, int64_t logical_index);
// "[1, 0, 2]"
std::string IndexText(const Shape& shape, int64_t logical_index);

// The same numbers, plain or channels-last. Packed layouts go through the op `reorder`: see NodeRunner.
Tensor WithLayout(const Tensor& tensor, const Layout& layout);
// The same numbers rounded to another dtype.
Tensor WithDType(const Tensor& tensor, DType dtype);

// What differs first, bit for bit ("element [1, 2]: 0.5 and 0.25"); none: nothing.
std::optional<std::string> FindBitDifference(const Tensor& a, const Tensor& b);
// The worst entry, if it is further from `expected` than `tolerance` times the largest expected entry. NaN and
// infinities must be the same.
std::optional<std::string> FindDifference(const Shape& shape, absl::Span<const double> found,
                                          absl::Span<const double> expected, double tolerance);

}  // namespace snug::core::test
