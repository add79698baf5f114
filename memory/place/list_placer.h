// Greedy placement: one buffer after the other, in a given sequence, goes where it fits among those that are there
// already. The sequences, and a way without one.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "memory/place/instance.h"

namespace snug::core::memory {

// Lists which items are ever live together, the neighbours of all items in one array.
struct Conflicts {
  std::vector<int64_t> begin;  // has items + 1 entries
  std::vector<int32_t> neighbor;

  const int32_t* First(int32_t item) const { return neighbor.data() + begin[static_cast<size_t>(item)]; }
  const int32_t* Last(int32_t item) const { return neighbor.data() + begin[static_cast<size_t>(item) + 1]; }
};

// Counts the pairs of items that are live together, ignoring gaps. O(n log n).
int64_t CountConflicts(const Instance& instance);
// Takes O(n log n + pairs).
Conflicts ConflictsOf(const Instance& instance);

enum class GapRule : uint8_t {
  kFirst,  // takes the lowest place in which it fits
  kBest,   // takes the place that it fills best; on top of all where there is none
};

// Thread-compatible: each thread needs its own.
class ListPlacer {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // Both arguments must outlive the placer.
  ListPlacer(const Instance& instance, const Conflicts& conflicts);

  // Returns the highest end; stops early, with what it has reached by then, when that is >= `give_up`.
  int64_t Place(const std::vector<int32_t>& sequence, GapRule rule, int64_t give_up);

  // Offsets of the items, without base; -1 for those that `Place` did not reach.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t work() const { return work_; }  // counts neighbours looked at

 private:
  static constexpr size_t kScanFactor = 8;  // so many items are passed over in the time that sorting one neighbour
                                            // takes

  static constexpr size_t kMaxScanned = 30'000;  // with more items it costs too much to keep them in order

  struct Placed {
    int32_t first, last;
    int64_t begin, end;
  };

  int64_t OffsetFor(int32_t item, GapRule rule);
  void Put(int32_t item, int64_t offset);

  const Instance& instance_;
  const Conflicts& conflicts_;
  const bool scans_;                                // whether placed_ is kept
  std::vector<Placed> placed_;                      // sorted by begin
  std::vector<std::pair<int64_t, int64_t>> taken_;  // scratch: begin and end of placed neighbours
  std::vector<int64_t> offsets_, ends_;             // ends_ is only valid for items that are placed
  int64_t total_ = 0;
  int64_t work_ = 0;
};

// The sequences in which list placers try the items of an instance. Each sequence follows a common rule (largest first,
// longest first, ...) or a mix of them. Items that a rule finds equal keep the order of the instance.
int SequenceCount();
std::vector<int32_t> SequenceOf(const Instance& instance, int index);

// PlaceOnSkyline has these rules of which of the first few buffers that fit, from the left, is taken.
constexpr int kSkylineRules = 3;  // 0: the first, 1: the longest-lived, 2: the largest

// Fills from the bottom up: the lowest stretch of the skyline gets a buffer that lives within it or, if there is none,
// is filled to the level of its lower neighbour. It needs no pairs, so it is used where there are too many of them.
// Fills `offsets` (one for each item, without base) and returns the highest end. It does not use gaps. O(n log n).
int64_t PlaceOnSkyline(const Instance& instance, int rule, std::vector<int64_t>* offsets);

}  // namespace snug::core::memory
