// XXH64 (Yann Collet): a fast 64-bit checksum with a published definition, so it is the same everywhere.
#pragma once

#include <absl/types/span.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace snug::core {

class Xxh64 {
 public:
  Xxh64();
  void Add(absl::Span<const std::byte> bytes);
  uint64_t Digest() const;  // covers all that was added so far; more may follow

 private:
  static constexpr size_t kStripe = 32;

  void AddStripes(absl::Span<const std::byte> bytes);

  std::array<uint64_t, 4> lanes_;
  std::array<std::byte, kStripe> rest_ = {};
  size_t rest_size_ = 0;
  uint64_t total_ = 0;
};

}  // namespace snug::core
