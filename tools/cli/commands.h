// The commands that `snug` has.
#pragma once

#include <absl/types/span.h>

#include "tools/cli/command.h"

namespace snug::core::cli {

struct Command {
  const char* name;
  const char* summary;
  CommandFunction* run;
};

absl::Span<const Command> Commands();

struct ExitCode {
  int code;
  const char* meaning;
};

absl::Span<const ExitCode> ExitCodes();

// What the environment says to every command: names of variables, with what they are for.
struct Variable {
  const char* names;
  const char* meaning;
};

absl::Span<const Variable> EnvironmentVariables();

// What a command's help has, for what is made of it: the manual page, and what shells complete.
Usage UsageOf(const Command& command);

}  // namespace snug::core::cli
