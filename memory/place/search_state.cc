#include "memory/place/search_state.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace snug::core::memory {
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
  dirty_check_.assign(sections, kNothing);
  for (size_t i = 0; i < instance.size(); ++i) {
    const Item& item = instance.items[i];
    ForSections(item, [&](size_t s) {
      items_in_[s].push_back(static_cast<int32_t>(i));
      padding_[s] = std::max(padding_[s], item.padding);
    });
    // The instance is sorted so that items of one shape are neighbours.
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
  for (size_t s = 0; s < sections; ++s) MarkDirty(s, kReleases);
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

void SearchState::MarkDirty(size_t section, Check check) {
  Check& now = dirty_check_[section];
  if (now == kNothing) dirty_.push_back(static_cast<int32_t>(section));
  now = std::max(now, check);
}

void SearchState::ForgetDirty() {
  for (const int32_t s : dirty_) dirty_check_[static_cast<size_t>(s)] = kNothing;
  dirty_.clear();
}

bool SearchState::Settle() {
  const bool fits =
      std::all_of(dirty_.begin(), dirty_.end(), [&](int32_t s) { return SettleSection(static_cast<size_t>(s)); });
  ForgetDirty();
  return fits;
}

// Raises the floor to the lowest item that is left. Returns false when the items do not fit.
bool SearchState::SettleSection(size_t s) {
  if (count_[s] == 0) return true;
  int64_t least = kNever;
  size_t looks = 0;
  for (const int32_t i : items_in_[s]) {
    ++looks;
    if (placed(i)) continue;
    least = std::min(least, least_[static_cast<size_t>(i)]);
    if (least == floor_[s]) break;
  }
  work_ += static_cast<int64_t>(looks) / 4;
  if (least > floor_[s]) Set(&floor_[s], least);
  const bool fits = slack(static_cast<int32_t>(s)) >= 0 && (dirty_check_[s] != kReleases || ReleasesFit(s));
  if (!fits) culprit_ = static_cast<int32_t>(s);
  return fits;
}

// Treats items as jobs on one machine with `least` as their release time: the items that are released at t or later
// fill at least the sum of their sizes from t on.
bool SearchState::ReleasesFit(size_t s) {
  waiting_.clear();
  for (const int32_t i : items_in_[s]) {
    if (!placed(i)) waiting_.emplace_back(least(i), instance_.items[static_cast<size_t>(i)].size);
  }
  work_ += static_cast<int64_t>(items_in_[s].size()) / 4 + static_cast<int64_t>(waiting_.size());
  std::sort(waiting_.begin(), waiting_.end(), std::greater<>());
  int64_t sum = 0;
  return std::all_of(waiting_.begin(), waiting_.end(), [&](const std::pair<int64_t, int64_t>& item) {
    sum += item.second;
    return item.first + sum <= capacity_ + padding_[s];
  });
}

// Lets the item lie no lower than `offset`. Returns false when it cannot.
bool SearchState::LiftItem(int32_t index, int64_t offset) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  offset = AlignUp(offset, item.alignment);
  if (offset <= least_[i]) return true;
  if (item.fixed_offset >= 0 || offset + item.size - item.padding > capacity_) {
    culprit_ = item.first;
    return false;
  }
  const int64_t before = least_[i];
  Set(&least_[i], offset);
  work_ += (item.last - item.first) / 8;
  ForSections(item, [&](size_t s) {
    if (offset + rest_[s] > capacity_ + padding_[s]) {
      MarkDirty(s, kReleases);
    } else if (before == floor_[s]) {
      MarkDirty(s, kFloor);
    }
  });
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
    MarkDirty(s, kFloor);
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
      if (least(*at) <= level && LiveIn(other, section)) continue;  // it has to move up itself
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

}  // namespace snug::core::memory
