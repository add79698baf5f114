#include "tests/testing/tensor.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "ops/kit/dispatch.h"

namespace snug::core::test {
namespace {

std::vector<int64_t> IndicesOf(const Shape& shape, int64_t logical_index) {
  std::vector<int64_t> indices(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    indices[static_cast<size_t>(axis)] = logical_index % shape[axis];
    logical_index /= shape[axis];
  }
  return indices;
}

double Read(DType dtype, const std::byte* address) {
  double result = 0;
  SNUG_CHECK_OK(DispatchAny(dtype, [&](auto zero) {
    std::memcpy(&zero, address, sizeof(zero));
    result = static_cast<double>(zero);
    return absl::OkStatus();
  }));
  return result;
}

void Write(DType dtype, std::byte* address, double value) {
  SNUG_CHECK_OK(DispatchAny(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, BFloat16>) {
      zero = T(static_cast<float>(value));
    } else {
      zero = static_cast<T>(value);
    }
    std::memcpy(address, &zero, sizeof(zero));
    return absl::OkStatus();
  }));
}

}  // namespace

Tensor::Tensor(ValueType value_type, uint8_t fill) : type(std::move(value_type)), bytes(type.size_bytes(), fill) {}

Tensor Tensor::FromDoubles(const ValueType& type, absl::Span<const double> values) {
  SNUG_CHECK_MSG(static_cast<int64_t>(values.size()) == type.num_elements(),
                 absl::StrCat(type.ToString(), " from ", values.size(), " values"));
  Tensor tensor(type);
  for (size_t i = 0; i < values.size(); ++i) tensor.Set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> Tensor::ToDoubles() const {
  std::vector<double> values(static_cast<size_t>(type.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = At(static_cast<int64_t>(i));
  return values;
}

double Tensor::At(int64_t logical_index) const {
  return Read(type.dtype, bytes.data() + StorageOffset(type, logical_index) * SizeOf(type.dtype));
}

void Tensor::Set(int64_t logical_index, double value) {
  Write(type.dtype, bytes.data() + StorageOffset(type, logical_index) * SizeOf(type.dtype), value);
}

int64_t StorageOffset(const ValueType& type, int64_t logical_index) {
  if (type.layout.plain()) return logical_index;
  const Strides strides = type.strides();
  int64_t offset = 0;
  for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
    offset += logical_index % type.shape[axis] * strides[static_cast<size_t>(axis)];
    logical_index /= type.shape[axis];
  }
  return offset;
}

std::string IndexText(const Shape& shape, int64_t logical_index) {
  return Shape(IndicesOf(shape, logical_index)).ToString();
}

Tensor WithLayout(const Tensor& tensor, const Layout& layout) {
  if (tensor.type.layout == layout) return tensor;
  Tensor result(ValueType{tensor.type.dtype, tensor.type.shape, layout});
  const int64_t width = SizeOf(tensor.type.dtype);
  for (int64_t i = 0; i < tensor.type.num_elements(); ++i) {
    std::memcpy(result.bytes.data() + StorageOffset(result.type, i) * width,
                tensor.bytes.data() + StorageOffset(tensor.type, i) * width, static_cast<size_t>(width));
  }
  return result;
}

Tensor WithDType(const Tensor& tensor, DType dtype) {
  if (tensor.type.dtype == dtype) return tensor;
  return Tensor::FromDoubles(ValueType{dtype, tensor.type.shape, tensor.type.layout}, tensor.ToDoubles());
}

std::optional<std::string> FindBitDifference(const Tensor& a, const Tensor& b) {
  if (!(a.type == b.type)) return absl::StrCat("types ", a.type.ToString(), " and ", b.type.ToString());
  if (std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes.size())) == 0) return std::nullopt;
  if (a.type.layout.kind == Layout::Kind::kPacked) return "packed bytes differ";
  const int64_t width = SizeOf(a.type.dtype);
  for (int64_t i = 0; i < a.type.num_elements(); ++i) {
    const int64_t offset = StorageOffset(a.type, i) * width;
    if (std::memcmp(a.bytes.data() + offset, b.bytes.data() + offset, static_cast<size_t>(width)) != 0) {
      return absl::StrFormat("element %s: %.17g and %.17g", IndexText(a.type.shape, i), a.At(i), b.At(i));
    }
  }
  return "bytes differ";
}

std::optional<std::string> FindDifference(const Shape& shape, absl::Span<const double> found,
                                          absl::Span<const double> expected, double tolerance) {
  if (found.size() != expected.size()) {
    return absl::StrCat("expected ", expected.size(), " values, found ", found.size());
  }
  double largest = 0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  double worst = 0;
  size_t worst_index = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
    double distance = std::abs(found[i] - expected[i]);
    if (std::isnan(distance)) distance = HUGE_VAL;
    if (distance > worst) {
      worst = distance;
      worst_index = i;
    }
  }
  if (worst <= tolerance * largest) return std::nullopt;
  return absl::StrFormat("element %s: expected %.12g, found %.12g (distance %.3g; allowed %.3g = %.3g of the largest)",
                         IndexText(shape, static_cast<int64_t>(worst_index)), expected[worst_index], found[worst_index],
                         worst, tolerance * largest, tolerance);
}

}  // namespace snug::core::test
