#include "engine/train/tensorboard/wire.h"

namespace snug::core::tensorboard {
namespace {

constexpr int kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;  // the wire types

}  // namespace

void Wire::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

// The wire is little-endian, as all machines are that this runs on.
template <class T>
void Wire::Fixed(T value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

Wire& Wire::Integer(int field, int64_t value) {
  Tag(field, kVarint);
  Varint(static_cast<uint64_t>(value));
  return *this;
}

Wire& Wire::Double(int field, double value) {
  Tag(field, kFixed64);
  Fixed(value);
  return *this;
}

Wire& Wire::Float(int field, float value) {
  Tag(field, kFixed32);
  Fixed(value);
  return *this;
}

Wire& Wire::Bytes(int field, absl::string_view value) {
  Tag(field, kLengthDelimited);
  Varint(value.size());
  bytes_.append(value.data(), value.size());
  return *this;
}

Wire& Wire::Doubles(int field, absl::Span<const double> values) {
  Tag(field, kLengthDelimited);
  Varint(values.size() * sizeof(double));
  for (const double value : values) Fixed(value);
  return *this;
}

}  // namespace snug::core::tensorboard
