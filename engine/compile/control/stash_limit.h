// Chooses which loops compute rounds anew, and how many at a time, so that what is kept for gradients fits a limit.
//
// Whatever the chunk, a loop that computes its rounds anew computes all of them once more. So the least recomputation
// is that of the cheapest loops whose stash has to go, and of the chunks that fit the longest are best: their gradients
// are added up least often. With chunks of k of T rounds, T / k times the carries are kept until the gradient, and the
// stash of k rounds while it is computed, which is there for one loop at a time. Chunks need not divide the rounds: the
// last one is shorter then, and a loop by itself. Where chunks a little shorter divide them and fit, these are taken.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/compile/control/stash.h"

namespace snug::core {

// The chunks, by the loops' names.
using Chunks = std::map<std::string, int64_t>;

// `kept` are the loops without chunks, `anew` the same with chunks of any length, where they can have any. Returns the
// chunks of the loops that are to have some. ResourceExhausted if nothing fits: the error says what would, and which
// loop takes most of it. Up to twelve loops that can have chunks are tried in all combinations; of more, those with
// most bytes for their operations get them. `remark` ends the error, if there is one.
absl::StatusOr<Chunks> ChunksWithin(int64_t limit, const std::vector<LoopStash>& kept,
                                    const std::vector<LoopStash>& anew, absl::string_view remark = "");

// Whether it is that limit that an error is about, and not one of other memory.
bool IsAboutStashLimit(const absl::Status& status);

// What they take if as much is computed anew as there are chunks for: the least limit that ChunksWithin can keep.
int64_t LeastStashBytes(const std::vector<LoopStash>& kept, const std::vector<LoopStash>& anew);

}  // namespace snug::core
