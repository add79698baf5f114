// The subcommands of `snug`, a file each, and what they share.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* summary;
  // Returns the exit code. A Cancelled status carries help text for standard output; any other error goes to standard
  // error.
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
inline void AddJsonFlag(Flags& flags, bool* json) {
  flags.Add("json", json, "print one JSON document; everything else goes to standard error");
}

constexpr int kStuck = 5;  // the exit code when the watchdog ended the program

// Returns what tables and documents call a row for training, or for the forward pass alone.
inline const char* ModeName(bool training) { return training ? "training" : "forward"; }

}  // namespace snug::core::cli
