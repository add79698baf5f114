#include "memory/allocator/caching.h"

#include <algorithm>
#include <numeric>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSmallestBlock = 512;
constexpr int64_t kLargestSmall = kMiB;
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kSegmentOfItsOwn = 10 * kMiB;  // requests from here on
constexpr int64_t kSegmentUnit = 2 * kMiB;

int64_t SegmentBytes(int64_t bytes, bool small) {
  if (small) return kSmallSegment;
  return bytes < kSegmentOfItsOwn ? kLargeSegment : AlignUp(bytes, kSegmentUnit);
}

bool IsCut(int64_t left_over, bool small) { return small ? left_over >= kSmallestBlock : left_over > kLargestSmall; }

}  // namespace

int32_t CachingAllocator::NewNumber() {
  if (spare_.empty()) {
    blocks_.emplace_back();
    return static_cast<int32_t>(blocks_.size()) - 1;
  }
  const int32_t number = spare_.back();
  spare_.pop_back();
  at(number) = Block();
  return number;
}

int32_t CachingAllocator::TakeSegment(int64_t bytes, bool small) {
  const int32_t number = NewNumber();
  const int64_t segment = SegmentBytes(bytes, small);
  at(number) = {.address = next_address_, .bytes = segment, .small = small};
  next_address_ += segment;
  statistics_.reserved_bytes += segment;
  ++statistics_.segments;
  return number;
}

void CachingAllocator::CutOff(int32_t number, int64_t bytes) {
  const int32_t rest = NewNumber();
  Block& block = at(number);
  at(rest) = {.address = block.address + bytes,
              .bytes = block.bytes - bytes,
              .before = number,
              .after = block.after,
              .small = block.small,
              .free = true};
  if (block.after >= 0) at(block.after).before = rest;
  block.after = rest;
  block.bytes = bytes;
  pool(block).emplace(at(rest).bytes, at(rest).address, rest);
}

int32_t CachingAllocator::Allocate(int64_t bytes) {
  const int64_t rounded = AlignUp(bytes, kSmallestBlock);
  const bool small = rounded <= kLargestSmall;
  std::set<FreeBlock>& free = pools_[small ? 0 : 1];
  int32_t number = -1;
  if (const auto fit = free.lower_bound({rounded, -1, -1}); fit != free.end()) {
    number = std::get<2>(*fit);
    free.erase(fit);
  } else {
    number = TakeSegment(rounded, small);
  }
  if (IsCut(at(number).bytes - rounded, small)) CutOff(number, rounded);
  at(number).free = false;
  at(number).requested = bytes;
  CachingStatistics& s = statistics_;
  s.requested_bytes += bytes;
  s.block_bytes += at(number).bytes;
  s.peak_requested_bytes = std::max(s.peak_requested_bytes, s.requested_bytes);
  s.peak_block_bytes = std::max(s.peak_block_bytes, s.block_bytes);
  return number;
}

void CachingAllocator::JoinNext(int32_t number) {
  Block& block = at(number);
  const int32_t next = block.after;
  if (next < 0 || !at(next).free) return;
  pool(block).erase({at(next).bytes, at(next).address, next});
  block.bytes += at(next).bytes;
  block.after = at(next).after;
  if (block.after >= 0) at(block.after).before = number;
  spare_.push_back(next);
}

void CachingAllocator::Free(int32_t block) {
  statistics_.requested_bytes -= at(block).requested;
  statistics_.block_bytes -= at(block).bytes;
  int32_t number = block;
  at(number).free = true;
  JoinNext(number);
  if (const int32_t before = at(number).before; before >= 0 && at(before).free) {
    pool(at(before)).erase({at(before).bytes, at(before).address, before});
    // The block behind `before` is this one, which is in no pool yet; to erase it there does nothing.
    JoinNext(before);
    number = before;
  }
  pool(at(number)).emplace(at(number).bytes, at(number).address, number);
}

absl::StatusOr<Requests> RequestsOf(const Tasks& tasks) {
  TaskOrder order(static_cast<size_t>(tasks.size()));
  std::iota(order.begin(), order.end(), 0);
  SNUG_RETURN_IF_ERROR(CheckOrder(tasks, order));
  Requests requests;
  const Problem all = LifetimesOf(tasks, order);
  for (size_t i = 0; i < all.buffers.size(); ++i) {
    if (tasks.values[i].resident) {
      requests.resident.push_back(all.buffers[i].size_bytes);
    } else {
      requests.step.buffers.push_back(all.buffers[i]);
    }
  }
  return requests;
}

CachingStatistics SimulateCachingAllocator(const Requests& requests, int steps) {
  CachingAllocator allocator;
  const Problem& step = requests.step;
  for (const int64_t bytes : requests.resident) {
    if (bytes > 0) allocator.Allocate(bytes);
  }
  int32_t end = 0;
  for (const Buffer& buffer : step.buffers) end = std::max(end, buffer.last);
  std::vector<std::vector<size_t>> begin_at(static_cast<size_t>(end) + 1), end_at(static_cast<size_t>(end) + 1);
  for (size_t i = 0; i < step.buffers.size(); ++i) {
    if (step.buffers[i].size_bytes == 0) continue;
    begin_at[static_cast<size_t>(step.buffers[i].first)].push_back(i);
    end_at[static_cast<size_t>(step.buffers[i].last)].push_back(i);
  }
  std::vector<int32_t> block_of(step.buffers.size(), -1);
  for (int i = 0; i < steps; ++i) {
    for (size_t position = 0; position < begin_at.size(); ++position) {
      for (const size_t buffer : begin_at[position]) {
        block_of[buffer] = allocator.Allocate(step.buffers[buffer].size_bytes);
      }
      for (const size_t buffer : end_at[position]) allocator.Free(block_of[buffer]);
    }
  }
  return allocator.statistics();
}

}  // namespace snug::core::memory
