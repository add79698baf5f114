#include "memory/place/list_placer.h"

#include <algorithm>

namespace snug::core::memory {
namespace {

bool LiveTogether(const Item& a, const Item& b) {
  if (a.spans.size() == 1 && b.spans.size() == 1) return a.first <= b.last && b.first <= a.last;
  for (size_t i = 0, j = 0; i < a.spans.size() && j < b.spans.size();) {
    if (a.spans[i].last < b.spans[j].first) {
      ++i;
    } else if (b.spans[j].last < a.spans[i].first) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace

int64_t CountConflicts(const Instance& instance) {
  // Items are sorted by `first`: item j conflicts with the earlier ones that do not end before j begins.
  std::vector<int64_t> ended(static_cast<size_t>(instance.sections) + 1, 0);  // how many items have ended before a
                                                                              // section
  for (const Item& item : instance.items) ++ended[static_cast<size_t>(item.last) + 1];
  for (size_t s = 1; s < ended.size(); ++s) ended[s] += ended[s - 1];
  int64_t pairs = 0;
  for (size_t j = 0; j < instance.size(); ++j) {
    pairs += static_cast<int64_t>(j) - ended[static_cast<size_t>(instance.items[j].first)];
  }
  return pairs;
}

namespace {

// How many neighbours each item has, if none has gaps: those before it that do not end before it begins, and those
// behind it that begin before it ends.
std::vector<int64_t> CountNeighbors(const Instance& instance) {
  const size_t n = instance.size(), sections = static_cast<size_t>(instance.sections);
  std::vector<int64_t> ended(sections + 1, 0), begun(sections + 1, 0);  // before a section
  for (const Item& item : instance.items) {
    ++ended[static_cast<size_t>(item.last) + 1];
    ++begun[static_cast<size_t>(item.first) + 1];
  }
  for (size_t s = 1; s <= sections; ++s) {
    ended[s] += ended[s - 1];
    begun[s] += begun[s - 1];
  }
  std::vector<int64_t> counts(n);
  for (size_t j = 0; j < n; ++j) {
    const Item& item = instance.items[j];
    counts[j] = begun[static_cast<size_t>(item.last) + 1] - ended[static_cast<size_t>(item.first)] - 1;
  }
  return counts;
}

}  // namespace

Conflicts ConflictsOf(const Instance& instance) {
  const size_t n = instance.size();
  Conflicts conflicts;
  conflicts.begin.assign(n + 1, 0);
  const auto for_each_pair = [&](auto&& visit) {
    struct Live {
      int32_t item, last;  // a copy, because items lie far apart
    };
    std::vector<Live> live;
    for (size_t j = 0; j < n; ++j) {
      const Item& b = instance.items[j];
      std::erase_if(live, [&b](const Live& a) { return a.last < b.first; });
      for (const Live& a : live) {
        const auto i = static_cast<size_t>(a.item);
        if (!instance.has_gaps || LiveTogether(instance.items[i], b)) visit(i, j);
      }
      live.push_back({static_cast<int32_t>(j), b.last});
    }
  };
  if (instance.has_gaps) {
    for_each_pair([&](size_t i, size_t j) {
      ++conflicts.begin[i + 1];
      ++conflicts.begin[j + 1];
    });
  } else {
    const std::vector<int64_t> counts = CountNeighbors(instance);
    std::copy(counts.begin(), counts.end(), conflicts.begin.begin() + 1);
  }
  for (size_t i = 1; i <= n; ++i) conflicts.begin[i] += conflicts.begin[i - 1];
  conflicts.neighbor.resize(static_cast<size_t>(conflicts.begin[n]));
  std::vector<int64_t> next(conflicts.begin.begin(), conflicts.begin.end() - 1);
  for_each_pair([&](size_t i, size_t j) {
    conflicts.neighbor[static_cast<size_t>(next[i]++)] = static_cast<int32_t>(j);
    conflicts.neighbor[static_cast<size_t>(next[j]++)] = static_cast<int32_t>(i);
  });
  return conflicts;
}

ListPlacer::ListPlacer(const Instance& instance, const Conflicts& conflicts)
    : instance_(instance), conflicts_(conflicts), scans_(!instance.has_gaps && instance.size() <= kMaxScanned) {}

namespace {

// Goes over the occupied ranges, lowest begin first, and keeps the place that the rule prefers.
class PlaceFinder {
 public:
  PlaceFinder(const Item& item, GapRule rule) : item_(item), rule_(rule) {}

  // Returns false when nothing further can change the result.
  bool Next(int64_t begin, int64_t end) {
    if (begin > floor_) {
      const int64_t offset = AlignUp(floor_, item_.alignment);
      if (offset + item_.size <= begin && (best_ < 0 || begin - floor_ < best_room_)) {
        best_ = offset;
        best_room_ = begin - floor_;
        if (rule_ == GapRule::kFirst) return false;
      }
    }
    floor_ = std::max(floor_, end);
    return true;
  }
  int64_t Offset() const { return best_ >= 0 ? best_ : AlignUp(floor_, item_.alignment); }

 private:
  const Item& item_;
  const GapRule rule_;
  int64_t floor_ = 0, best_ = -1, best_room_ = 0;
};

}  // namespace

int64_t ListPlacer::OffsetFor(int32_t index, GapRule rule) {
  const Item& item = instance_.items[static_cast<size_t>(index)];
  PlaceFinder finder(item, rule);
  const auto degree = static_cast<size_t>(conflicts_.Last(index) - conflicts_.First(index));
  // Looking at all that is placed, in order, costs less than sorting the neighbours, unless these are few.
  if (scans_ && placed_.size() < kScanFactor * degree) {
    size_t looks = 0;
    for (const Placed& other : placed_) {
      ++looks;
      if (other.first > item.last || other.last < item.first) continue;
      if (!finder.Next(other.begin, other.end)) break;
    }
    work_ += static_cast<int64_t>(looks / kScanFactor) + 1;
    return finder.Offset();
  }
  // A branch on whether a neighbour is placed could not be predicted, so its range is always written, and the end only
  // moves if it is placed.
  if (taken_.size() < degree) taken_.resize(degree);
  auto taken_end = taken_.begin();
  for (const int32_t* at = conflicts_.First(index); at != conflicts_.Last(index); ++at) {
    const auto j = static_cast<size_t>(*at);
    *taken_end = {offsets_[j], ends_[j]};
    taken_end += offsets_[j] >= 0;
  }
  work_ += static_cast<int64_t>(degree) + 1;
  std::sort(taken_.begin(), taken_end, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto at = taken_.begin(); at != taken_end && finder.Next(at->first, at->second);) ++at;
  return finder.Offset();
}

void ListPlacer::Put(int32_t index, int64_t offset) {
  const Item& item = instance_.items[static_cast<size_t>(index)];
  offsets_[static_cast<size_t>(index)] = offset;
  ends_[static_cast<size_t>(index)] = offset + item.size;
  total_ = std::max(total_, offset + item.size - item.padding);
  if (!scans_) return;
  const Placed placed{item.first, item.last, offset, offset + item.size};
  placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), placed,
                                  [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                 placed);
}

int64_t ListPlacer::Place(const std::vector<int32_t>& sequence, GapRule rule, int64_t give_up) {
  offsets_.assign(instance_.size(), -1);
  ends_.resize(instance_.size());
  placed_.clear();
  total_ = 0;
  if (instance_.has_fixed) {
    for (size_t i = 0; i < instance_.size(); ++i) {
      if (instance_.items[i].fixed_offset >= 0) Put(static_cast<int32_t>(i), instance_.items[i].fixed_offset);
    }
  }
  for (const int32_t i : sequence) {
    if (total_ >= give_up) break;
    if (offsets_[static_cast<size_t>(i)] < 0) Put(i, OffsetFor(i, rule));
  }
  return total_;
}

}  // namespace snug::core::memory
