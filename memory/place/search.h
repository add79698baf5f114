// Whether an instance fits into a given capacity: depth-first search with inference.
//
// It looks for a plan in which every item rests on the ground or on another one; if there is a plan at all, there is
// one like that. Items are placed from the bottom up. In each section, `floor` is what is settled: nothing that is
// still to be placed begins below it. Where the floor has a valley (sections of one level, higher on both sides), what
// lies directly on it lives within it; so a section of a valley is covered by one of a few items, or, if there is room
// to spare, by nothing. The search branches on the section that leaves the fewest choices, which is often one or none.
// The framework (canonical plans, sections, floors) follows MiniMalloc: Moffitt, ASPLOS 2023.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"

namespace snug::memory {

// Which item is tried first on a section.
enum class Preference : uint8_t { kLongest, kLargest, kArea, kLoad };
constexpr int kPreferences = 4;

enum class Verdict : uint8_t {
  kFits,
  kDoesNotFit,
  kUndecided,  // work or time was spent
};

// Thread-compatible: one for each thread.
class Search {
 public:
  // Both outlive the search.
  Search(const Instance& instance, const Conflicts& conflicts);

  // `work` counts items and sections looked at; `stop` is asked now and then.
  Verdict Run(int64_t capacity, Preference preference, int64_t work, const std::function<bool()>& stop);

  // After kFits: one for each item, base not added.
  const std::vector<int64_t>& offsets() const { return offset_; }
  int64_t work() const { return work_; }
  int64_t nodes() const { return nodes_; }

 private:
  struct Change {
    int64_t* where;
    int64_t before;
  };

  struct Mark {
    size_t trail, put;
  };

  void Reset();
  Verdict Solve(int32_t first, int32_t last, size_t items_begin, size_t items_end);
  Verdict SolveParts(int32_t first, int32_t last, size_t items_begin, size_t items_end);
  bool Put(int32_t item, int64_t offset);
  void TakeBack(int32_t item);
  bool LeaveOpen(int32_t section, const std::vector<int32_t>& items);
  bool Settle();
  bool GoesUnder(size_t a, size_t b) const;
  bool LiftItem(int32_t item, int64_t offset);
  void MarkDirty(int32_t section) {
    if (is_dirty_[static_cast<size_t>(section)] != 0) return;
    is_dirty_[static_cast<size_t>(section)] = 1;
    dirty_.push_back(section);
  }
  void Set(int64_t* where, int64_t value) {
    trail_.push_back({where, *where});
    *where = value;
  }
  void Undo(Mark mark) {
    for (; trail_.size() > mark.trail; trail_.pop_back()) *trail_.back().where = trail_.back().before;
    for (; put_.size() > mark.put; put_.pop_back()) TakeBack(put_.back());
  }
  uint64_t KeyOf(int32_t first, int32_t last, size_t items_begin, size_t items_end) const;

  const Instance& instance_;
  const Conflicts& conflicts_;
  std::vector<std::vector<int32_t>> items_in_;  // each section
  std::vector<int64_t> padding_;                // the most of any item in the section
  std::vector<int32_t> twin_;                   // the item before it that is like it in all, or -1
  std::vector<int32_t> shape_;                  // items of the same spans and alignment have the same
  std::vector<double> key_;                     // preference; higher first

  int64_t capacity_ = 0;
  std::vector<int64_t> floor_, top_, rest_, count_, crossing_, under_;
  std::vector<int64_t> shapes_left_;
  std::vector<int64_t> least_;  // lowest possible offset of an unplaced item
  std::vector<int64_t> offset_;
  std::vector<char> placed_;
  std::vector<Change> trail_;
  std::vector<int32_t> put_;    // items, in the sequence in which they were placed
  size_t opened_ = 0;           // sections left open on the way here
  std::vector<int32_t> stack_;  // items of the parts under way
  std::vector<int32_t> dirty_;
  std::vector<char> is_dirty_;
  std::vector<int32_t> valley_, supported_, cover_;
  std::vector<int64_t> valley_step_;
  std::vector<uint64_t> item_key_, failed_;
  int64_t work_ = 0, work_end_ = 0, nodes_ = 0, next_look_ = 0;
  const std::function<bool()>* stop_ = nullptr;
};

}  // namespace snug::memory
