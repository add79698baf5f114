// Decides whether an instance fits into a given capacity, by depth-first search with inference.
//
// It looks for a plan in which every item rests on the ground or on another item; if there is any plan, there is one
// like that. Items are placed from the bottom up. A valley is a run of sections whose floor (search_state.h) has one
// level and is higher on both sides. What lies directly on a valley's floor lives within it, so each of its sections is
// covered by one of a few items or, if there is room to spare, by nothing. The search branches on the section that
// leaves the fewest choices, which is often one or none. It solves apart what comes apart, and remembers which states
// failed. Canonical plans and sections are MiniMalloc's (Moffitt, ASPLOS 2023).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"
#include "memory/place/search_state.h"

namespace snug::core::memory {

// Says which item is tried first on a section.
enum class ItemPreference : uint8_t { kLongest, kLargest, kArea, kLoad };
constexpr int kPreferences = 4;

// Says how to search. Each style is lucky with other instances: many short attempts find more than a long one.
struct SearchStyle {
  ItemPreference preference = ItemPreference::kLongest;
  bool learn = false;  // gives sections in which attempts ended more weight
  double noise = 0;    // the preference is multiplied by a random factor from 1 - noise to 1 + noise
  uint64_t seed = 0;
};

enum class Verdict : uint8_t {
  kFits,
  kDoesNotFit,
  kUndecided,  // the work was spent before an answer
};

// Thread-compatible: each thread needs its own, and so does each run.
class PlacementSearch {
 public:
  // Both arguments must outlive the search.
  PlacementSearch(const Instance& instance, const Conflicts& conflicts) : state_(instance, conflicts) {}

  // `work` counts items and sections looked at; `stop` is asked from time to time.
  Verdict Run(int64_t capacity, const SearchStyle& style, int64_t work, const std::function<bool()>& stop);

  // Offsets of the items, without base; valid after kFits.
  const std::vector<int64_t>& offsets() const { return state_.offsets(); }
  int64_t work() const { return state_.work(); }

 private:
  // A part of the instance: some sections, and the items left in them as a range of items_.
  struct Part {
    int32_t first, last;
    size_t begin, end;
  };
  struct Choice {
    int32_t section = -1;
    int32_t count = 0;  // counts the items that can cover it, and one more for leaving it open
  };

  // A choice on the way down: a part, what may be done with one of its sections, and what the choice of now leaves. The
  // root has no section: it only holds the parts that the whole instance falls into.
  struct Node {
    Part part{};
    int32_t section = -1;
    int64_t height = 0;               // of that section's floor
    std::vector<int32_t> candidates;  // what may lie there, in the order in which they are tried
    size_t tried = 0;                 // how many of these, and after them leaving the section open
    SearchState::Mark mark{};         // the state before any was tried
    uint64_t key = 0;
    std::vector<Part> left;  // what is left of the part, cut where no item is on both sides
    size_t solved = 0;       // how many of these fit, or are being solved
    size_t items_mark = 0;   // how many items_ there were before the cut
  };

  Verdict Search();
  Node& Push();
  Verdict Enter(const Part& part);
  bool TryNext(Node& node);
  void Cut(const Part& whole, Node& node);
  void FindValleys(const Part& part);
  bool CanLieOnFloor(int32_t item) const;
  std::vector<int32_t> Candidates(const Part& part);
  Choice FewestChoices(const Part& part) const;
  bool OutOfWork();
  void SetPreferences(const SearchStyle& style);
  uint64_t KeyOf(const Part& part) const;

  SearchState state_;
  std::vector<double> preference_;  // by item; higher first
  std::vector<double> weight_;      // by section
  bool learn_ = false;
  int64_t work_end_ = 0, next_look_ = 0;
  const std::function<bool()>* stop_ = nullptr;
  std::vector<Node> path_;  // the choices on the way here; those beyond depth_ wait to be used again
  size_t depth_ = 0;
  std::vector<int32_t> items_;  // the items of all parts that are being solved
  // These describe the part being solved, by section. valley_ has the first section of its valley, or -1. supports_
  // counts the sections before it whose floor can bear items. cover_ says how many more items can cover it than the
  // section before. step_, at the first section of a valley, is the smallest step by which its floor can rise.
  std::vector<int32_t> valley_, supports_, cover_;
  std::vector<int64_t> step_;
  std::vector<uint64_t> item_key_;
  std::vector<uint64_t> failed_;  // failed states, found by the low bits of their keys; a later one replaces an earlier
                                  // one
};

}  // namespace snug::core::memory
