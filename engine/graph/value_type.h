// What a Value is: element type, logical shape, and how it lies in memory.
#pragma once

#include <memory>
#include <string>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"

namespace snug {

// A library's own storage format (oneDNN's blocked weights): bytes that only that library reads.
struct PackedFormat {
  std::string tag;         // for dumps
  std::string descriptor;  // the library's description; equal descriptors are equal formats
  int64_t size_bytes = 0;
};

struct Layout {
  enum class Kind : uint8_t {
    kPlain,         // row-major in the logical order
    kChannelsLast,  // [n, c, spatial...] stored as [n, spatial..., c]; rank 3 to 5 only
    kPacked,        // see PackedFormat
  };
  Kind kind = Kind::kPlain;
  std::shared_ptr<const PackedFormat> packed;  // set for kPacked only

  static Layout Plain() { return {}; }
  static Layout ChannelsLast() { return {Kind::kChannelsLast, nullptr}; }
  static Layout Packed(PackedFormat format) {
    return {Kind::kPacked, std::make_shared<const PackedFormat>(std::move(format))};
  }
  bool plain() const { return kind == Kind::kPlain; }
  bool channels_last() const { return kind == Kind::kChannelsLast; }
  std::string ToString() const;  // "", "nhwc", "packed:<tag>"
  friend bool operator==(const Layout& a, const Layout& b);
};

struct ValueType {
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout;

  int64_t num_elements() const { return shape.num_elements(); }
  int64_t size_bytes() const;
  Strides strides() const;       // of the logical axes, in elements; not for packed layouts
  std::string ToString() const;  // "float32[2, 3]", "float32[2, 3, 8, 8]nhwc"
  friend bool operator==(const ValueType& a, const ValueType& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.layout == b.layout;
  }
};

}  // namespace snug
