// The form in which placers work on a Problem: without buffers that take no room, with time cut down to its sections,
// and with independent parts taken apart.
//
// A section is a moment whose set of live buffers is not contained in that of a neighbouring moment: two buffers are
// live at once if and only if they share a section. Ties between buffers are broken by their times and sizes before
// their index, so the sequence in which a Problem lists its buffers does not change what a placer does.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::core::memory {

struct Item {
  int32_t buffer = 0;   // its number in the Problem
  int64_t size = 0;     // rounded up to the common divisor of all alignments, because nobody could use the rest
  int64_t padding = 0;  // what rounding added
  int64_t alignment = 1;
  int64_t fixed_offset = -1;
  int32_t first = 0, last = 0;  // the first and last section; spans lie between them
  std::vector<Span> spans;      // the sections it is live in, as separate ranges; one range where there are no gaps
};

// Buffers that depend on none in other instances. They lie in [base, ...).
struct Instance {
  int64_t base = 0;
  int32_t sections = 0;
  std::vector<Item> items;
  int64_t bound = 0;  // the max load, without base: no placement is lower
  bool has_gaps = false;
  bool has_fixed = false;
  bool same_alignment = true;

  size_t size() const { return items.size(); }
};

// Cuts `problem` apart where no buffer is live on both sides. It also takes out buffers that are live through all of a
// part (they lie beneath it, which costs nothing) and cuts again. `offsets` (one for each buffer) gets the offsets that
// this settles; buffers of size 0 lie at 0 or where they are fixed.
std::vector<Instance> Decompose(const Problem& problem, std::vector<int64_t>* offsets);

// Returns for each section the sum of the sizes that are live in it.
std::vector<int64_t> LoadOf(const Instance& instance);

}  // namespace snug::core::memory
