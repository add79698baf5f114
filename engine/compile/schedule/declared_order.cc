#include "engine/compile/schedule/declared_order.h"

#include <algorithm>
#include <map>

#include "engine/base/interval_map.h"

namespace snug::core {
namespace {

struct Past {
  int32_t writer = -1;           // -1: nobody
  std::vector<int32_t> readers;  // since then
};

}  // namespace

DeclaredOrder::DeclaredOrder(const std::vector<Step>& steps) : behind_(steps.size()), seen_by_(steps.size(), 0) {
  std::map<int32_t, IntervalMap<Past>> arenas;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto step = static_cast<int32_t>(i);
    std::vector<int32_t>& behind = behind_[i];
    // Of several accesses of one Step none is earlier than another, so all are looked up before one is written down.
    for (const Access& access : steps[i].accesses) {
      if (access.region.begin >= access.region.end) continue;
      arenas[access.region.arena].ForEach(access.region.begin, access.region.end, [&](const Past& past) {
        if (past.writer >= 0) behind.push_back(past.writer);
        if (access.write) behind.insert(behind.end(), past.readers.begin(), past.readers.end());
      });
    }
    std::sort(behind.begin(), behind.end());
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
    for (const bool write : {false, true}) {  // what a Step both reads and writes is written
      for (const Access& access : steps[i].accesses) {
        if (access.write != write) continue;
        IntervalMap<Past>& arena = arenas[access.region.arena];
        if (write) {
          arena.Assign(access.region.begin, access.region.end, {.writer = step});
        } else {
          arena.UpdateEach(access.region.begin, access.region.end, [&](Past& past) {
            if (past.readers.empty() || past.readers.back() != step) past.readers.push_back(step);
          });
        }
      }
    }
  }
}

bool DeclaredOrder::Before(int32_t a, int32_t b) const {
  ++searches_;
  std::vector<int32_t> open = {b};
  while (!open.empty()) {
    const std::vector<int32_t>& behind = behind_[static_cast<size_t>(open.back())];
    open.pop_back();
    for (auto it = std::lower_bound(behind.begin(), behind.end(), a); it != behind.end(); ++it) {
      if (*it == a) return true;
      int32_t& seen_by = seen_by_[static_cast<size_t>(*it)];
      if (seen_by == searches_) continue;
      seen_by = searches_;
      open.push_back(*it);
    }
  }
  return false;
}

}  // namespace snug::core
