#include "tests/testing/guarded_bytes.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/status.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SNUG_TEST_POISON 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SNUG_TEST_POISON 1
#endif
#ifdef SNUG_TEST_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace snug::core::test {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kGuard = 256;
constexpr uint8_t kGuardByte = 0xFF;

int64_t BlockSize(int64_t size) { return kGuard + (size + kAlignment - 1) / kAlignment * kAlignment + kGuard; }

}  // namespace

GuardedBytes::GuardedBytes(int64_t size, uint8_t fill) : size_(size) {
  const int64_t block_size = BlockSize(size);
  block_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<size_t>(block_size)));
  SNUG_CHECK(block_ != nullptr);
  begin_ = block_ + kGuard;
  std::memset(block_, kGuardByte, static_cast<size_t>(block_size));
  std::memset(begin_, fill, static_cast<size_t>(size));
  ASAN_POISON_MEMORY_REGION(block_, static_cast<size_t>(kGuard));
  ASAN_POISON_MEMORY_REGION(begin_ + size, static_cast<size_t>(block_size - kGuard - size));
}

GuardedBytes::GuardedBytes(const GuardedBytes& other) : GuardedBytes(other.size_) {
  std::memcpy(begin_, other.begin_, static_cast<size_t>(size_));
}

GuardedBytes::GuardedBytes(GuardedBytes&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

GuardedBytes& GuardedBytes::operator=(GuardedBytes other) noexcept {
  std::swap(block_, other.block_);
  std::swap(begin_, other.begin_);
  std::swap(size_, other.size_);
  return *this;
}

GuardedBytes::~GuardedBytes() {
  if (block_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(block_, static_cast<size_t>(BlockSize(size_)));
  std::free(block_);
}

std::optional<int64_t> GuardedBytes::FindDamage() const {
  if (block_ == nullptr) return std::nullopt;
  const std::byte* end = block_ + BlockSize(size_);
  ASAN_UNPOISON_MEMORY_REGION(block_, static_cast<size_t>(kGuard));
  ASAN_UNPOISON_MEMORY_REGION(begin_ + size_, static_cast<size_t>(end - (begin_ + size_)));
  std::optional<int64_t> damage;
  for (const std::byte* p = block_; p < end && !damage.has_value(); ++p) {
    if (p == begin_) p += size_;
    if (p < end && *p != std::byte{kGuardByte}) damage = p - begin_;
  }
  ASAN_POISON_MEMORY_REGION(block_, static_cast<size_t>(kGuard));
  ASAN_POISON_MEMORY_REGION(begin_ + size_, static_cast<size_t>(end - (begin_ + size_)));
  return damage;
}

}  // namespace snug::core::test
