#include "memory/place/instance.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace snug::core::memory {
namespace {

// Each cut that takes whole-length buffers out sorts the rest again. Beyond so many nested cuts the gain is not worth
// it.
constexpr int kMaxTightenings = 48;

bool Before(const Item& a, const Item& b) {
  const auto key = [](const Item& i) {
    return std::make_tuple(i.first, -i.last, -i.size, -i.alignment, i.fixed_offset, i.padding, i.spans.size());
  };
  const auto ka = key(a), kb = key(b);
  if (ka != kb) return ka < kb;
  for (size_t s = 0; s < a.spans.size(); ++s) {
    const auto sa = std::make_pair(a.spans[s].first, a.spans[s].last);
    const auto sb = std::make_pair(b.spans[s].first, b.spans[s].last);
    if (sa != sb) return sa < sb;
  }
  return a.buffer < b.buffer;
}

// Renames the times of all spans to sections.
void ToSections(std::vector<Item>* items) {
  struct Event {
    int64_t time;  // 2 t: begins at t; 2 t + 1: ends after t
    int32_t* where;
  };
  std::vector<Event> events;
  for (Item& item : *items) {
    for (Span& span : item.spans) {
      events.push_back({2 * int64_t{span.first}, &span.first});
      events.push_back({2 * int64_t{span.last} + 1, &span.last});
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  int32_t section = 0;
  bool ended = false;
  for (const Event& event : events) {
    const bool ends = event.time % 2 != 0;
    if (!ends && ended) ++section;
    ended = ends;
    *event.where = section;
  }
  for (Item& item : *items) {
    item.first = item.spans.front().first;
    item.last = item.spans.back().last;
  }
}

int64_t BoundOf(const Instance& instance) {
  std::vector<int64_t> padding(static_cast<size_t>(instance.sections), 0);  // the most that an item in the section has
  int64_t bound = 0;
  for (const Item& item : instance.items) {
    bound = std::max(bound, std::max<int64_t>(item.fixed_offset, 0) + item.size - item.padding);
    if (item.padding == 0) continue;
    for (const Span& span : item.spans) {
      for (int32_t s = span.first; s <= span.last; ++s) {
        padding[static_cast<size_t>(s)] = std::max(padding[static_cast<size_t>(s)], item.padding);
      }
    }
  }
  const std::vector<int64_t> load = LoadOf(instance);
  for (size_t s = 0; s < load.size(); ++s) bound = std::max(bound, load[s] - padding[s]);
  return bound;
}

class Decomposer {
 public:
  explicit Decomposer(std::vector<int64_t>* offsets) : offsets_(offsets) {}

  void Split(std::vector<Item> items, int64_t base, int depth) {
    ToSections(&items);
    std::sort(items.begin(), items.end(), Before);
    size_t begin = 0;
    for (int32_t reach = -1; begin < items.size(); reach = -1) {
      size_t end = begin;
      while (end < items.size() && (end == begin || items[end].first <= reach))
        reach = std::max(reach, items[end++].last);
      if (begin == 0 && end == items.size()) return Settle(std::move(items), base, depth);
      Settle({std::make_move_iterator(items.begin() + static_cast<long>(begin)),
              std::make_move_iterator(items.begin() + static_cast<long>(end))},
             base, depth);
      begin = end;
    }
  }

  std::vector<Instance>& parts() { return parts_; }

 private:
  // Cuts `part`, which must be connected, further or adds it to the parts.
  void Settle(std::vector<Item> part, int64_t base, int depth) {
    int32_t first = part[0].first, last = part[0].last;
    bool fixed = false;
    int64_t alignment = 1, unit = 0;
    for (const Item& item : part) unit = std::gcd(unit, item.alignment);
    for (Item& item : part) {
      const int64_t bytes = item.size - item.padding;
      item.size = AlignUp(bytes, unit);
      item.padding = item.size - bytes;
      last = std::max(last, item.last);
      fixed = fixed || item.fixed_offset >= 0;
      alignment = std::lcm(alignment, item.alignment);
      if (alignment > (int64_t{1} << 40))
        alignment = 1 << 20;  // next to nothing is a multiple of such an alignment
                              // anyway
    }
    std::vector<Item> rest;
    if (!fixed && depth < kMaxTightenings) {
      for (Item& item : part) {
        const bool through = item.first == first && item.last == last && item.spans.size() == 1;
        // The last item taken out may lie on top of all, where its padding must not count. So an item with padding
        // stays, unless it is alone.
        if (through && item.size % alignment == 0 && (item.padding == 0 || part.size() == 1)) {
          (*offsets_)[static_cast<size_t>(item.buffer)] = base;
          base += item.size;
        } else {
          rest.push_back(std::move(item));
        }
      }
      if (rest.empty()) return;
      if (rest.size() < part.size()) return Split(std::move(rest), base, depth + 1);
      part = std::move(rest);
    }
    Instance instance;
    instance.base = base;
    instance.sections = last - first + 1;
    for (Item& item : part) {
      item.first -= first;
      item.last -= first;
      for (Span& span : item.spans) {
        span.first -= first;
        span.last -= first;
      }
      instance.has_gaps = instance.has_gaps || item.spans.size() > 1;
      instance.has_fixed = instance.has_fixed || item.fixed_offset >= 0;
      instance.same_alignment = instance.same_alignment && item.alignment == part[0].alignment;
    }
    instance.items = std::move(part);
    instance.bound = BoundOf(instance);
    parts_.push_back(std::move(instance));
  }

  std::vector<int64_t>* offsets_;
  std::vector<Instance> parts_;
};

}  // namespace

std::vector<int64_t> LoadOf(const Instance& instance) {
  std::vector<int64_t> load(static_cast<size_t>(instance.sections) + 1, 0);
  for (const Item& item : instance.items) {
    for (const Span& span : item.spans) {
      load[static_cast<size_t>(span.first)] += item.size;
      load[static_cast<size_t>(span.last) + 1] -= item.size;
    }
  }
  load.pop_back();
  std::partial_sum(load.begin(), load.end(), load.begin());
  return load;
}

std::vector<Instance> Decompose(const Problem& problem, std::vector<int64_t>* offsets) {
  offsets->assign(problem.buffers.size(), 0);
  std::vector<Item> items;
  items.reserve(problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.size_bytes == 0) {
      (*offsets)[i] = std::max<int64_t>(b.fixed_offset, 0);
      continue;
    }
    Item item{.buffer = static_cast<int32_t>(i),
              .size = b.size_bytes,
              .alignment = b.alignment,
              .fixed_offset = b.fixed_offset};
    int32_t live_from = b.first;
    for (const Span& gap : b.gaps) {
      item.spans.push_back({live_from, gap.first - 1});
      live_from = gap.last + 1;
    }
    item.spans.push_back({live_from, b.last});
    items.push_back(std::move(item));
  }
  Decomposer decomposer(offsets);
  decomposer.Split(std::move(items), 0, 0);
  return std::move(decomposer.parts());
}

}  // namespace snug::core::memory
