#include "memory/order/exact_search.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "memory/order/live_sweep.h"

namespace snug::core::memory {
namespace {
constexpr size_t kMostStarts = 512;  // the most chains that are tried from one set

constexpr size_t kMost = size_t{1} << 22;  // an entry takes 32 bytes

}  // namespace

ExactSearch::ExactSearch(const TaskNet& net, Late late)
    : net_(net),
      late_(net, late == Late::kLikeOthers),
      sweep_(net, Direction::kForward),
      missing_(static_cast<size_t>(net.size), 0),
      ready_((static_cast<size_t>(net.size) + 63) / 64, 0) {
  std::mt19937_64 random(1);
  for (int32_t t = 0; t < net.size; ++t) {
    const uint64_t low = random();
    keys_.push_back({low, random()});
    missing_[static_cast<size_t>(t)] = static_cast<int32_t>(late_.before[t].size());
    if (late_.late[static_cast<size_t>(t)] == 0 && missing_[static_cast<size_t>(t)] == 0) Flip(t);
  }
}

void ExactSearch::Flip(int32_t task) { ready_[static_cast<size_t>(task) / 64] ^= uint64_t{1} << (task % 64); }

void ExactSearch::Take(int32_t task) {
  sweep_.Take(task);
  order_.push_back(task);
  hash_.low ^= keys_[static_cast<size_t>(task)].low;
  hash_.high ^= keys_[static_cast<size_t>(task)].high;
  ++work_;
  if (late_.late[static_cast<size_t>(task)] != 0) return;
  Flip(task);
  for (const int32_t next : late_.after[task]) {
    if (--missing_[static_cast<size_t>(next)] == 0) Flip(next);
  }
}

void ExactSearch::UndoTo(size_t depth) {
  while (order_.size() > depth) {
    const int32_t task = order_.back();
    order_.pop_back();
    sweep_.Return(task);
    hash_.low ^= keys_[static_cast<size_t>(task)].low;
    hash_.high ^= keys_[static_cast<size_t>(task)].high;
    if (late_.late[static_cast<size_t>(task)] != 0) continue;
    Flip(task);
    for (const int32_t next : late_.after[task]) {
      if (missing_[static_cast<size_t>(next)]++ == 0) Flip(next);
    }
  }
}

// Takes `task`, and the late tasks that it needs, if that stays below the bound and leaves at most `most_live` bytes.
bool ExactSearch::TakeAll(int32_t task, int64_t most_live) {
  const size_t depth = order_.size();
  ++work_;
  for (const int32_t late : late_.along[task]) {
    if (sweep_.Taken(late)) continue;
    if (!Fits(late)) {
      UndoTo(depth);
      return false;
    }
    Take(late);
  }
  if (!Fits(task) || sweep_.live() + sweep_.Delta(task) > most_live) {
    UndoTo(depth);
    return false;
  }
  Take(task);
  return true;
}

template <typename Visit>
void ExactSearch::ForEachReady(const Visit& visit) const {
  for (size_t w = 0; w < ready_.size(); ++w) {
    for (uint64_t bits = ready_[w]; bits != 0; bits &= bits - 1) {
      visit(static_cast<int32_t>(64 * w) + std::countr_zero(bits));
    }
  }
}

bool ExactSearch::IsReady(int32_t task) const {
  return (ready_[static_cast<size_t>(task) / 64] >> (task % 64) & 1) != 0;
}

// Takes `task` if it is free, and then all that becomes free by that.
void ExactSearch::TakeIfFree(int32_t task) {
  chain_.assign(1, task);
  while (!chain_.empty()) {
    const int32_t next = chain_.back();
    chain_.pop_back();
    if (!IsReady(next) || !TakeAll(next, sweep_.live())) continue;
    const auto followers = late_.after[next];
    chain_.insert(chain_.end(), sweep_.changed().begin(), sweep_.changed().end());
    chain_.insert(chain_.end(), followers.begin(), followers.end());
  }
}

void ExactSearch::TakeFree() {
  size_t depth;
  do {
    depth = order_.size();
    work_ += static_cast<int64_t>(ready_.size()) / 8;
    ForEachReady([&](int32_t task) { TakeIfFree(task); });
  } while (order_.size() > depth);
}

// Returns the least live bytes of any set that the current one and some of `tasks` from `from` on make.
int64_t ExactSearch::LeastLive(const std::vector<int32_t>& tasks, size_t from) {
  int64_t least = sweep_.live();
  const size_t depth = order_.size();
  for (size_t i = from; i < tasks.size(); ++i) {
    if (!IsReady(tasks[i])) continue;
    for (const int32_t late : late_.along[tasks[i]]) {
      if (!sweep_.Taken(late)) Take(late);
    }
    Take(tasks[i]);
    least = std::min(least, LeastLive(tasks, i + 1));
    UndoTo(depth);
  }
  return least;
}

// Takes `task`, then as many free tasks as it can among those that wait for it and those that it brings closer to the
// end of an input, and keeps them if no more bytes are live at the end than now. A set on the way that holds `task`
// never has fewer bytes than the last one, because each of the other tasks was free. Sets on the way without `task` are
// checked one by one.
bool ExactSearch::TakeSinkingChain(int32_t task) {
  constexpr size_t kMostOthers = 6;
  const int64_t live = sweep_.live();
  const size_t depth = order_.size();
  const bool late = late_.late[static_cast<size_t>(task)] != 0;
  if (late) {
    ++work_;
    if (!Fits(task)) return false;
    Take(task);
  } else if (!TakeAll(task, kNoBound)) {
    return false;
  }
  std::vector<int32_t> others;  // those that do not wait for `task`
  const auto first = late ? net_.after[task] : late_.after[task];
  chain_.assign(first.begin(), first.end());
  const auto look_again = [&] {
    for (const int32_t lowered : sweep_.changed()) {
      if (!IsReady(lowered)) continue;
      if (std::find(chain_.begin(), chain_.end(), lowered) == chain_.end()) {
        if (others.size() == kMostOthers) continue;
        others.push_back(lowered);
      }
      chain_.push_back(lowered);
    }
  };
  look_again();
  for (size_t at = 0; at < chain_.size() && sweep_.live() > live; ++at) {
    const int32_t next = chain_[at];
    if (!IsReady(next) || !TakeAll(next, sweep_.live())) continue;
    if (std::find(others.begin(), others.end(), next) == others.end()) {
      const auto followers = late_.after[next];
      chain_.insert(chain_.end(), followers.begin(), followers.end());
    }
    look_again();
  }
  if (sweep_.live() > live) {
    UndoTo(depth);
    return false;
  }
  if (others.size() < 2) return true;  // one of them alone was not free before
  const std::vector<int32_t> taken(order_.begin() + static_cast<std::ptrdiff_t>(depth), order_.end());
  const int64_t reached = sweep_.live();
  UndoTo(depth);
  if (LeastLive(others, 0) < reached) return false;
  for (const int32_t again : taken) Take(again);
  return true;
}

// Goes on from the current set for as long as there is only one way. Returns false when nothing leads on.
bool ExactSearch::Advance(Frame* frame) {
  std::vector<std::pair<int64_t, int32_t>> found;  // the live bytes after a task, and the task
  std::vector<int32_t> starts;                     // the tasks that chains start with
  for (;;) {
    TakeFree();
    if (static_cast<int32_t>(order_.size()) == net_.size) return true;
    if (failed_.Holds(hash_)) return false;
    found.clear();
    starts.clear();
    const size_t depth = order_.size();
    ForEachReady([&](int32_t task) {
      for (const int32_t late : late_.along[task]) {
        if (sweep_.Ready(late)) starts.push_back(late);
      }
      if (!TakeAll(task, kNoBound)) return;
      found.emplace_back(sweep_.live(), task);
      starts.push_back(task);
      UndoTo(depth);
    });
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    starts.resize(std::min(starts.size(), kMostStarts));
    if (std::none_of(starts.begin(), starts.end(), [&](int32_t task) { return TakeSinkingChain(task); })) break;
  }
  std::sort(found.begin(), found.end());
  frame->choices.clear();
  for (size_t i = found.size(); i-- > 0;) frame->choices.push_back(found[i].second);
  frame->hash = hash_;
  frame->depth = order_.size();
  return true;
}

Answer ExactSearch::Start(int64_t bound) {
  if (bound > bound_) failed_.Clear();
  bound_ = bound;
  UndoTo(0);
  frames_.assign(1, Frame());
  return net_.start_bytes <= bound && Advance(&frames_.back()) ? Answer::kUnknown : Answer::kNone;
}

Answer ExactSearch::Decide(int64_t bound, int64_t work_limit) {
  const int64_t stop = work_ + std::min(work_limit, std::numeric_limits<int64_t>::max() - work_);
  if (bound != bound_ || answer_ != Answer::kUnknown) answer_ = Start(bound);
  while (answer_ == Answer::kUnknown && work_ < stop) {
    if (static_cast<int32_t>(order_.size()) == net_.size) {
      answer_ = Answer::kFound;
      break;
    }
    Frame& frame = frames_.back();
    UndoTo(frame.depth);
    if (frame.choices.empty()) {
      failed_.Insert(frame.hash);
      frames_.pop_back();
      if (frames_.empty()) answer_ = Answer::kNone;
      continue;
    }
    const int32_t task = frame.choices.back();
    frame.choices.pop_back();
    TakeAll(task, kNoBound);
    Frame next;
    if (Advance(&next)) frames_.push_back(std::move(next));
  }
  return answer_;
}

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
