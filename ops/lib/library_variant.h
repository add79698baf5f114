// What a kernel of one of CUDA's libraries is called in dumps and tunings: by what it may do with its numbers, and by
// which algorithm it takes. Which of the library's or our own serves a node is decided when a network is compiled, by
// types and options alone and for every machine: workspace and layouts are those of a plan that is the same with a GPU
// and without. Where the library is not there, or has no such kernel, our own row serves within that plan.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "ops/prepare_context.h"

namespace snug {

// "library", "library_tf32", "library_fast", "library_tf32_fast"; "library:3" is the third that its heuristics list.
struct LibraryVariant {
  bool tf32 = false, fast = false;
  int rank = 1;  // among what the library's heuristics list, from 1 on; the last where they list fewer

  std::string Name() const;
};

// For Prepare: what the licence permits, or which rank of that a tuning asks for; says so in `c`. `varies`: the library
// has algorithms for the node that do not give the same bits each time. InvalidArgument: a tuning asks for something
// that is less exact, or more, than the licence says.
absl::StatusOr<LibraryVariant> TakeLibraryVariant(PrepareContext& c, bool varies);
// The same of our own kernel beside the library's.
absl::Status TakeOwnBesideLibrary(PrepareContext& c);

// For KernelRow::variants: the library's others, neither less exact nor with other bits each time than its own, and our
// own kernel.
std::vector<std::string> OtherLibraryVariants(const PrepareContext& c, bool varies);

}  // namespace snug
