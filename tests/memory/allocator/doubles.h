// Test doubles under the allocators: a source that keeps its own books and can be told to fail, and streams that move
// when the test says so.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/memory_source.h"
#include "memory/allocator/simulate.h"

namespace snug::core::memory {

constexpr int64_t kMB = 1'000'000;

// Passes everything on to another source, and writes down what it was asked for.
class BookedSource final : public MemorySource {
 public:
  explicit BookedSource(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}

  Place place() const override { return source_->place(); }
  int64_t alignment() const override { return source_->alignment(); }
  bool host_accessible() const override { return source_->host_accessible(); }
  int64_t available_bytes() const override { return source_->available_bytes(); }

  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override {
    if (failing_) return absl::ResourceExhaustedError("failure number " + std::to_string(++failures_));
    absl::StatusOr<std::byte*> address = source_->Allocate(bytes);
    if (!address.ok()) return address;
    const std::lock_guard lock(mu_);
    chunks_[*address] = bytes;
    sizes_.push_back(bytes);
    return address;
  }

  void Free(std::byte* address, int64_t bytes) override {
    {
      const std::lock_guard lock(mu_);
      wrong_frees_ += chunks_.count(address) == 0 || chunks_[address] != bytes;
      chunks_.erase(address);
      ++frees_;
    }
    source_->Free(address, bytes);
  }

  void set_failing(bool failing) { failing_ = failing; }
  const std::map<std::byte*, int64_t>& chunks() const { return chunks_; }  // taken and not given back
  const std::vector<int64_t>& sizes() const { return sizes_; }             // of every allocation that succeeded
  int frees() const { return frees_; }
  int wrong_frees() const { return wrong_frees_; }
  int failures() const { return failures_; }

 private:
  const std::unique_ptr<MemorySource> source_;
  std::atomic<bool> failing_ = false;
  std::atomic<int> failures_ = 0;
  std::mutex mu_;
  std::map<std::byte*, int64_t> chunks_;
  std::vector<int64_t> sizes_;
  int frees_ = 0;
  int wrong_frees_ = 0;
};

// A device of `size_bytes` with no memory behind its addresses.
inline std::unique_ptr<BookedSource> PretendedDevice(int64_t size_bytes, const Place& place = Place::Cuda(0)) {
  return std::make_unique<BookedSource>(std::make_unique<VirtualSource>(place, size_bytes, 4096));
}

// Streams that have run as far as the test lets them.
class ManualStreams final : public StreamEvents {
 public:
  Event Record(int32_t stream) override {
    events_[++last_] = {stream, pushed_[stream]};
    return last_;
  }
  bool Passed(Event event) override { return events_.at(event).second <= done_[events_.at(event).first]; }
  void Wait(Event event) override {
    ++waits_;
    const auto [stream, goal] = events_.at(event);
    done_[stream] = std::max(done_[stream], goal);
  }
  void Forget(Event event) override { events_.erase(event); }

  void Push(int32_t stream) { ++pushed_[stream]; }
  void RunAll(int32_t stream) { done_[stream] = pushed_[stream]; }
  int waits() const { return waits_; }
  size_t open_events() const { return events_.size(); }

 private:
  std::map<Event, std::pair<int32_t, int64_t>> events_;
  std::map<int32_t, int64_t> pushed_, done_;
  Event last_ = 0;
  int waits_ = 0;
};

inline std::unique_ptr<Allocator> MakeAllocator(const AllocatorOptions& options, MemorySource* source,
                                                StreamEvents* events = nullptr) {
  absl::StatusOr<std::unique_ptr<Allocator>> allocator = Allocator::Create(options, source, events);
  return allocator.ok() ? *std::move(allocator) : nullptr;
}

// Null when it fails.
inline void* Take(Allocator* allocator, int64_t bytes, const BlockOwner& owner = {}) {
  const absl::StatusOr<void*> address = allocator->Allocate(bytes, owner);
  return address.ok() ? *address : nullptr;
}

}  // namespace snug::core::memory
