#include "memory/order/task_sets.h"

#include <algorithm>

namespace snug::core::memory {
namespace {
constexpr size_t kMost = size_t{1} << 22;  // an entry takes 32 bytes
}  // namespace

void TaskSets::Insert(TaskSetHash hash) {
  if (count_ == kMost) return;
  if (2 * (count_ + 1) > slots_.size()) Grow();
  const size_t mask = slots_.size() - 1;
  size_t at = static_cast<size_t>(hash.low) & mask;
  while (slots_[at].low != 0 || slots_[at].high != 0) at = (at + 1) & mask;
  slots_[at] = hash;
  ++count_;
}

bool TaskSets::Holds(TaskSetHash hash) const {
  if (slots_.empty()) return false;
  const size_t mask = slots_.size() - 1;
  for (size_t at = static_cast<size_t>(hash.low) & mask; slots_[at].low != 0 || slots_[at].high != 0;
       at = (at + 1) & mask) {
    if (slots_[at].low == hash.low && slots_[at].high == hash.high) return true;
  }
  return false;
}

void TaskSets::Grow() {
  std::vector<TaskSetHash> old(std::max<size_t>(1024, 2 * slots_.size()));
  old.swap(slots_);
  count_ = 0;
  for (const TaskSetHash& hash : old) {
    if (hash.low != 0 || hash.high != 0) Insert(hash);
  }
}

}  // namespace snug::core::memory
