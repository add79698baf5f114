// The type of a Value: its element type, its logical shape, and how it lies in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"

namespace snug::core {

// A library's own storage format (oneDNN's blocked weights): bytes that only that library reads. What it is, is in the
// format itself: two that a library describes alike are equal, whenever and for whomever they were made.
class PackedFormat {
 public:
  virtual ~PackedFormat() = default;
  PackedFormat(const PackedFormat&) = delete;
  PackedFormat& operator=(const PackedFormat&) = delete;

  const std::string& tag() const { return tag_; }  // for dumps
  int64_t size_bytes() const { return size_bytes_; }
  virtual bool Equals(const PackedFormat& other) const = 0;

 protected:
  PackedFormat(std::string tag, int64_t size_bytes) : tag_(std::move(tag)), size_bytes_(size_bytes) {}

 private:
  const std::string tag_;
  const int64_t size_bytes_;
};

struct Layout {
  enum class Kind : uint8_t {
    kPlain,         // row-major in the logical order
    kChannelsLast,  // [n, c, spatial...] stored as [n, spatial..., c]; rank 3 to 5 only
    kPacked,        // see PackedFormat
  };
  Kind kind = Kind::kPlain;
  std::shared_ptr<const PackedFormat> packed;  // only set for kPacked

  static Layout Plain() { return {}; }
  static Layout ChannelsLast() { return {Kind::kChannelsLast, nullptr}; }
  static Layout Packed(std::shared_ptr<const PackedFormat> format) { return {Kind::kPacked, std::move(format)}; }
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
  Strides strides() const;       // of the logical axes, in elements; there are none for packed layouts
  std::string ToString() const;  // "float32[2, 3]", "float32[2, 3, 8, 8]nhwc"
  friend bool operator==(const ValueType& a, const ValueType& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.layout == b.layout;
  }
};

}  // namespace snug::core
