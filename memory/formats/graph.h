// Graphs of tasks as text, one record a line (`#` opens a comment):
//
//   node <id> <name> <1 if it updates a weight>
//   tensor <id> <producer> <bytes> <consumer,consumer,...|-> [persistent|control|war]
//
// Ids are any whole numbers >= 0, in any sequence. `-`: nobody reads it. persistent: resident, and no precedence.
// control and war (a hazard: the reader of a value runs before the task that overwrites it) are precedence alone, of 0
// bytes.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/tasks.h"

namespace snug::memory {

struct GraphFile {
  Tasks tasks;
  std::vector<int64_t> ids;  // of each task, in the file
};

// Errors say path and line. The tasks pass CheckTasks, and all sizes together stay below 2^62.
absl::StatusOr<GraphFile> ReadGraphFile(const std::string& path);
absl::StatusOr<GraphFile> ParseGraph(absl::string_view path, absl::string_view text);

}  // namespace snug::memory
