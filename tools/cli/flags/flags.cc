#include "tools/cli/flags/flags.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"

namespace snug::core::cli {

void Flags::Add(std::string name, std::string value_name, std::string help,
                std::function<absl::Status(const std::string& value)> set) {
  const bool needs_value = !value_name.empty();
  flags_.push_back({std::move(name), std::move(value_name), std::move(help), needs_value, std::move(set), section_});
}

void Flags::Add(const std::string& name, bool* target, std::string help) {
  flags_.push_back({name, "", std::move(help), false,
                    [name, target](const std::string& value) -> absl::Status {
                      if (value.empty() || value == "true") {
                        *target = true;
                      } else if (value == "false") {
                        *target = false;
                      } else {
                        return absl::InvalidArgumentError(
                            absl::StrCat("--", name, ": expected true or false, found \"", value, "\""));
                      }
                      return absl::OkStatus();
                    },
                    section_});
}

void Flags::Add(const std::string& name, int64_t* target, std::string help, int64_t min, int64_t max) {
  const std::string range = max == std::numeric_limits<int64_t>::max() ? absl::StrCat("of at least ", min)
                                                                       : absl::StrCat("from ", min, " to ", max);
  flags_.push_back({name, "N", std::move(help), true,
                    [name, target, min, max, range](const std::string& value) -> absl::Status {
                      if (!absl::SimpleAtoi(value, target) || *target < min || *target > max) {
                        return absl::InvalidArgumentError(
                            absl::StrCat("--", name, ": expected a whole number ", range, ", found \"", value, "\""));
                      }
                      return absl::OkStatus();
                    },
                    section_});
}

void Flags::Add(const std::string& name, double* target, std::string help) {
  flags_.push_back({name, "X", std::move(help), true,
                    [name, target](const std::string& value) -> absl::Status {
                      if (!absl::SimpleAtod(value, target) || !std::isfinite(*target)) {
                        return absl::InvalidArgumentError(
                            absl::StrCat("--", name, ": expected a number, found \"", value, "\""));
                      }
                      return absl::OkStatus();
                    },
                    section_});
}

void Flags::Add(const std::string& name, std::string* target, std::string help) {
  flags_.push_back({name, "TEXT", std::move(help), true,
                    [name, target](const std::string& value) -> absl::Status {
                      if (value.empty()) {
                        return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected a value, found none"));
                      }
                      *target = value;
                      return absl::OkStatus();
                    },
                    section_});
}

void Flags::Add(const std::string& name, std::vector<std::string>* target, std::string help) {
  flags_.push_back({name, "A,B,...", std::move(help), true,
                    [name, target](const std::string& value) -> absl::Status {
                      for (std::string& part : std::vector<std::string>(absl::StrSplit(value, ','))) {
                        if (part.empty()) {
                          return absl::InvalidArgumentError(
                              absl::StrCat("--", name, ": expected names separated by commas, found \"", value, "\""));
                        }
                        if (std::find(target->begin(), target->end(), part) != target->end()) {
                          return absl::InvalidArgumentError(
                              absl::StrCat("--", name, ": \"", part, "\" is named twice"));
                        }
                        target->push_back(std::move(part));
                      }
                      return absl::OkStatus();
                    },
                    section_});
}

const Flags::Flag* Flags::Find(const std::string& name) const {
  const auto it = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.name == name; });
  return it == flags_.end() ? nullptr : &*it;
}

absl::Status Flags::Unknown(const std::string& name) const {
  Suggester suggester(name);
  for (const Flag& flag : flags_) suggester.Consider(flag.name);
  const std::string nearest = suggester.found() ? absl::StrCat("; did you mean --", suggester.best(), "?") : ";";
  return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name, nearest, " --help lists the flags"));
}

absl::StatusOr<std::vector<std::string>> Flags::Parse(const std::vector<std::string>& arguments) const {
  std::vector<std::string> positional;
  bool flags_end = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (flags_end || argument.size() < 2 || argument[0] != '-') {
      positional.push_back(argument);
      continue;
    }
    if (argument == "--") {
      flags_end = true;
      continue;
    }
    if (argument == "--help" || argument == "-h") return absl::CancelledError(Help());
    if (argument == kListFlags) return absl::CancelledError(List());
    const size_t dashes = argument[1] == '-' ? 2 : 1;
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(dashes, equals == std::string::npos ? std::string::npos : equals - dashes);
    const Flag* flag = Find(name);
    if (dashes == 1) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", argument, ": flags begin with two dashes"));
    }
    if (flag == nullptr) return Unknown(name);
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (flag->needs_value) {
      if (i + 1 == arguments.size())
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, ": expected a value, as in --", name, "=", flag->value_name));
      value = arguments[++i];
    }
    SNUG_RETURN_IF_ERROR(flag->set(value));
  }
  return positional;
}

absl::StatusOr<std::string> Flags::ParseOne(const std::vector<std::string>& arguments, absl::string_view what) const {
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> positional, Parse(arguments));
  if (positional.size() == 1) return positional[0];
  return absl::InvalidArgumentError(
      absl::StrCat("expected one argument, ", what, ", found ", positional.size(), "; usage: ", usage_));
}

void Flags::Section(const std::string& heading) {
  const auto it = std::find(sections_.begin(), sections_.end(), heading);
  section_ = static_cast<size_t>(it - sections_.begin());
  if (it == sections_.end()) sections_.push_back(heading);
}

std::string Flags::Help() const {
  std::string text = absl::StrCat("usage: ", usage_, "\n\n", description_, "\n");
  for (size_t section = 0; section < sections_.size(); ++section) {
    std::string lines;
    for (const Flag& flag : flags_) {
      if (flag.section != section) continue;
      std::string head = absl::StrCat("  --", flag.name, flag.needs_value ? absl::StrCat("=", flag.value_name) : "");
      head.resize(std::max<size_t>(head.size() + 2, 30), ' ');
      absl::StrAppend(&lines, head, flag.help, "\n");
    }
    if (!lines.empty()) absl::StrAppend(&text, "\n", sections_[section], ":\n", lines);
  }
  return text;
}

// Parts are ended by characters that no help has.
namespace {
constexpr char kPart = '\x1f', kLine = '\x1e';
}  // namespace

std::string Flags::List() const {
  std::string list = absl::StrCat(usage_, std::string(1, kPart), description_);
  for (size_t section = 0; section < sections_.size(); ++section) {
    for (const Flag& flag : flags_) {
      if (flag.section != section) continue;
      absl::StrAppend(
          &list, std::string(1, kLine),
          absl::StrJoin({sections_[section], flag.name, flag.value_name, flag.help}, std::string(1, kPart)));
    }
  }
  return list;
}

Usage Flags::ReadList(absl::string_view list) {
  const std::vector<std::string> lines = absl::StrSplit(list, kLine);
  const std::vector<std::string> first = absl::StrSplit(lines[0], kPart);
  SNUG_CHECK(first.size() == 2);
  Usage usage = {.usage = first[0], .description = first[1], .flags = {}};
  for (size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> parts = absl::StrSplit(lines[i], kPart);
    SNUG_CHECK(parts.size() == 4);
    usage.flags.push_back({parts[0], parts[1], parts[2], parts[3]});
  }
  return usage;
}

}  // namespace snug::core::cli
