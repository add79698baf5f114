// Bytes at a 64-byte boundary between guard bytes that nobody may write. The guards hold 0xFF, so that floats read from
// them are NaN and show up in results; AddressSanitizer reports the access itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace snug::core::test {

class GuardedBytes {
 public:
  explicit GuardedBytes(int64_t size = 0, uint8_t fill = 0);
  GuardedBytes(const GuardedBytes& other);
  GuardedBytes(GuardedBytes&& other) noexcept;
  GuardedBytes& operator=(GuardedBytes other) noexcept;
  ~GuardedBytes();

  std::byte* data() { return begin_; }
  const std::byte* data() const { return begin_; }
  int64_t size() const { return size_; }
  // The offset from data() of a guard byte that was written; none: the guards are whole.
  std::optional<int64_t> FindDamage() const;

 private:
  std::byte* block_ = nullptr;  // guard, bytes, guard
  std::byte* begin_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace snug::core::test
