#include "engine/run/dependency/faults.h"

#include <utility>

namespace snug::core {

Faults::Fault Faults::Find(absl::Span<const Region> reads, absl::Span<const Region> writes, Kinds kinds) const {
  const std::lock_guard lock(mu_);
  Fault found;
  for (const auto& regions : {reads, writes}) {
    for (const Region& r : regions) {
      const auto arena = poisoned_.find(r.arena);
      if (arena == poisoned_.end()) continue;
      arena->second.ForEach(r.begin, r.end, [&](const Fault& fault) {
        if (found.status.ok() || fault.sequence < found.sequence) found = fault;
      });
    }
  }
  if (found.status.ok() && cancelling_ && kinds == kPoisonOrStop) {
    found.status = absl::CancelledError("the engine was stopped before the task ran");
  }
  return found;
}

void Faults::Record(int64_t sequence, const Fault& fault, absl::Span<const Region> writes) {
  const std::lock_guard lock(mu_);
  if (first_.status.ok() || sequence < first_.sequence) first_ = {sequence, fault.status};
  for (const Region& r : writes) {
    if (r.begin < r.end) poisoned_[r.arena].Assign(r.begin, r.end, fault);
  }
  UpdateAny();
}

void Faults::Clear(const Region& region) {
  const std::lock_guard lock(mu_);
  const auto arena = poisoned_.find(region.arena);
  if (arena == poisoned_.end()) return;
  arena->second.Erase(region.begin, region.end);
  if (arena->second.empty()) poisoned_.erase(arena);
  UpdateAny();
}

void Faults::ClearAll() {
  const std::lock_guard lock(mu_);
  poisoned_.clear();
  first_ = {};
  UpdateAny();
}

absl::Status Faults::TakeFirst() {
  const std::lock_guard lock(mu_);
  return std::exchange(first_, {}).status;
}

void Faults::SetCancelling(bool cancelling) {
  const std::lock_guard lock(mu_);
  cancelling_ = cancelling;
  UpdateAny();
}

}  // namespace snug::core
