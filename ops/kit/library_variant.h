// Says what a kernel of one of CUDA's libraries is called in dumps and tunings: by what it may do with its numbers, and
// by which algorithm it takes. Whether the library's kernel or our own serves a node is decided when a network is
// compiled, by types and options alone, so the plan has the same workspace and layouts with a GPU and without. Where
// the library is not there, or has no such kernel, our own row serves within that plan.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "ops/prepare_context.h"

namespace snug::core {

// Its names are "library", "library_tf32", "library_fast" and "library_tf32_fast"; "library:3" is the third algorithm
// that the library's heuristics list.
struct LibraryVariant {
  bool tf32 = false, fast = false;
  int rank = 1;  // the place in the list of the library's heuristics, from 1 on; beyond its end the last one is taken

  std::string Name() const;
};

// For Prepare: takes the variant that the licence permits, in the rank that a tuning asks for, and tells `c`. `varies`
// says that the library has algorithms for the node that do not give the same bits each time. Fails with
// InvalidArgument if a tuning asks for something that is more or less exact than the licence says.
absl::StatusOr<LibraryVariant> TakeLibraryVariant(PrepareContext& c, bool varies);
// Does the same for our own kernel beside the library's.
absl::Status TakeOwnBesideLibrary(PrepareContext& c);

// For KernelRow::variants: lists the library's other ranks, which are as exact as its own choice and vary no more, and
// our own kernel.
std::vector<std::string> OtherLibraryVariants(const PrepareContext& c, bool varies);
// Returns the name of the library's own choice, for rows in front of the library's.
std::string LicensedLibraryVariant(const PrepareContext& c, bool varies);

}  // namespace snug::core
