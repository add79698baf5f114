// Allocators take their memory from a source: malloc or mmap, page-locked memory, cudaMalloc, or a simulated device.
// Devices differ only in their source; the allocators over it are the same code.
#pragma once

#include <absl/status/statusor.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace snug::core::memory {

// Says where memory lies: in ordinary host memory, in host memory that never leaves RAM (pinned: devices copy from it
// directly), or on a CUDA device.
enum class PlaceKind { kCpu, kPinned, kCuda };

struct Place {
  PlaceKind kind = PlaceKind::kCpu;
  int device = 0;  // always 0 for host memory

  static Place Cpu() { return {}; }
  static Place Pinned() { return {PlaceKind::kPinned, 0}; }
  static Place Cuda(int device) { return {PlaceKind::kCuda, device}; }

  bool is_host() const { return kind != PlaceKind::kCuda; }
  auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
};

std::string ToString(const Place& place);  // "cpu", "pinned", "cuda:1"

// Thread-safe: several allocators may share one source, as processes share a device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  virtual Place place() const = 0;
  // Every block starts at a multiple of this.
  virtual int64_t alignment() const = 0;
  // Tells whether the host may read and write the memory; if so, allocators may keep their records in it.
  virtual bool host_accessible() const = 0;
  // Returns what could still be taken, or -1 when that is unknown.
  virtual int64_t available_bytes() const = 0;

  // `bytes` must be positive. Fails with ResourceExhausted and the system's own words when the system refuses.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes) = 0;
  // Takes an address that Allocate returned, and its size. Returns once no work on the device uses the block.
  virtual void Free(std::byte* address, int64_t bytes) = 0;
};

// A source that counts what was taken from it and keeps to a limit. Idle chunks count too: the limit is on what the
// device loses to us. Thread-compatible: the allocator that owns it calls it under its lock, so that two requests
// cannot both pass the limit.
class CountedSource {
 public:
  CountedSource(MemorySource* source, int64_t limit_bytes) : source_(source), limit_bytes_(limit_bytes) {}

  absl::StatusOr<std::byte*> Allocate(int64_t bytes);
  void Free(std::byte* address, int64_t bytes);

  // Returns what the device has left within the limit, or -1 when that is unknown.
  int64_t available_bytes() const;

  const MemorySource& source() const { return *source_; }
  int64_t limit_bytes() const { return limit_bytes_; }  // 0 means none
  int64_t reserved_bytes() const { return reserved_bytes_; }
  int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }
  int64_t allocations() const { return allocations_; }
  int64_t frees() const { return frees_; }

 private:
  MemorySource* const source_;
  const int64_t limit_bytes_;
  int64_t reserved_bytes_ = 0;
  int64_t peak_reserved_bytes_ = 0;
  int64_t allocations_ = 0;
  int64_t frees_ = 0;
};

}  // namespace snug::core::memory
