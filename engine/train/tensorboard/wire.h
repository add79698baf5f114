// Writes a protobuf message field by field, for the few messages of TensorFlow's that TensorBoard reads. Their schemas
// are not ours, so they are not compiled in: only the numbers of the fields that are written are here.
#pragma once

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <string>

namespace snug::core::tensorboard {

class Wire {
 public:
  Wire& Integer(int field, int64_t value);  // int32, int64, bool and enumerations
  Wire& Double(int field, double value);
  Wire& Float(int field, float value);
  Wire& Bytes(int field, absl::string_view value);  // strings too
  Wire& Message(int field, const Wire& message) { return Bytes(field, message.bytes()); }
  Wire& Doubles(int field, absl::Span<const double> values);  // packed

  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value);
  void Tag(int field, int type) { Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type)); }
  template <class T>
  void Fixed(T value);

  std::string bytes_;
};

}  // namespace snug::core::tensorboard
