#include "memory/allocator/allocator.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;  // no device has as much, and a sum of a few such numbers stays in
                                                  // range
constexpr int32_t kMostStreams = 1 << 16;
constexpr int64_t kAutoGrowthAlignment = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<Allocator>> Allocator::Create(const AllocatorOptions& options, MemorySource* source,
                                                             StreamEvents* events) {
  SNUG_RETURN_IF_ERROR(Validate(options));
  BlockPool::Options pool;
  pool.alignment = options.alignment;
  if (pool.alignment == 0) {
    pool.alignment = source->place().is_host() ? 64 : 256;
    if (options.allocator == "auto_growth") pool.alignment = kAutoGrowthAlignment;
  }
  if (pool.alignment > source->alignment()) {
    return absl::InvalidArgumentError(absl::StrCat("option \"alignment\": expected at most what the system memory of ",
                                                   ToString(source->place()), " has, ", source->alignment(), ", found ",
                                                   pool.alignment));
  }
  if (options.allocator == "buddy" && source->place().is_host()) {
    pool.header_bytes = AlignUp(kBlockHeaderBytes, pool.alignment);
  }
  const int64_t available = CountedSource(source, options.memory_limit).available_bytes();
  SNUG_ASSIGN_OR_RETURN(pool.growth, GrowthOf(options, available));
  return std::unique_ptr<Allocator>(new Allocator(options, pool, source, events));
}

Allocator::Allocator(const AllocatorOptions& options, const BlockPool::Options& pool_options, MemorySource* source,
                     StreamEvents* events)
    : options_(options), pool_options_(pool_options), events_(events), source_(source, options.memory_limit) {}

Allocator::~Allocator() {
  for (const Waiting& block : waiting_) {
    for (const StreamEvents::Event event : block.events) events_->Forget(event);
  }
}

absl::StatusOr<void*> Allocator::Allocate(int64_t bytes, const BlockOwner& owner) {
  if (bytes == 0) return nullptr;
  if (bytes < 0 || bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected 0 to ", kMostBytes, " bytes, found ", bytes));
  }
  if (owner.stream < 0 || owner.stream >= kMostStreams) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a stream from 0 to ", kMostStreams - 1, ", found ", owner.stream));
  }
  std::unique_lock lock(mu_);
  if (!waiting_.empty()) SNUG_RETURN_IF_ERROR(CollectPassed(/*wait=*/false));
  BlockPool& pool = PoolOf(owner.stream);
  absl::StatusOr<Grant> grant = pool.Take(bytes);
  if (!grant.ok()) [[unlikely]] {
    grant = TakeUnderPressure(lock, pool, bytes, std::move(grant).status());
    if (absl::IsResourceExhausted(grant.status())) {
      const OutOfMemory facts = Facts(pool, bytes, owner, grant.status());
      const OutOfMemoryAdvice advice = advice_;
      lock.unlock();
      return ToStatus(facts, advice);
    }
    if (!grant.ok()) return std::move(grant).status();
  }
  live_.Add({.address = grant->address,
             .block = grant->block,
             .bytes = bytes,
             .block_bytes = grant->block_bytes,
             .name = owner.name,
             .held_as = owner.held_as,
             .thread = std::this_thread::get_id(),
             .stream = owner.stream,
             .direct = grant->direct});
  AllocatorStatistics& s = statistics_;
  ++s.allocations;
  s.used_bytes += bytes;
  s.peak_used_bytes = std::max(s.peak_used_bytes, s.used_bytes);
  s.block_bytes += grant->block_bytes;
  if (grant->direct) s.direct_bytes += bytes;
  if (source_.peak_reserved_bytes() > s.peak_reserved_bytes) {
    s.peak_reserved_bytes = source_.peak_reserved_bytes();
    s.used_at_reserved_peak = 0;
  }
  if (source_.reserved_bytes() == s.peak_reserved_bytes) {
    s.used_at_reserved_peak = std::max(s.used_at_reserved_peak, s.used_bytes);
  }
  return static_cast<void*>(grant->address);
}

absl::Status Allocator::Free(void* address) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mu_);
  return FreeLocked(address, /*when_stream_passed=*/false);
}

absl::Status Allocator::FreeWhenStreamPassed(void* address) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mu_);
  return FreeLocked(address, /*when_stream_passed=*/events_ != nullptr);
}

absl::Status Allocator::RecordStream(void* address, int32_t stream) {
  if (address == nullptr) return absl::OkStatus();
  const std::lock_guard lock(mu_);
  LiveBlock* const live = live_.Find(address);
  if (live == nullptr) return NotInUse(address);
  if (stream == live->stream || events_ == nullptr) return absl::OkStatus();
  live->shared = true;
  std::vector<int32_t>& users = users_[address];
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
  return absl::OkStatus();
}

int64_t Allocator::ReleaseIdle() {
  const std::lock_guard lock(mu_);
  return ReleaseIdleLocked();
}

AllocatorStatistics Allocator::statistics() const {
  const std::lock_guard lock(mu_);
  AllocatorStatistics result = statistics_;
  result.live_blocks = static_cast<int64_t>(live_.size());
  result.reserved_bytes = source_.reserved_bytes();
  result.peak_reserved_bytes = source_.peak_reserved_bytes();
  result.system_allocations = source_.allocations();
  result.system_frees = source_.frees();
  return result;
}

std::vector<BlockInfo> Allocator::BlockMap() const {
  const std::lock_guard lock(mu_);
  std::unordered_map<const Block*, const LiveBlock*> live;
  live_.ForEach([&live](const LiveBlock& block) { live[block.block] = &block; });
  std::vector<BlockInfo> map;
  for (size_t stream = 0; stream < pools_.size(); ++stream) {
    if (pools_[stream] == nullptr) continue;
    int64_t chunk = -1;
    pools_[stream]->Visit([&](const Block& block) {
      if (block.left == nullptr) ++chunk;
      BlockInfo& info = map.emplace_back();
      info.stream = static_cast<int32_t>(stream);
      info.chunk = chunk;
      info.offset = block.start - block.chunk->base;
      info.block_bytes = block.bytes;
      info.free = block.free != 0;
      if (const auto found = live.find(&block); found != live.end()) {
        info.bytes = found->second->bytes;
        info.name = found->second->name;
      }
    });
  }
  return map;
}

bool Allocator::InUse(void* address) const {
  const std::lock_guard lock(mu_);
  return live_.Find(address) != nullptr;
}

void Allocator::set_advice(OutOfMemoryAdvice advice) {
  const std::lock_guard lock(mu_);
  advice_ = std::move(advice);
}

absl::Status Allocator::Check() const {
  const std::lock_guard lock(mu_);
  for (const auto& pool : pools_) {
    if (pool != nullptr) SNUG_RETURN_IF_ERROR(pool->Check());
  }
  return absl::OkStatus();
}

BlockPool& Allocator::PoolOf(int32_t stream) {
  const auto index = static_cast<size_t>(stream);
  if (index >= pools_.size()) pools_.resize(index + 1);
  if (pools_[index] == nullptr) pools_[index] = std::make_unique<BlockPool>(pool_options_, &source_);
  return *pools_[index];
}

absl::StatusOr<Grant> Allocator::TakeUnderPressure(std::unique_lock<std::mutex>& lock, BlockPool& pool, int64_t bytes,
                                                   absl::Status refusal) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.retry_ms);
  while (absl::IsResourceExhausted(refusal)) {
    const int64_t frees = statistics_.frees;
    const bool waited = !waiting_.empty();
    SNUG_RETURN_IF_ERROR(CollectPassed(/*wait=*/true));
    if (ReleaseIdleLocked() > 0 || waited) {
      absl::StatusOr<Grant> grant = pool.Take(bytes);
      if (grant.ok()) return grant;
      refusal = std::move(grant).status();
    }
    // This thread has held the lock since the failed attempt, so no free went unseen.
    if (options_.retry_ms == 0 || !OthersHoldBlocks()) break;
    if (!freed_.wait_until(lock, deadline, [&] { return statistics_.frees != frees; })) break;
    absl::StatusOr<Grant> grant = pool.Take(bytes);
    if (grant.ok()) return grant;
    refusal = std::move(grant).status();
  }
  return refusal;
}

absl::Status Allocator::FreeLocked(void* address, bool when_stream_passed) {
  LiveBlock* const found = live_.Find(address);
  if (found == nullptr) return NotInUse(address);
  const LiveBlock live = *found;
  if (live.shared || when_stream_passed) {
    Waiting block{live.block, live.block_bytes, live.stream, {}};
    if (when_stream_passed) block.events.push_back(events_->Record(live.stream));
    if (live.shared) {
      for (const int32_t stream : users_[address]) block.events.push_back(events_->Record(stream));
      users_.erase(address);
    }
    statistics_.waiting_bytes += live.block_bytes;
    waiting_.push_back(std::move(block));
  } else {
    SNUG_RETURN_IF_ERROR(GiveBack(live.block, live.block_bytes, live.stream));
  }
  live_.Remove(found);
  ++statistics_.frees;
  statistics_.used_bytes -= live.bytes;
  if (live.direct) statistics_.direct_bytes -= live.bytes;
  freed_.notify_all();
  return absl::OkStatus();
}

absl::Status Allocator::NotInUse(const void* address) const {
  const bool ours = std::any_of(pools_.begin(), pools_.end(),
                                [address](const auto& pool) { return pool != nullptr && pool->Contains(address); });
  return absl::InvalidArgumentError(
      absl::StrCat(absl::Hex(address), " is not a block in use on ", ToString(place()), ": ",
                   ours ? "it lies in this allocator's memory, so it was freed already or points into a block"
                        : "it is not from this allocator, or was freed and its memory has gone back to the system"));
}

absl::Status Allocator::GiveBack(Block* block, int64_t block_bytes, int32_t stream) {
  SNUG_RETURN_IF_ERROR(PoolOf(stream).Give(block));
  statistics_.block_bytes -= block_bytes;
  return absl::OkStatus();
}

absl::Status Allocator::CollectPassed(bool wait) {
  size_t kept = 0;
  absl::Status status;
  for (Waiting& block : waiting_) {
    std::vector<StreamEvents::Event>& events = block.events;
    while (!events.empty() && (wait || events_->Passed(events.back()))) {
      if (wait) events_->Wait(events.back());
      events_->Forget(events.back());
      events.pop_back();
    }
    if (events.empty()) {
      statistics_.waiting_bytes -= block.block_bytes;
      status.Update(GiveBack(block.block, block.block_bytes, block.stream));
    } else {
      if (&waiting_[kept] != &block) waiting_[kept] = std::move(block);
      ++kept;
    }
  }
  waiting_.resize(kept);
  return status;
}

int64_t Allocator::ReleaseIdleLocked() {
  int64_t released = 0;
  for (const auto& pool : pools_) {
    if (pool != nullptr) released += pool->ReleaseIdle();
  }
  return released;
}

bool Allocator::OthersHoldBlocks() const {
  bool others = false;
  live_.ForEach(
      [&others, self = std::this_thread::get_id()](const LiveBlock& block) { others |= block.thread != self; });
  return others;
}

OutOfMemory Allocator::Facts(const BlockPool& pool, int64_t bytes, const BlockOwner& owner,
                             const absl::Status& refusal) const {
  OutOfMemory facts;
  facts.place = place();
  facts.asked_bytes = bytes;
  facts.asked_by = std::string(owner.name);
  facts.cause = std::string(refusal.message());
  facts.used_bytes = statistics_.used_bytes;
  facts.live_blocks = static_cast<int64_t>(live_.size());
  facts.waiting_bytes = statistics_.waiting_bytes;
  facts.reserved_bytes = source_.reserved_bytes();
  facts.device_free_bytes = source_.source().available_bytes();
  facts.limit_bytes = source_.limit_bytes();
  facts.free_bytes = facts.reserved_bytes - statistics_.block_bytes;
  for (const auto& other : pools_) {
    if (other != nullptr) facts.largest_free_bytes = std::max(facts.largest_free_bytes, other->largest_free_bytes());
  }
  // The source said it has room and then refused, so its figure is worth nothing.
  const int64_t room = source_.available_bytes();
  const int64_t needed = pool.BlockBytes(bytes);
  facts.fits_bytes = pool.largest_free_bytes();
  if (room > 0 && needed > room) facts.fits_bytes = std::max(facts.fits_bytes, pool.RequestThatFits(room));
  const bool on_device = facts.device_free_bytes < 0 || needed <= facts.device_free_bytes;
  if (facts.limit_bytes > 0 && needed > facts.limit_bytes - facts.reserved_bytes && on_device) {
    facts.limit_that_fits = facts.reserved_bytes + needed;
  }
  std::vector<LiveBlock> holders;
  live_.ForEach([&](const LiveBlock& block) {
    holders.push_back(block);
    if (!block.held_as.empty()) facts.held_bytes += block.bytes;
  });
  const auto shown = holders.begin() + static_cast<int64_t>(std::min<size_t>(5, holders.size()));
  std::partial_sort(holders.begin(), shown, holders.end(), [](const LiveBlock& a, const LiveBlock& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  for (auto holder = holders.begin(); holder != shown; ++holder) {
    facts.largest.push_back({std::string(holder->name), holder->bytes, std::string(holder->held_as)});
  }
  return facts;
}

}  // namespace snug::core::memory
