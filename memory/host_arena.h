// One block of host memory, taken from the system once: 64-byte aligned, zeroed, and on large pages where the system
// has them.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace snug::core::memory {

class HostArena {
 public:
  // Fails with ResourceExhausted, which names the size, when the system refuses.
  static absl::StatusOr<std::unique_ptr<HostArena>> Create(int64_t size_bytes);
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  HostArena(std::byte* data, int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  std::byte* data_;
  int64_t size_bytes_;
};

}  // namespace snug::core::memory
