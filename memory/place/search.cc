#include "memory/place/search.h"

#include <algorithm>
#include <limits>

#include "engine/base/random.h"

namespace snug::memory {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;
constexpr size_t kMaxDepth = 8000;  // of the recursion; what the stack of a thread holds with ease
constexpr size_t kTable = size_t{1} << 20;

}  // namespace

Search::Search(const Instance& instance, const Conflicts& conflicts) : instance_(instance), conflicts_(conflicts) {
  const size_t n = instance.size();
  const auto sections = static_cast<size_t>(instance.sections);
  items_in_.resize(sections);
  padding_.assign(sections, 0);
  twin_.assign(n, -1);
  shape_.assign(n, 0);
  item_key_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Item& item = instance.items[i];
    item_key_[i] = MixKeys(i, 1);
    for (const Span& span : item.spans) {
      for (int32_t s = span.first; s <= span.last; ++s) {
        items_in_[static_cast<size_t>(s)].push_back(static_cast<int32_t>(i));
        padding_[static_cast<size_t>(s)] = std::max(padding_[static_cast<size_t>(s)], item.padding);
      }
    }
    if (i == 0) continue;
    const Item& before = instance.items[i - 1];
    bool same = before.first == item.first && before.last == item.last && before.spans.size() == item.spans.size();
    for (size_t s = 0; same && s < item.spans.size(); ++s) {
      same = before.spans[s].first == item.spans[s].first && before.spans[s].last == item.spans[s].last;
    }
    same = same && before.alignment == item.alignment && before.fixed_offset < 0 && item.fixed_offset < 0;
    shape_[i] = same ? shape_[i - 1] : static_cast<int32_t>(i);
    if (same && before.size == item.size && before.padding == item.padding) twin_[i] = static_cast<int32_t>(i) - 1;
  }
  key_.resize(n);
  is_dirty_.assign(sections, 0);
  valley_.resize(sections);
  supported_.resize(sections + 1);
  cover_.resize(sections + 1);
  valley_step_.resize(sections);
  failed_.assign(kTable, 0);
}

void Search::Reset() {
  const size_t n = instance_.size();
  const auto sections = static_cast<size_t>(instance_.sections);
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
  opened_ = 0;
  stack_.clear();
  for (size_t i = 0; i < n; ++i) {
    const Item& item = instance_.items[i];
    if (item.fixed_offset >= 0) least_[i] = item.fixed_offset;
    ++shapes_left_[static_cast<size_t>(shape_[i])];
    for (const Span& span : item.spans) {
      for (int32_t s = span.first; s <= span.last; ++s) ++count_[static_cast<size_t>(s)];
    }
    for (int32_t s = item.first; s < item.last; ++s) ++crossing_[static_cast<size_t>(s)];
    stack_.push_back(static_cast<int32_t>(i));
  }
}

Verdict Search::Run(int64_t capacity, Preference preference, int64_t work, const std::function<bool()>& stop) {
  if (capacity != capacity_) failed_.assign(kTable, 0);
  capacity_ = capacity;
  stop_ = &stop;
  work_end_ = work_ + work;
  Reset();
  const std::vector<int64_t> load = rest_;
  for (size_t i = 0; i < instance_.size(); ++i) {
    const Item& item = instance_.items[i];
    const double sections = item.last - item.first + 1;
    int64_t most = 0;
    for (int32_t s = item.first; s <= item.last; ++s) most = std::max(most, load[static_cast<size_t>(s)]);
    const auto size = static_cast<double>(item.size);
    switch (preference) {
      case Preference::kLongest:
        key_[i] = sections;
        break;
      case Preference::kLargest:
        key_[i] = size;
        break;
      case Preference::kArea:
        key_[i] = size * sections;
        break;
      case Preference::kLoad:
        key_[i] = static_cast<double>(most) * 1e3 + sections;
        break;
    }
    if (least_[i] + item.size - item.padding > capacity) return Verdict::kDoesNotFit;
  }
  for (int32_t s = 0; s < instance_.sections; ++s) MarkDirty(s);
  if (!Settle()) return Verdict::kDoesNotFit;
  return SolveParts(0, instance_.sections - 1, 0, stack_.size());
}

// Of two that live alike and lie on each other, one sequence is enough: with more padding, which may stick out at the
// top, on top; else as in the instance.
bool Search::GoesUnder(size_t a, size_t b) const {
  const int64_t padding_a = instance_.items[a].padding, padding_b = instance_.items[b].padding;
  return padding_a != padding_b ? padding_a < padding_b : a < b;
}

// Brings the floors of dirty sections up to the items that are left in them; false: one does not fit.
bool Search::Settle() {
  bool fits = true;
  for (const int32_t section : dirty_) {
    const auto s = static_cast<size_t>(section);
    is_dirty_[s] = 0;
    if (!fits || count_[s] == 0) continue;
    int64_t least = kNever;
    for (const int32_t i : items_in_[s]) {
      if (placed_[static_cast<size_t>(i)] == 0) least = std::min(least, least_[static_cast<size_t>(i)]);
    }
    work_ += static_cast<int64_t>(items_in_[s].size()) / 4;
    if (least > floor_[s]) Set(&floor_[s], least);
    fits = floor_[s] + rest_[s] - padding_[s] <= capacity_;
  }
  dirty_.clear();
  return fits;
}

// The item lies at `offset` or above; false: it cannot.
bool Search::LiftItem(int32_t index, int64_t offset) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  offset = AlignUp(offset, item.alignment);
  if (offset <= least_[i]) return true;
  if (item.fixed_offset >= 0 || offset + item.size - item.padding > capacity_) return false;
  Set(&least_[i], offset);
  for (const Span& span : item.spans) {
    for (int32_t s = span.first; s <= span.last; ++s) MarkDirty(s);
  }
  return true;
}

bool Search::Put(int32_t index, int64_t offset) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  placed_[i] = 1;
  put_.push_back(index);
  offset_[i] = offset;
  --shapes_left_[static_cast<size_t>(shape_[i])];
  const int64_t end = offset + item.size;
  for (const Span& span : item.spans) {
    for (int32_t section = span.first; section <= span.last; ++section) {
      const auto s = static_cast<size_t>(section);
      rest_[s] -= item.size;
      --count_[s];
      Set(&floor_[s], end);
      Set(&top_[s], end);
      Set(&under_[s], index);
      MarkDirty(section);
    }
  }
  for (int32_t s = item.first; s < item.last; ++s) --crossing_[static_cast<size_t>(s)];
  bool fits = true;
  for (const int32_t* at = conflicts_.First(index); fits && at != conflicts_.Last(index); ++at) {
    if (placed_[static_cast<size_t>(*at)] == 0) fits = LiftItem(*at, end);
  }
  work_ += (conflicts_.Last(index) - conflicts_.First(index)) / 2;
  if (fits) return Settle();
  for (const int32_t s : dirty_) is_dirty_[static_cast<size_t>(s)] = 0;
  dirty_.clear();
  return false;
}

void Search::TakeBack(int32_t index) {
  const auto i = static_cast<size_t>(index);
  const Item& item = instance_.items[i];
  placed_[i] = 0;
  ++shapes_left_[static_cast<size_t>(shape_[i])];
  for (const Span& span : item.spans) {
    for (int32_t s = span.first; s <= span.last; ++s) {
      rest_[static_cast<size_t>(s)] += item.size;
      ++count_[static_cast<size_t>(s)];
    }
  }
  for (int32_t s = item.first; s < item.last; ++s) ++crossing_[static_cast<size_t>(s)];
}

// Nothing covers the section at its floor: what is live in it lies higher, on something that is still to come.
bool Search::LeaveOpen(int32_t section, const std::vector<int32_t>& items) {
  const int64_t level = floor_[static_cast<size_t>(section)];
  const auto covers = [&](const Item& item) {
    for (const Span& span : item.spans) {
      if (span.first <= section && section <= span.last) return true;
    }
    return false;
  };
  bool fits = true;
  for (const int32_t i : items) {
    if (placed_[static_cast<size_t>(i)] != 0) continue;
    if (least_[static_cast<size_t>(i)] > level) continue;
    int64_t next = kNever;
    for (const int32_t* at = conflicts_.First(i); at != conflicts_.Last(i); ++at) {
      const auto j = static_cast<size_t>(*at);
      if (placed_[j] != 0 || (least_[j] <= level && covers(instance_.items[j])))
        continue;  // the latter moves up itself
      next = std::min(next, least_[j] + instance_.items[j].size);
    }
    work_ += (conflicts_.Last(i) - conflicts_.First(i)) / 2;
    fits = next < kNever && LiftItem(i, next);
    if (!fits) break;
  }
  if (fits) return Settle();
  for (const int32_t s : dirty_) is_dirty_[static_cast<size_t>(s)] = 0;
  dirty_.clear();
  return false;
}

uint64_t Search::KeyOf(int32_t first, int32_t last, size_t items_begin, size_t items_end) const {
  uint64_t key = 0;
  for (size_t k = items_begin; k < items_end; ++k) key ^= item_key_[static_cast<size_t>(stack_[k])];
  for (int32_t section = first; section <= last; ++section) {
    const auto s = static_cast<size_t>(section);
    const int64_t under = under_[s];
    const bool matters = under >= 0 && shapes_left_[static_cast<size_t>(shape_[static_cast<size_t>(under)])] > 0;
    const auto what = static_cast<uint64_t>(floor_[s]) * 2 + (top_[s] == floor_[s] ? 1 : 0);
    key = (key ^ (what + (matters ? static_cast<uint64_t>(under + 1) << 44 : 0))) * 0x9E3779B97F4A7C15U;
    key ^= key >> 29;
  }
  return key == 0 ? 1 : key;
}

Verdict Search::SolveParts(int32_t first, int32_t last, size_t items_begin, size_t items_end) {
  struct Part {
    int32_t first, last;
    size_t begin, end;
  };
  std::vector<Part> parts;
  const size_t stack_mark = stack_.size();
  int32_t from = first;
  for (int32_t s = first; s <= last; ++s) {
    if (s < last && crossing_[static_cast<size_t>(s)] > 0) continue;
    if (s > from || count_[static_cast<size_t>(s)] > 0) {
      const size_t begin = stack_.size();
      for (size_t k = items_begin; k < items_end; ++k) {
        const int32_t i = stack_[k];
        const Item& item = instance_.items[static_cast<size_t>(i)];
        if (placed_[static_cast<size_t>(i)] == 0 && item.first >= from && item.last <= s) stack_.push_back(i);
      }
      work_ += static_cast<int64_t>(items_end - items_begin) / 2;
      if (stack_.size() > begin) parts.push_back({from, s, begin, stack_.size()});
    }
    from = s + 1;
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.end - a.begin < b.end - b.begin; });
  Verdict verdict = Verdict::kFits;
  for (const Part& part : parts) {
    verdict = Solve(part.first, part.last, part.begin, part.end);
    if (verdict != Verdict::kFits) break;
  }
  stack_.resize(stack_mark);
  return verdict;
}

Verdict Search::Solve(int32_t first, int32_t last, size_t items_begin, size_t items_end) {
  ++nodes_;
  work_ += static_cast<int64_t>(items_end - items_begin) + (last - first + 1);
  if (work_ >= work_end_ || put_.size() + opened_ > kMaxDepth) return Verdict::kUndecided;
  if (work_ >= next_look_) {
    next_look_ = work_ + 1'000'000;
    if ((*stop_)()) return Verdict::kUndecided;
  }
  const uint64_t key = KeyOf(first, last, items_begin, items_end);
  if (failed_[key % kTable] == key) return Verdict::kDoesNotFit;
  const auto fail = [&] {
    failed_[key % kTable] = key;
    return Verdict::kDoesNotFit;
  };

  // Valleys: valley_[s] is the first section of the one that s belongs to, or -1.
  const auto level = [&](int32_t s) {
    return count_[static_cast<size_t>(s)] > 0 ? floor_[static_cast<size_t>(s)] : kNever;
  };
  int64_t lowest = kNever;
  if (instance_.has_gaps) {
    for (int32_t s = first; s <= last; ++s) lowest = std::min(lowest, level(s));
  }
  supported_[static_cast<size_t>(first)] = 0;
  for (int32_t from = first, to = first; from <= last; from = to) {
    const int64_t height = level(from);
    for (to = from; to <= last && level(to) == height; ++to) {
      const auto s = static_cast<size_t>(to);
      supported_[s + 1] = supported_[s] + (top_[s] == height ? 1 : 0);
      cover_[s] = 0;
    }
    const int64_t left = from > first ? level(from - 1) : kNever;
    const int64_t right = to <= last ? level(to) : kNever;
    const bool is_valley =
        height < left && height < right && height < kNever && (!instance_.has_gaps || height == lowest);
    for (int32_t s = from; s < to; ++s) valley_[static_cast<size_t>(s)] = is_valley ? from : -1;
    valley_step_[static_cast<size_t>(from)] = std::min(left, right) - height;
  }
  cover_[static_cast<size_t>(last) + 1] = 0;

  // What can lie on them.
  const size_t candidates_begin = stack_.size();
  for (size_t k = items_begin; k < items_end; ++k) {
    const auto i = static_cast<size_t>(stack_[k]);
    const Item& item = instance_.items[i];
    const auto a = static_cast<size_t>(item.first);
    const int32_t valley = valley_[a];
    const int64_t height = floor_[a];
    if (valley < 0 || least_[i] != height) continue;
    if (item.spans.size() > 1) {
      bool even = true;
      for (const Span& span : item.spans) {
        for (int32_t s = span.first; s <= span.last; ++s) even = even && floor_[static_cast<size_t>(s)] == height;
      }
      if (!even) continue;
    }
    valley_step_[static_cast<size_t>(valley)] = std::min(valley_step_[static_cast<size_t>(valley)], item.size);
    if (twin_[i] >= 0 && placed_[static_cast<size_t>(twin_[i])] == 0) continue;
    if (item.fixed_offset < 0 && instance_.same_alignment) {
      bool rests = false;
      for (const Span& span : item.spans) {
        rests = rests || supported_[static_cast<size_t>(span.last) + 1] > supported_[static_cast<size_t>(span.first)];
      }
      if (!rests) continue;
      const int64_t under = under_[a];
      if (under >= 0 && top_[a] == height && shape_[static_cast<size_t>(under)] == shape_[i] &&
          !GoesUnder(static_cast<size_t>(under), i)) {
        continue;
      }
    }
    stack_.push_back(stack_[k]);
    for (const Span& span : item.spans) {
      ++cover_[static_cast<size_t>(span.first)];
      --cover_[static_cast<size_t>(span.last) + 1];
    }
  }

  // The section that leaves the fewest choices.
  int32_t section = -1;
  int32_t fewest = std::numeric_limits<int32_t>::max();
  int32_t covering = 0;
  const bool exact_steps = instance_.same_alignment && !instance_.has_gaps && !instance_.has_fixed;
  for (int32_t at = first; at <= last; ++at) {
    const auto s = static_cast<size_t>(at);
    covering += cover_[s];
    if (valley_[s] < 0) continue;
    const int64_t slack = capacity_ + padding_[s] - floor_[s] - rest_[s];
    const int64_t step = exact_steps ? valley_step_[static_cast<size_t>(valley_[s])] : 1;
    const int32_t choices = covering + (slack >= step ? 1 : 0);
    if (choices < fewest || (choices == fewest && floor_[s] < floor_[static_cast<size_t>(section)])) {
      fewest = choices;
      section = at;
    }
  }
  std::vector<int32_t> candidates;
  for (size_t k = candidates_begin; k < stack_.size(); ++k) {
    for (const Span& span : instance_.items[static_cast<size_t>(stack_[k])].spans) {
      if (span.first <= section && section <= span.last) candidates.push_back(stack_[k]);
    }
  }
  stack_.resize(candidates_begin);
  if (fewest == 0) return fail();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](int32_t a, int32_t b) { return key_[static_cast<size_t>(a)] > key_[static_cast<size_t>(b)]; });

  const int64_t height = floor_[static_cast<size_t>(section)];
  const Mark mark{trail_.size(), put_.size()};
  for (const int32_t i : candidates) {
    if (Put(i, height)) {
      const Verdict verdict = SolveParts(first, last, items_begin, items_end);
      if (verdict == Verdict::kFits) return verdict;
      if (verdict == Verdict::kUndecided) {
        Undo(mark);
        return verdict;
      }
    }
    Undo(mark);
  }
  const auto s = static_cast<size_t>(section);
  if (capacity_ + padding_[s] - floor_[s] - rest_[s] <= 0) return fail();
  if (LeaveOpen(section, items_in_[s])) {
    ++opened_;
    const Verdict verdict = SolveParts(first, last, items_begin, items_end);
    --opened_;
    if (verdict == Verdict::kFits) return verdict;
    if (verdict == Verdict::kUndecided) {
      Undo(mark);
      return verdict;
    }
  }
  Undo(mark);
  return fail();
}

}  // namespace snug::memory
