#include "memory/place/search_state.h"

#include <algorithm>
#include <limits>

namespace snug::memory {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool SameShape(const Item& a, const Item& b) {
  if (a.alignment != b.alignment || a.fixed_offset >= 0 || b.fixed_offset >= 0) return false;
  return std::equal(a.spans.begin(), a.spans.end(), b.spans.begin(), b.spans.end(),
                    [](const Span& x, const Span& y) { return x.first == y.first && x.last == y.last; });
}

template <class Visit>
void ForSections(const Item& item, Visit visit) {
  for (const Span& span : item.spans) {
    for (int32_t s = span.first; s <= span.last; ++s) visit(static_cast<size_t>(s));
  }
}

bool LiveIn(const Item& item, int32_t section) {
  return std::any_of(item.spans.begin(), item.spans.end(),
                     [=](const Span& span) { return span.first <= section && section <= span.last; });
}

}  // namespace

SearchState::SearchState(const Instance& instance, const Conflicts& conflicts)
    : instance_(instance), conflicts_(conflicts) {
  const auto sections = static_cast<size_t>(instance.sections);
  items_in_.resize(sections);
  padding_.assign(sections, 0);
  is_dirty_.assign(sections, 0);
  for (size_t i = 0; i < instance.size(); ++i) {
    const Item& item = instance.items[i];
    ForSections(item, [&](size_t s) {
      items_in_[s].push_back(static_cast<int32_t>(i));
      padding_[s] = std::max(padding_[s], item.padding);
    });
    // The instance has items that live alike beside each other.
    const bool same_shape = i > 0 && SameShape(instance.items[i - 1], item);
    const bool same =
        same_shape && instance.items[i - 1].size == item.size && instance.items[i - 1].padding == item.padding;
    shape_.push_back(same_shape ? shape_.back() : static_cast<int32_t>(i));
    twin_.push_back(same ? static_cast<int32_t>(i) - 1 : -1);
  }
}

bool SearchState::Begin(int64_t capacity) {
  const size_t n = instance_.size();
  const auto sections = static_cast<size_t>(instance_.sections);
  capacity_ = capacity;
  floor_.assign(sections, 0);
  top_.assign(sections, 0);
  under_.assign(sections, -1);
  rest_ = LoadOf(instance_);
  count_.assign(sections, 0);
  crossing_.assign(sections, 0);
  shapes_left_.assign(n, 0);
  least_.assign(n, 0);
  offset_.assign(n, 0);
  placed_.assign(n, 0);
  trail_.clear();
  put_.clear();
  bool fits = true;
  for (size_t i = 0; i < n; ++i) {
    const Item& item = instance_.items[i];
    least_[i] = std::max<int64_t>(item.fixed_offset, 0);
    fits = fits && least_[i] + item.size - item.padding <= capacity;
    ++shapes_left_[static_cast<size_t>(shape_[i])];
    ForSections(item, [&](size_t s) { ++count_[s]; });
    for (int32_t s = item.first; s < item.last; ++s) ++crossing_[static_cast<size_t>(s)];
  }
  for (int32_t s = 0; s < instance_.sections; ++s) MarkDirty(s);
  return Settle() && fits;
}

void SearchState::Set(int64_t* where, int64_t value) {
  trail_.push_back({where, *where});
  *where = value;
}

void SearchState::Undo(Mark mark) {
  for (; trail_.size() > mark.trail; trail_.pop_back()) *trail_.back().where = trail_.back().before;
  for (; put_.size() > mark.put; put_.pop_back()) TakeBack(put_.back());
}

void SearchState::MarkDirty(int32_t section) {
  char& is_dirty = is_dirty_[static_cast<size_t>(section)];
  if (is_dirty == 0) dirty_.push_back(section);
  is_dirty = 1;
}

void SearchState::ForgetDirty() {
  for (const int32_t s : dirty_) is_dirty_[static_cast<size_t>(s)] = 0;
  dirty_.clear();
}

bool SearchState::Settle() {
  const bool fits = std::all_of(dirty_.begin(), dirty_.end(), [&](int32_t s) { return SettleSection(s); });
  ForgetDirty();
  return fits;
}

// Brings the floor up to the items that are left; false: they do not fit. Items are jobs on one machine, `least` is
// when they are released: whatever is released at t or later fills at least its own size from t on.
bool SearchState::SettleSection(int32_t section) {
  const auto s = static_cast<size_t>(section);
  if (count_[s] == 0) return true;
  work_ += static_cast<int64_t>(items_in_[s].size()) / 4;
  waiting_.clear();
  int64_t least = kNever, most = 0;
  for (const int32_t i : items_in_[s]) {
    if (placed(i)) continue;
    const int64_t release = least_[static_cast<size_t>(i)];
    least = std::min(least, release);
    most = std::max(most, release);
    waiting_.emplace_back(release, instance_.items[static_cast<size_t>(i)].size);
  }
  if (least > floor_[s]) Set(&floor_[s], least);
  const int64_t ceiling = capacity_ + padding_[s];
  bool fits = floor_[s] + rest_[s] <= ceiling;
  if (fits && most > least) {
    work_ += static_cast<int64_t>(waiting_.size()) / 2;
    std::sort(waiting_.begin(), waiting_.end(), std::greater<>());
    int64_t sum = 0;
    for (const auto& [release, size] : waiting_) {
      sum += size;
      fits = fits && release + sum <= ceiling;
    }
  }
  if (!fits) culprit_ = section;
  return fits;
}

// The item lies at `offset` or above; false: it cannot.
bool SearchState::LiftItem(int32_t index, int64_t offset) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  offset = AlignUp(offset, item.alignment);
  if (offset <= least_[i]) return true;
  if (item.fixed_offset >= 0 || offset + item.size - item.padding > capacity_) {
    culprit_ = item.first;
    return false;
  }
  Set(&least_[i], offset);
  ForSections(item, [&](size_t s) { MarkDirty(static_cast<int32_t>(s)); });
  return true;
}

bool SearchState::Put(int32_t index, int64_t offset) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  const int64_t end = offset + item.size;
  placed_[i] = 1;
  offset_[i] = offset;
  put_.push_back(index);
  --shapes_left_[static_cast<size_t>(shape_[i])];
  ForSections(item, [&](size_t s) {
    rest_[s] -= item.size;
    --count_[s];
    Set(&floor_[s], end);
    Set(&top_[s], end);
    Set(&under_[s], index);
    MarkDirty(static_cast<int32_t>(s));
  });
  for (int32_t s = item.first; s < item.last; ++s) --crossing_[static_cast<size_t>(s)];
  work_ += (conflicts_.Last(index) - conflicts_.First(index)) / 2;
  const bool fits = std::all_of(conflicts_.First(index), conflicts_.Last(index),
                                [&](int32_t other) { return placed(other) || LiftItem(other, end); });
  if (fits) return Settle();
  ForgetDirty();
  return false;
}

void SearchState::TakeBack(int32_t index) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  placed_[i] = 0;
  ++shapes_left_[static_cast<size_t>(shape_[i])];
  ForSections(item, [&](size_t s) {
    rest_[s] += item.size;
    ++count_[s];
  });
  for (int32_t s = item.first; s < item.last; ++s) ++crossing_[static_cast<size_t>(s)];
}

bool SearchState::LeaveOpen(int32_t section) {
  const int64_t level = floor(section);
  const auto next_offset = [&](int32_t index) {  // the lowest top on which the item could lie instead
    int64_t next = kNever;
    for (const int32_t* at = conflicts_.First(index); at != conflicts_.Last(index); ++at) {
      if (placed(*at)) continue;
      const Item& other = instance_.items[static_cast<size_t>(*at)];
      if (least(*at) <= level && LiveIn(other, section)) continue;  // moves up itself
      next = std::min(next, least(*at) + other.size);
    }
    work_ += (conflicts_.Last(index) - conflicts_.First(index)) / 2;
    return next;
  };
  for (const int32_t i : items_in_[static_cast<size_t>(section)]) {
    if (placed(i) || least(i) > level) continue;
    const int64_t next = next_offset(i);
    if (next < kNever && LiftItem(i, next)) continue;
    if (next == kNever) culprit_ = section;
    ForgetDirty();
    return false;
  }
  return Settle();
}

}  // namespace snug::memory
