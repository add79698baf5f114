#include "memory/order/exact_search.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

namespace snug::memory {

namespace {
constexpr size_t kMostVisited = size_t{1} << 22;  // of 32 bytes each
}  // namespace

void ExactSearch::Visited::Insert(Hash hash) {
  if (count_ == kMostVisited) return;
  if (2 * (count_ + 1) > slots_.size()) Grow();
  const size_t mask = slots_.size() - 1;
  size_t at = static_cast<size_t>(hash.low) & mask;
  while (slots_[at].low != 0 || slots_[at].high != 0) at = (at + 1) & mask;
  slots_[at] = hash;
  ++count_;
}

bool ExactSearch::Visited::Holds(Hash hash) const {
  if (slots_.empty()) return false;
  const size_t mask = slots_.size() - 1;
  for (size_t at = static_cast<size_t>(hash.low) & mask; slots_[at].low != 0 || slots_[at].high != 0;
       at = (at + 1) & mask) {
    if (slots_[at].low == hash.low && slots_[at].high == hash.high) return true;
  }
  return false;
}

void ExactSearch::Visited::Grow() {
  std::vector<Hash> old(std::max<size_t>(1024, 2 * slots_.size()));
  old.swap(slots_);
  count_ = 0;
  for (const Hash& hash : old) {
    if (hash.low != 0 || hash.high != 0) Insert(hash);
  }
}

ExactSearch::ExactSearch(const TaskNet& net)
    : net_(net), sweep_(net, Direction::kForward), ready_((static_cast<size_t>(net.size) + 63) / 64, 0) {
  std::mt19937_64 random(1);
  for (int32_t t = 0; t < net.size; ++t) {
    const uint64_t low = random();
    keys_.push_back({low, random()});
    if (sweep_.Ready(t)) ready_[static_cast<size_t>(t) / 64] |= uint64_t{1} << (t % 64);
  }
}

void ExactSearch::Take(int32_t task) {
  sweep_.Take(task);
  order_.push_back(task);
  ready_[static_cast<size_t>(task) / 64] &= ~(uint64_t{1} << (task % 64));
  for (const int32_t next : net_.after[task]) {
    if (sweep_.Ready(next)) ready_[static_cast<size_t>(next) / 64] |= uint64_t{1} << (next % 64);
  }
  hash_.low ^= keys_[static_cast<size_t>(task)].low;
  hash_.high ^= keys_[static_cast<size_t>(task)].high;
  ++work_;
}

void ExactSearch::UndoTo(size_t depth) {
  while (order_.size() > depth) {
    const int32_t task = order_.back();
    order_.pop_back();
    sweep_.Return(task);
    for (const int32_t next : net_.after[task]) ready_[static_cast<size_t>(next) / 64] &= ~(uint64_t{1} << (next % 64));
    ready_[static_cast<size_t>(task) / 64] |= uint64_t{1} << (task % 64);
    hash_.low ^= keys_[static_cast<size_t>(task)].low;
    hash_.high ^= keys_[static_cast<size_t>(task)].high;
  }
}

template <typename Visit>
void ExactSearch::ForEachReady(const Visit& visit) const {
  for (size_t w = 0; w < ready_.size(); ++w) {
    for (uint64_t bits = ready_[w]; bits != 0; bits &= bits - 1) {
      visit(static_cast<int32_t>(64 * w) + std::countr_zero(bits));
    }
  }
}

// Takes `task` if it is free, and what becomes free by it.
void ExactSearch::TakeIfFree(int32_t task) {
  chain_.assign(1, task);
  while (!chain_.empty()) {
    const int32_t next = chain_.back();
    chain_.pop_back();
    ++work_;
    if (sweep_.Taken(next) || sweep_.Delta(next) > 0 || !Fits(next)) continue;
    Take(next);
    chain_.insert(chain_.end(), sweep_.changed().begin(), sweep_.changed().end());
  }
}

void ExactSearch::TakeFree() {
  size_t depth;
  do {
    depth = order_.size();
    work_ += static_cast<int64_t>(ready_.size()) / 8;
    for (size_t w = 0; w < ready_.size(); ++w) {
      for (uint64_t bits = ready_[w]; bits != 0; bits &= bits - 1) {
        TakeIfFree(static_cast<int32_t>(64 * w) + std::countr_zero(bits));
      }
    }
  } while (order_.size() > depth);
}

// Takes `task` and, of what follows from it, what is free, if no more bytes are live in the end than now.
bool ExactSearch::TakeSinkingChain(int32_t task) {
  const int64_t live = sweep_.live();
  const size_t depth = order_.size();
  std::vector<int32_t>& chain = chain_;
  chain.assign(1, task);
  for (size_t at = 0; at < chain.size(); ++at) {
    const int32_t next = chain[at];
    ++work_;
    if (sweep_.Taken(next) || !Fits(next) || (at > 0 && sweep_.Delta(next) > 0)) continue;
    Take(next);
    if (sweep_.live() <= live) return true;
    for (const int32_t t : sweep_.changed()) {
      // What was ready before `task` is no part of the chain.
      if (std::find(order_.begin() + static_cast<std::ptrdiff_t>(depth), order_.end(), t) == order_.end())
        chain.push_back(t);
    }
  }
  UndoTo(depth);
  return false;
}

// Goes on from the current set as long as there is one way only; false: nothing leads on.
bool ExactSearch::Advance(Frame* frame) {
  for (;;) {
    TakeFree();
    if (static_cast<int32_t>(order_.size()) == net_.size) return true;
    if (failed_.Holds(hash_)) return false;
    frame->choices.clear();
    ForEachReady([&](int32_t task) {
      if (Fits(task)) frame->choices.push_back(task);
    });
    const auto sinks = [&](int32_t task) { return TakeSinkingChain(task); };
    if (std::none_of(frame->choices.begin(), frame->choices.end(), sinks)) break;
  }
  std::sort(frame->choices.begin(), frame->choices.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(sweep_.Delta(a), a) > std::make_pair(sweep_.Delta(b), b);
  });
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
    Take(task);
    Frame next;
    if (Advance(&next)) frames_.push_back(std::move(next));
  }
  return answer_;
}

}  // namespace snug::memory
