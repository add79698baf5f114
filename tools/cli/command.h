// The subcommands of `snug`, a file each, and what they share.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/base/dtype.h"

namespace snug::cli {

using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* summary;
  // The exit code. A Cancelled status carries help text for standard output; any other error goes to standard error.
  absl::StatusOr<int> (*run)(const Arguments& arguments);
};

absl::StatusOr<int> RunStep(const Arguments& arguments);
absl::StatusOr<int> RunCompile(const Arguments& arguments);
absl::StatusOr<int> RunPlan(const Arguments& arguments);
absl::StatusOr<int> RunMemcost(const Arguments& arguments);
absl::StatusOr<int> RunFit(const Arguments& arguments);
absl::StatusOr<int> RunOps(const Arguments& arguments);
absl::StatusOr<int> RunPlace(const Arguments& arguments);
absl::StatusOr<int> RunOrder(const Arguments& arguments);

constexpr int64_t kMaxThreads = 1024;

// "float32", "bfloat16" or "float64".
absl::StatusOr<DType> ParsePrecision(const std::string& text);
// 0: as many as the machine has processors (that this process may use).
int DefaultThreads();

}  // namespace snug::cli
