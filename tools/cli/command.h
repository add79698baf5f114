// What the subcommands of `snug` share. Each is a file, and tools/snug.cc lists them.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

using Arguments = std::vector<std::string>;

// Runs a subcommand and returns the exit code. A Cancelled status carries help text for standard output; any other
// error goes to standard error.
using CommandFunction = absl::StatusOr<int>(const Arguments& arguments);

// "--json": what every command prints then is one document; everything else goes to standard error.
inline void AddJsonFlag(Flags& flags, bool* json) {
  flags.Add("json", json, "print one JSON document; everything else goes to standard error");
}

constexpr int kStuck = 5;  // the exit code when the watchdog ended the program

// Returns what tables and documents call a row for training, or for the forward pass alone.
inline const char* ModeName(bool training) { return training ? "training" : "forward"; }

}  // namespace snug::core::cli
