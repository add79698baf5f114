#include "tools/cli/flags.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/suggest.h"

namespace snug::cli {

void Flags::Add(std::string name, bool* target, std::string help) {
  flags_.push_back({name, "", std::move(help), false, [name, target](const std::string& value) -> absl::Status {
                      if (value.empty() || value == "true") {
                        *target = true;
                      } else if (value == "false") {
                        *target = false;
                      } else {
                        return absl::InvalidArgumentError(
                            absl::StrCat("--", name, ": expected true or false, found \"", value, "\""));
                      }
                      return absl::OkStatus();
                    }});
}

void Flags::Add(std::string name, int64_t* target, std::string help, int64_t min, int64_t max) {
  const std::string range = max == std::numeric_limits<int64_t>::max() ? absl::StrCat("of at least ", min)
                                                                       : absl::StrCat("from ", min, " to ", max);
  flags_.push_back(
      {name, "N", std::move(help), true, [name, target, min, max, range](const std::string& value) -> absl::Status {
         if (!absl::SimpleAtoi(value, target) || *target < min || *target > max) {
           return absl::InvalidArgumentError(
               absl::StrCat("--", name, ": expected a whole number ", range, ", found \"", value, "\""));
         }
         return absl::OkStatus();
       }});
}

void Flags::Add(std::string name, double* target, std::string help) {
  flags_.push_back({name, "X", std::move(help), true, [name, target](const std::string& value) -> absl::Status {
                      if (!absl::SimpleAtod(value, target) || !std::isfinite(*target)) {
                        return absl::InvalidArgumentError(
                            absl::StrCat("--", name, ": expected a number, found \"", value, "\""));
                      }
                      return absl::OkStatus();
                    }});
}

void Flags::Add(std::string name, std::string* target, std::string help) {
  flags_.push_back({std::move(name), "TEXT", std::move(help), true, [target](const std::string& value) {
                      *target = value;
                      return absl::OkStatus();
                    }});
}

void Flags::Add(std::string name, std::vector<std::string>* target, std::string help) {
  flags_.push_back({std::move(name), "A,B,...", std::move(help), true, [target](const std::string& value) {
                      for (std::string& part : std::vector<std::string>(absl::StrSplit(value, ',', absl::SkipEmpty())))
                        target->push_back(std::move(part));
                      return absl::OkStatus();
                    }});
}

const Flags::Flag* Flags::Find(const std::string& name) const {
  const auto it = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.name == name; });
  return it == flags_.end() ? nullptr : &*it;
}

absl::Status Flags::Unknown(const std::string& name) const {
  Suggester suggester(name);
  for (const Flag& flag : flags_) suggester.Consider(flag.name);
  const std::string nearest = suggester.found() ? absl::StrCat("; did you mean --", suggester.best(), "?") : "";
  return absl::InvalidArgumentError(absl::StrCat("unknown flag --", name, nearest, "; --help lists the flags"));
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

std::string Flags::Help() const {
  std::string text = absl::StrCat("usage: ", usage_, "\n\n", description_, "\n");
  if (!flags_.empty()) absl::StrAppend(&text, "\nflags:\n");
  for (const Flag& flag : flags_) {
    std::string head = absl::StrCat("  --", flag.name, flag.needs_value ? absl::StrCat("=", flag.value_name) : "");
    head.resize(std::max<size_t>(head.size() + 2, 30), ' ');
    absl::StrAppend(&text, head, flag.help, "\n");
  }
  return text;
}

}  // namespace snug::cli
