#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "memory/place/list_placer.h"

namespace snug::core::memory {
namespace {

constexpr int kCandidates = 16;
constexpr int32_t kPlaced = std::numeric_limits<int32_t>::max();

// Unplaced items by their place in the instance (which is sorted by first section), each with its last section.
class LastSections {
 public:
  explicit LastSections(const Instance& instance) {
    while (leaves_ < instance.size()) leaves_ *= 2;
    least_.assign(2 * leaves_, kPlaced);
    for (size_t i = 0; i < instance.size(); ++i) least_[leaves_ + i] = instance.items[i].last;
    for (size_t node = leaves_ - 1; node > 0; --node) Update(node);
  }

  void Remove(size_t item) {
    least_[leaves_ + item] = kPlaced;
    for (size_t node = (leaves_ + item) / 2; node > 0; node /= 2) Update(node);
  }

  // Returns the first item from `begin` on that ends by `last`, or the number of leaves if there is none.
  size_t Find(size_t begin, int32_t last) const {
    if (begin >= leaves_) return leaves_;
    size_t node = leaves_ + begin;
    while (least_[node] > last) {  // goes on to the next subtree on the right
      while (node % 2 == 1) node /= 2;
      if (node == 0) return leaves_;
      ++node;
    }
    while (node < leaves_) node = least_[2 * node] <= last ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

 private:
  void Update(size_t node) { least_[node] = std::min(least_[2 * node], least_[2 * node + 1]); }

  size_t leaves_ = 1;
  std::vector<int32_t> least_;
};

class Skyline {
 public:
  Skyline(const Instance& instance, int rule) : instance_(instance), rule_(rule), unplaced_(instance) {
    for (const Item& item : instance.items) ++begin_of_section_[item.first];
    size_t count = 0;
    for (auto& [section, items] : begin_of_section_) count += std::exchange(items, count);
  }

  int64_t Fill(std::vector<int64_t>* offsets) {
    offsets->assign(instance_.size(), 0);
    int64_t ground = 0;
    for (size_t i = 0; i < instance_.size(); ++i) {  // fixed items lie beneath all others
      const Item& item = instance_.items[i];
      if (item.fixed_offset < 0) continue;
      (*offsets)[i] = item.fixed_offset;
      ground = std::max(ground, item.fixed_offset + item.size);
      unplaced_.Remove(i);
    }
    int64_t total = ground;
    Add(0, {instance_.sections - 1, ground});
    while (!lowest_.empty()) {
      const auto [height, first, last] = lowest_.top();
      lowest_.pop();
      const auto at = stretches_.find(first);
      if (at == stretches_.end() || at->second.last != last || at->second.height != height) continue;
      const size_t i = Choose(first, last);
      if (i >= instance_.size()) {
        if (!Raise(at)) break;
        continue;
      }
      const Item& item = instance_.items[i];
      (*offsets)[i] = AlignUp(height, item.alignment);
      unplaced_.Remove(i);
      total = std::max(total, (*offsets)[i] + item.size - item.padding);
      stretches_.erase(at);
      if (first < item.first) Add(first, {item.first - 1, height});
      if (item.last < last) Add(item.last + 1, {last, height});
      Join(Add(item.first, {item.last, (*offsets)[i] + item.size}));
    }
    return total;
  }

 private:
  struct Stretch {
    int32_t last;
    int64_t height;
  };
  using Stretches = std::map<int32_t, Stretch>;  // keyed by first section; together they cover all sections

  Stretches::iterator Add(int32_t first, Stretch stretch) {
    lowest_.emplace(stretch.height, first, stretch.last);
    return stretches_.insert_or_assign(first, stretch).first;
  }

  size_t Choose(int32_t first, int32_t last) const {
    const auto begin = begin_of_section_.lower_bound(first);
    if (begin == begin_of_section_.end()) return instance_.size();
    size_t best = instance_.size();
    size_t i = begin->second;
    for (int k = 0; k < (rule_ == 0 ? 1 : kCandidates); ++k, ++i) {
      i = unplaced_.Find(i, last);
      if (i >= instance_.size()) break;
      if (best == instance_.size() || Better(instance_.items[i], instance_.items[best])) best = i;
    }
    return best;
  }

  bool Better(const Item& a, const Item& b) const {
    const int32_t length_a = a.last - a.first, length_b = b.last - b.first;
    if (rule_ == 1) return std::tie(length_a, a.size) > std::tie(length_b, b.size);
    return std::tie(a.size, length_a) > std::tie(b.size, length_b);
  }

  // Lifts a stretch to its lower neighbour. Returns false when it has none.
  bool Raise(Stretches::iterator at) {
    int64_t height = std::numeric_limits<int64_t>::max();
    if (at != stretches_.begin()) height = std::prev(at)->second.height;
    if (std::next(at) != stretches_.end()) height = std::min(height, std::next(at)->second.height);
    if (height == std::numeric_limits<int64_t>::max()) return false;
    at->second.height = height;
    Join(at);
    return true;
  }

  // Joins the stretch with neighbours of the same height.
  void Join(Stretches::iterator at) {
    if (at != stretches_.begin() && std::prev(at)->second.height == at->second.height) {
      const auto before = std::prev(at);
      before->second.last = at->second.last;
      stretches_.erase(at);
      at = before;
    }
    if (const auto next = std::next(at); next != stretches_.end() && next->second.height == at->second.height) {
      at->second.last = next->second.last;
      stretches_.erase(next);
    }
    lowest_.emplace(at->second.height, at->first, at->second.last);
  }

  using Entry = std::tuple<int64_t, int32_t, int32_t>;  // height, first, last; outdated when no stretch is like that
                                                        // any more

  const Instance& instance_;
  const int rule_;
  LastSections unplaced_;
  std::map<int32_t, size_t> begin_of_section_;  // the first item that begins in a section
  Stretches stretches_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lowest_;
};

}  // namespace

int64_t PlaceOnSkyline(const Instance& instance, int rule, std::vector<int64_t>* offsets) {
  return Skyline(instance, rule).Fill(offsets);
}

}  // namespace snug::core::memory
