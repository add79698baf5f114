// What files of problems look like, and their readers: buffers with lifetimes, graphs of tasks, and the dumps of NNC.
// Each is in a .cc file of its own.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/partial_problem.h"
#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

// The text form of placement problems that public instance collections use, one buffer a line:
//
//   id,lower,upper,size
//   b1,0,3,4
//
// Lifetimes are half-open: [lower, upper). The columns may come in any order. `alignment` (default 1) and `gaps` ("3-5
// 8-9", half-open) are optional; other columns are ignored.
// `path` only appears in messages.
absl::StatusOr<Problem> ParseCsv(absl::string_view text, absl::string_view path);

// Returns lines of "id,offset".
std::string OffsetsCsv(const std::vector<std::string>& names, const Plan& plan);

// Graphs of tasks as text, one record a line (`#` opens a comment):
//
//   node <id> <name> <1 if it updates a weight>
//   tensor <id> <producer> <bytes> <consumer,consumer,...|-> [persistent|control|war]
//
// Ids are any whole numbers >= 0, in any sequence. `-` means that nobody reads the tensor. A persistent tensor is
// resident and imposes no precedence. control and war tensors have 0 bytes and only impose precedence (war: the reader
// of a value runs before the task that overwrites it).
struct GraphFile {
  Tasks tasks;
  std::vector<int64_t> ids;  // the id that each task has in the file
};

// Errors name path and line. The tasks pass CheckTasks, and all sizes add up to less than 2^62.
absl::StatusOr<GraphFile> ReadGraphFile(const std::string& path);
absl::StatusOr<GraphFile> ParseGraph(absl::string_view path, absl::string_view text);

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
