// Whether an instance fits into a given capacity: depth-first search with inference.
//
// It looks for a plan in which every item rests on the ground or on another one; if there is a plan at all, there is
// one like that. Items are placed from the bottom up. Where the floor (search_state.h) has a valley, sections of one
// level that is higher on both sides, what lies directly on it lives within it; so a section of a valley is covered by
// one of a few items or, if there is room to spare, by nothing. The search branches on the section that leaves the
// fewest choices, which is often one or none; solves apart what comes apart; and remembers which states failed.
// Canonical plans and sections are MiniMalloc's (Moffitt, ASPLOS 2023).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "memory/place/instance.h"
#include "memory/place/list_placer.h"
#include "memory/place/search_state.h"

namespace snug::memory {

// Which item is tried first on a section.
enum class Preference : uint8_t { kLongest, kLargest, kArea, kLoad };
constexpr int kPreferences = 4;

// How to search. Each way is lucky with other instances: many short attempts find more than a long one.
struct SearchStyle {
  Preference preference = Preference::kLongest;
  bool learn = false;  // sections in which attempts ended count for more
  double noise = 0;    // what the preference is multiplied with at random: 1 - noise to 1 + noise
  uint64_t seed = 0;
};

enum class Verdict : uint8_t {
  kFits,
  kDoesNotFit,
  kUndecided,  // the work was spent
};

// Thread-compatible: one for each thread, and for each run.
class Search {
 public:
  // Both outlive the search.
  Search(const Instance& instance, const Conflicts& conflicts) : state_(instance, conflicts) {}

  // `work` counts items and sections looked at; `stop` is asked now and then.
  Verdict Run(int64_t capacity, const SearchStyle& style, int64_t work, const std::function<bool()>& stop);

  // After kFits: one for each item, base not added.
  const std::vector<int64_t>& offsets() const { return state_.offsets(); }
  int64_t work() const { return state_.work(); }

 private:
  // A part of the instance: sections, and the items that are left in them, as a range of items_.
  struct Part {
    int32_t first, last;
    size_t begin, end;
  };
  struct Choice {
    int32_t section = -1;
    int32_t count = 0;  // of items that can cover it, and one for leaving it open
  };

  Verdict Solve(const Part& part);
  Verdict SolveParts(const Part& whole);
  void FindValleys(const Part& part);
  bool CanLieOnFloor(int32_t item) const;
  std::vector<int32_t> Candidates(const Part& part);
  Choice FewestChoices(const Part& part) const;
  bool OutOfWork();
  void SetPreferences(const SearchStyle& style);
  uint64_t KeyOf(const Part& part) const;

  SearchState state_;
  std::vector<double> preference_;  // of each item; higher first
  std::vector<double> weight_;      // of each section
  bool learn_ = false;
  int64_t work_end_ = 0, next_look_ = 0;
  const std::function<bool()>* stop_ = nullptr;
  size_t opened_ = 0;           // sections left open on the way here
  std::vector<int32_t> items_;  // of the parts under way
  // Of the part in hand, by section: the first section of the valley that it belongs to, or -1; how many sections
  // before it have a floor that can bear items; how many more items can cover it than the one before; and, at the
  // first section of a valley, the smallest step by which its floor can rise.
  std::vector<int32_t> valley_, supports_, cover_;
  std::vector<int64_t> step_;
  std::vector<uint64_t> item_key_;
  std::vector<uint64_t> failed_;  // states, by the low bits of their keys; the later one stays
};

}  // namespace snug::memory
