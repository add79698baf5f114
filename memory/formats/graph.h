// Graphs of tasks as text, one record a line (`#` opens a comment):
//
//   node <id> <name> <1 if it updates a weight>
//   tensor <id> <producer> <bytes> <consumer,consumer,...|-> [persistent|control|war]
//
// Ids are any whole numbers >= 0, in any sequence. `-` means that nobody reads the tensor. A persistent tensor is
// resident and imposes no precedence. control and war tensors have 0 bytes and only impose precedence (war: the reader
// of a value runs before the task that overwrites it).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "memory/tasks.h"

namespace snug::core::memory {

struct GraphFile {
  Tasks tasks;
  std::vector<int64_t> ids;  // the id that each task has in the file
};

// Errors name path and line. The tasks pass CheckTasks, and all sizes add up to less than 2^62.
absl::StatusOr<GraphFile> ReadGraphFile(const std::string& path);
absl::StatusOr<GraphFile> ParseGraph(absl::string_view path, absl::string_view text);

}  // namespace snug::core::memory
