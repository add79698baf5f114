// The subcommands of `snug`, a file each, and what they share.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "tools/cli/flags.h"

namespace snug::cli {

using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* summary;
  // The exit code. A Cancelled status carries help text for standard output; any other error goes to standard error.
  absl::StatusOr<int> (*run)(const Arguments& arguments);
};

absl::StatusOr<int> RunTrain(const Arguments& arguments);
absl::StatusOr<int> RunEval(const Arguments& arguments);
absl::StatusOr<int> RunPredict(const Arguments& arguments);
absl::StatusOr<int> RunDoctor(const Arguments& arguments);
absl::StatusOr<int> RunStep(const Arguments& arguments);
absl::StatusOr<int> RunCompile(const Arguments& arguments);
absl::StatusOr<int> RunPlan(const Arguments& arguments);
absl::StatusOr<int> RunMemcost(const Arguments& arguments);
absl::StatusOr<int> RunFit(const Arguments& arguments);
absl::StatusOr<int> RunBench(const Arguments& arguments);
absl::StatusOr<int> RunTune(const Arguments& arguments);
absl::StatusOr<int> RunOps(const Arguments& arguments);
absl::StatusOr<int> RunPlace(const Arguments& arguments);
absl::StatusOr<int> RunOrder(const Arguments& arguments);

// "--json": what every command prints then is one document; everything else goes to standard error.
void AddJsonFlag(Flags& flags, bool* json);

constexpr int kStuck = 5;  // exit code: the watchdog ended the program

// "float32", "bfloat16" or "float64".
absl::StatusOr<DType> ParsePrecision(const std::string& text);
// 0: as many as the machine has processors (that this process may use).
int DefaultThreads();

}  // namespace snug::cli
