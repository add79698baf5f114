#include "memory/place/list_placer.h"

#include <algorithm>

namespace snug::memory {
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
  std::vector<int64_t> ended(static_cast<size_t>(instance.sections) + 1, 0);  // before section s
  for (const Item& item : instance.items) ++ended[static_cast<size_t>(item.last) + 1];
  for (size_t s = 1; s < ended.size(); ++s) ended[s] += ended[s - 1];
  int64_t pairs = 0;
  for (size_t j = 0; j < instance.size(); ++j) {
    pairs += static_cast<int64_t>(j) - ended[static_cast<size_t>(instance.items[j].first)];
  }
  return pairs;
}

Conflicts ConflictsOf(const Instance& instance) {
  const size_t n = instance.size();
  Conflicts conflicts;
  conflicts.begin.assign(n + 1, 0);
  const auto for_each_pair = [&](auto&& visit) {
    std::vector<int32_t> live;
    for (size_t j = 0; j < n; ++j) {
      const Item& b = instance.items[j];
      size_t kept = 0;
      for (const int32_t i : live) {
        const Item& a = instance.items[static_cast<size_t>(i)];
        if (a.last < b.first) continue;
        live[kept++] = i;
        if (LiveTogether(a, b)) visit(static_cast<size_t>(i), j);
      }
      live.resize(kept);
      live.push_back(static_cast<int32_t>(j));
    }
  };
  for_each_pair([&](size_t i, size_t j) {
    ++conflicts.begin[i + 1];
    ++conflicts.begin[j + 1];
  });
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
    : instance_(instance), conflicts_(conflicts) {}

int64_t ListPlacer::OffsetFor(const Item& item, GapRule rule) {
  std::sort(taken_.begin(), taken_.end());
  int64_t floor = 0, best = -1, best_room = 0;
  for (const auto& [begin, end] : taken_) {
    const int64_t offset = AlignUp(floor, item.alignment);
    if (offset + item.size <= begin) {
      if (rule == GapRule::kFirst) return offset;
      if (best < 0 || begin - floor < best_room) {
        best = offset;
        best_room = begin - floor;
      }
    }
    floor = std::max(floor, end);
  }
  return best >= 0 ? best : AlignUp(floor, item.alignment);
}

int64_t ListPlacer::Place(const std::vector<int32_t>& sequence, GapRule rule, int64_t give_up,
                          std::vector<int64_t>* offsets) {
  placed_.assign(instance_.size(), 0);
  offsets->resize(instance_.size());
  int64_t total = 0;
  const auto put = [&](int32_t i, int64_t offset) {
    const Item& item = instance_.items[static_cast<size_t>(i)];
    (*offsets)[static_cast<size_t>(i)] = offset;
    placed_[static_cast<size_t>(i)] = 1;
    total = std::max(total, offset + item.size - item.padding);
  };
  if (instance_.has_fixed) {
    for (size_t i = 0; i < instance_.size(); ++i) {
      if (instance_.items[i].fixed_offset >= 0) put(static_cast<int32_t>(i), instance_.items[i].fixed_offset);
    }
  }
  for (const int32_t i : sequence) {
    if (placed_[static_cast<size_t>(i)] != 0) continue;
    taken_.clear();
    for (const int32_t* at = conflicts_.First(i); at != conflicts_.Last(i); ++at) {
      const auto j = static_cast<size_t>(*at);
      if (placed_[j] != 0) taken_.emplace_back((*offsets)[j], (*offsets)[j] + instance_.items[j].size);
    }
    work_ += static_cast<int64_t>(taken_.size()) + 1;
    put(i, OffsetFor(instance_.items[static_cast<size_t>(i)], rule));
    if (total >= give_up) break;
  }
  return total;
}

}  // namespace snug::memory
