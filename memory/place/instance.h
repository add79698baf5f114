// The form in which placers work on a Problem: buffers that take no room are gone, time is cut down to its sections,
// and what does not depend on each other is apart.
//
// A section is a moment at which the set of live buffers is not contained in that of a moment beside it: two buffers
// are live at once if and only if they share a section. Ties between buffers end by their times and sizes before their
// index, so the sequence in which a Problem lists its buffers does not change what a placer does.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::memory {

struct Item {
  int32_t buffer = 0;   // in the Problem
  int64_t size = 0;     // rounded up to what all alignments have in common: nobody can use the rest
  int64_t padding = 0;  // what that added
  int64_t alignment = 1;
  int64_t fixed_offset = -1;
  int32_t first = 0, last = 0;  // sections; what lies between spans[0].first and the last span's last
  std::vector<Span> spans;      // the sections it is live in, as ranges apart; one where there are no gaps
};

// Buffers that have nothing to do with those of other instances. They lie in [base, ...).
struct Instance {
  int64_t base = 0;
  int32_t sections = 0;
  std::vector<Item> items;
  int64_t bound = 0;  // max load, without base: none lies lower
  bool has_gaps = false;
  bool has_fixed = false;
  bool same_alignment = true;

  size_t size() const { return items.size(); }
};

// Cuts `problem` apart where no buffer is live on both sides; and takes out those that are live through all of a part
// (they lie beneath it, which costs nothing) and cuts again. `offsets` (one for each buffer) gets what is settled by
// that; buffers of size 0 lie at 0 or where they are fixed.
std::vector<Instance> Decompose(const Problem& problem, std::vector<int64_t>* offsets);

// Sizes of what is live in each section, sums.
std::vector<int64_t> LoadOf(const Instance& instance);

}  // namespace snug::memory
