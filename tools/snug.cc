// The `snug` command: runs the subcommand and prints what went wrong.
// cli/commands.cc lists its subcommands and exit codes.
#include <absl/status/status.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/base/text/suggest.h"
#include "ops/platform.h"
#include "tools/cli/commands.h"
#include "tools/cli/process.h"
#include "tools/commit.h"

namespace snug::core::cli {

namespace {

std::string Help() {
  std::string text =
      "usage: snug COMMAND [ARGUMENTS]\n"
      "       snug --version\n\n"
      "Trains networks from model files, with every byte of memory planned before the first step.\n\ncommands:\n";
  for (const Command& command : Commands()) {
    std::string head = absl::StrCat("  ", command.name);
    head.resize(14, ' ');
    absl::StrAppend(&text, head, command.summary, "\n");
  }
  absl::StrAppend(
      &text,
      "\nTo begin with: `snug new convnet` writes a model file, and `snug train convnet.pbtxt` trains it; with a "
      "table of\nyour own: `snug train NET --data=csv --data-csv-file=TABLE`. `snug COMMAND --help` tells more.\n"
      "\nexit codes:\n");
  for (const ExitCode& each : ExitCodes()) absl::StrAppend(&text, "  ", each.code, "  ", each.meaning, "\n");
  absl::StrAppend(&text, "\nenvironment (docs/environment.md tells more):\n");
  for (const Variable& each : EnvironmentVariables()) {
    absl::StrAppend(&text, "  ", each.names, ": ", each.meaning, "\n");
  }
  return text;
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return 2;
    default:
      return 1;
  }
}

int Report(const absl::Status& status, const Arguments& arguments) {
  const std::string message(status.message());
  if (status.code() == absl::StatusCode::kCancelled) {  // help was asked for
    std::fputs(message.c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "%s\n", message.c_str());
  const int code = CodeOf(status);
  // With --json, failures are a document too.
  if (std::find(arguments.begin(), arguments.end(), "--json") != arguments.end()) {
    Json json;
    json.Object().Key("error").String(message).Key("exit_code").Number(static_cast<int64_t>(code)).End();
    std::puts(json.text().c_str());
  }
  return code;
}

// A result that did not reach standard output, for instance because a disk is full, is a failure.
int Delivered(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "standard output: cannot be written\n");
  return 1;
}

int Main(const Arguments& arguments) {
  const bool asks = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help");
  if (asks && arguments.size() == 2 && arguments[1] != "help" && !absl::StartsWith(arguments[1], "-")) {
    return Main({arguments[1], "--help"});  // `snug help train`
  }
  if (arguments.empty() || asks) {
    std::fputs(Help().c_str(), arguments.empty() ? stderr : stdout);
    return Delivered(arguments.empty() ? 2 : 0);
  }
  if (const absl::Status isa = CheckIsaVariable(); !isa.ok()) return Report(isa, arguments);
  if (arguments[0] == "--version") {
    const Platform platform = CpuPlatform();
    const std::string known = SourceCommit();
    const std::string commit = known.empty() ? "unknown commit" : absl::StrCat("commit ", known);
    std::printf("snug %s (%s, %s, library: %s)\n", SNUG_PROGRAM_VERSION, commit.c_str(), platform.instructions.c_str(),
                platform.library.c_str());
    return Delivered(0);
  }
  Suggester suggester(arguments[0]);
  for (const Command& command : Commands()) {
    suggester.Consider(command.name);
    if (arguments[0] != command.name) continue;
    const absl::StatusOr<int> code = command.run(Arguments(arguments.begin() + 1, arguments.end()));
    return Delivered(code.ok() ? *code : Report(code.status(), arguments));
  }
  return Report(absl::InvalidArgumentError(absl::StrCat("unknown command \"", arguments[0], "\"",
                                                        suggester.found() ? suggester.Question() : ";",
                                                        " `snug --help` lists the commands")),
                arguments);
}

}  // namespace
}  // namespace snug::core::cli

int main(int argc, char** argv) try {
  snug::core::cli::SpinBriefly(argv);
  snug::core::cli::TakeLimitsAsErrors();
  return snug::core::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::bad_alloc&) {  // what is large is planned, and refused by name; this is the rest
  std::fputs("out of memory: something of this size does not fit on this machine\n", stderr);
  return 1;
}
