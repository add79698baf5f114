// An instance that is partly placed, from the bottom up, and what follows from that: the inference of the search.
//
// Nothing that is still to be placed begins below the `floor` of a section. `least` of an item is the lowest offset
// that it can still get. Floors and leasts push each other up, and an attempt ends when the items of some section no
// longer fit under the capacity.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"

namespace snug::core::memory {

class SearchState {
 public:
  struct Mark {
    size_t trail, put;
  };

  // Both arguments must outlive the state.
  SearchState(const Instance& instance, const Conflicts& conflicts);

  // Starts with nothing placed. Returns false when `capacity` is clearly too small.
  bool Begin(int64_t capacity);

  // Puts the item at `offset`, on what is there already. Returns false when the rest then does not fit.
  bool Put(int32_t item, int64_t offset);
  // Leaves the section's floor uncovered: what is live in it lies higher, on something that is still to come. Returns
  // false when the rest then does not fit.
  bool LeaveOpen(int32_t section);
  Mark mark() const { return {trail_.size(), put_.size()}; }
  void Undo(Mark mark);

  const Instance& instance() const { return instance_; }
  bool placed(int32_t item) const { return placed_[static_cast<size_t>(item)] != 0; }
  int64_t least(int32_t item) const { return least_[static_cast<size_t>(item)]; }
  const std::vector<int64_t>& offsets() const { return offset_; }

  int64_t floor(int32_t section) const { return floor_[static_cast<size_t>(section)]; }
  // Tells whether the floor is the top of a placed item, or the ground.
  bool supported(int32_t section) const { return top_[static_cast<size_t>(section)] == floor(section); }
  // Returns the item placed last in the section, or -1.
  int32_t under(int32_t section) const { return static_cast<int32_t>(under_[static_cast<size_t>(section)]); }
  int32_t unplaced(int32_t section) const { return count_[static_cast<size_t>(section)]; }
  // Returns how many bytes between floor and capacity may stay unused.
  int64_t slack(int32_t section) const {
    const auto s = static_cast<size_t>(section);
    return capacity_ + padding_[s] - floor_[s] - rest_[s];
  }
  // Tells whether there are unplaced items on both sides of the end of the section.
  bool crossed(int32_t section) const { return crossing_[static_cast<size_t>(section)] > 0; }
  // Items with the same spans and alignment have the same shape.
  int32_t shape(int32_t item) const { return shape_[static_cast<size_t>(item)]; }
  bool shape_left(int32_t item) const { return shapes_left_[static_cast<size_t>(shape(item))] > 0; }
  // Returns the item before this one that is equal to it in all respects, or -1.
  int32_t twin(int32_t item) const { return twin_[static_cast<size_t>(item)]; }

  int64_t work() const { return work_; }
  void AddWork(size_t work) { work_ += static_cast<int64_t>(work); }
  // Returns the section in which the last contradiction was found.
  int32_t culprit() const { return culprit_; }

 private:
  struct Change {
    int64_t* where;
    int64_t before;
  };

  // Says what must be checked again after a change in a section.
  enum Check : uint8_t { kNothing, kFloor, kReleases };

  bool LiftItem(int32_t item, int64_t offset);
  bool Settle();
  bool SettleSection(size_t section);
  bool ReleasesFit(size_t section);
  void ForgetDirty();
  void TakeBack(int32_t item);
  void MarkDirty(size_t section, Check check);
  void Set(int64_t* where, int64_t value);

  const Instance& instance_;
  const Conflicts& conflicts_;
  std::vector<std::vector<int32_t>> items_in_;  // the items of each section
  std::vector<int64_t> padding_;                // by section: the most padding of any item in it
  std::vector<int32_t> twin_, shape_;

  int64_t capacity_ = 0;
  std::vector<int64_t> floor_, top_, under_;
  std::vector<int64_t> rest_;  // by section: the sizes of its unplaced items
  std::vector<int32_t> count_, crossing_, shapes_left_;
  std::vector<int64_t> least_, offset_;
  std::vector<char> placed_;
  std::vector<Change> trail_;
  std::vector<int32_t> put_;  // items in the sequence in which they were placed
  std::vector<int32_t> dirty_;
  std::vector<Check> dirty_check_;                    // indexed by section
  std::vector<std::pair<int64_t, int64_t>> waiting_;  // scratch: least and size of a section's items
  int32_t culprit_ = 0;
  int64_t work_ = 0;
};

}  // namespace snug::core::memory
