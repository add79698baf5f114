// The text form in which NNC's reference implementation prints what its allocator sees: tasks ("node"), precedence
// ("edge") and tensors with their first and last uses under that partial order, one record a line.
//
//   nodes 54
//   edge 0 1
//   tensor 2 size 131072 type 1 head 0,3 tail 19 [companion 4] interferes 53
//   interference_edges 1258
//   total 22159232
//
// Other records, "node" among them, are passed over.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <vector>

#include "memory/partial_problem.h"

namespace snug::memory {

struct NncFile {
  PartialProblem problem;           // buffers are named as the tensors: "t2"
  std::vector<int64_t> interferes;  // what the file says of each, -1: nothing
  int64_t interference_edges = -1;  // pairs that interfere, the file says
  int64_t total = -1;               // the reference's answer
};

// Whether the text looks like one of these files.
bool IsNnc(absl::string_view text);

// `path` is for messages.
absl::StatusOr<NncFile> ParseNnc(absl::string_view text, absl::string_view path);

}  // namespace snug::memory
