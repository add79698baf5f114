// `snug man` prints the manual page, made of what the commands' help says.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>

#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {
namespace {

// In roff a backslash begins a command, as a dot or a quote does at the beginning of a line, and "-" is a hyphen.
std::string Roff(absl::string_view text) {
  std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (absl::StartsWith(escaped, ".") || absl::StartsWith(escaped, "'")) escaped.insert(0, "\\&");
  return escaped;
}

// Indented lines are shown as they are, the others as flowing text.
std::string Description(absl::string_view text) {
  std::string page;
  bool shown = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool show = absl::StartsWith(line, "  ");
    if (show != shown) absl::StrAppend(&page, show ? ".nf\n" : ".fi\n");
    shown = show;
    absl::StrAppend(&page, line.empty() ? ".PP" : Roff(line), "\n");
  }
  if (shown) absl::StrAppend(&page, ".fi\n");
  return page;
}

std::string SectionOf(const Command& command) {
  const Usage usage = UsageOf(command);
  std::string page =
      absl::StrCat(".SS ", command.name, "\n.B ", Roff(usage.usage), "\n.PP\n", Description(usage.description));
  std::string section = "flags";
  for (const Usage::Flag& flag : usage.flags) {
    if (flag.section != section) absl::StrAppend(&page, ".PP\n", Roff(flag.section), ":\n");
    section = flag.section;
    absl::StrAppend(&page, ".TP\n.B ", Roff(absl::StrCat("--", flag.name)));
    if (!flag.value_name.empty()) absl::StrAppend(&page, "=", Roff(flag.value_name));
    absl::StrAppend(&page, "\n", Roff(flag.help), "\n");
  }
  return page;
}

}  // namespace

absl::StatusOr<int> RunMan(const Arguments& arguments) {
  const Flags flags(
      "snug man",
      "Prints the manual page, in roff:\n  snug man | man -l -\n  snug man > /usr/local/share/man/man1/snug.1");
  SNUG_ASSIGN_OR_RETURN(const Arguments positional, flags.Parse(arguments));
  if (!positional.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected no argument, found \"", positional[0], "\""));
  }
  std::string page =
      ".TH SNUG 1\n"
      ".SH NAME\n"
      "snug \\- trains networks from model files, with every byte of memory planned before the first step\n"
      ".SH SYNOPSIS\n"
      ".B snug\n"
      ".I COMMAND\n"
      "[\\fIARGUMENTS\\fR]\n"
      ".SH COMMANDS\n";
  for (const Command& command : Commands()) {
    absl::StrAppend(&page, ".TP\n.B ", command.name, "\n", Roff(command.summary), "\n");
  }
  absl::StrAppend(&page, ".SH EXIT STATUS\n");
  for (const ExitCode& each : ExitCodes()) {
    absl::StrAppend(&page, ".TP\n.B ", each.code, "\n", Roff(each.meaning), "\n");
  }
  absl::StrAppend(&page, ".SH ENVIRONMENT\n");
  for (const Variable& each : EnvironmentVariables()) {
    absl::StrAppend(&page, ".TP\n.B ", Roff(each.names), "\n", Roff(each.meaning), "\n");
  }
  absl::StrAppend(&page, ".SH USAGE OF EACH COMMAND\n");
  for (const Command& command : Commands()) absl::StrAppend(&page, SectionOf(command));
  std::fputs(page.c_str(), stdout);
  return 0;
}

}  // namespace snug::core::cli
