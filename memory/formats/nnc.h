// The text form in which NNC's reference implementation prints what its allocator sees: tasks ("node"), precedence
// ("edge") and tensors with their first and last uses under that partial order, one record a line.
//
//   nodes 54
//   edge 0 1
//   tensor 2 size 131072 type 1 head 0,3 tail 19 [companion 4] interferes 53
//   interference_edges 1258
//   total 22159232
//
// Records of other kinds, "node" among them, are ignored.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"

namespace snug::core::memory {

struct NncFile {
  PartialProblem problem;           // buffers have the names of the tensors: "t2"
  std::vector<int64_t> interferes;  // the number that the file gives for each, or -1
  int64_t interference_edges = -1;  // the number of interfering pairs that the file gives
  int64_t total = -1;               // the arena that the reference implementation found
};

// Tells whether the text looks like one of these files.
bool IsNnc(absl::string_view text);

// `path` only appears in messages.
absl::StatusOr<NncFile> ParseNnc(absl::string_view text, absl::string_view path);

}  // namespace snug::core::memory
