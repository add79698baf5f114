#include "proto/loader/names.h"

#include <absl/strings/ascii.h>
#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/text/suggest.h"

namespace snug::core::loader {
namespace {

// Comparing names costs time, so in a file with many unknown ones only the first few get suggestions.
constexpr int kMostSuggestions = 50;

std::string Shown(absl::string_view name) {
  return name.size() > 80 ? absl::StrCat(absl::CHexEscape(name.substr(0, 80)), "...") : absl::CHexEscape(name);
}

}  // namespace

// Where there is no position to point at, the message must say which layer it is about.
std::string NameTable::Who(const Pending& pending) {
  if (pending.pos.known() || pending.reader.empty()) return "";
  return absl::StrCat("layer \"", Shown(pending.reader), "\": ");
}

OutputName SplitOutputName(absl::string_view name) {
  const size_t colon = name.rfind(':');
  int index = 0;
  if (colon == absl::string_view::npos || colon == 0 || !absl::ascii_isdigit(static_cast<unsigned char>(name.back())) ||
      !absl::SimpleAtoi(name.substr(colon + 1), &index) || index < 0) {
    return {name, -1};
  }
  return {name.substr(0, colon), index};
}

bool NameTable::Check(absl::string_view name, SourcePos pos) {
  if (name.empty()) {
    errors_->Add(pos, "a name cannot be empty");
    return false;
  }
  if (name.size() > static_cast<size_t>(max_name_length_)) {
    errors_->Add(pos,
                 absl::StrCat("the name has ", name.size(), " characters; at most ", max_name_length_, " are allowed"));
    return false;
  }
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_.-/", absl::string_view(&c, 1)))
      continue;
    errors_->Add(pos, absl::StrCat("name \"", Shown(name), "\": \"", absl::CHexEscape(absl::string_view(&c, 1)),
                                   "\" is not allowed; names have letters, digits, and _ . - /"));
    return false;
  }
  return true;
}

void NameTable::Define(const std::string& name, Definition definition) {
  ++order_;
  const SourcePos pos = definition.pos;
  const auto [it, added] = names_.emplace(name, std::move(definition));
  if (added) {
    in_order_.push_back(name);
    return;
  }
  const SourcePos first = it->second.pos;
  if (!pos.known()) {
    errors_->Add(pos, absl::StrCat("the name \"", Shown(name), "\" is given twice"));
    return;
  }
  const bool repetition = first.line == pos.line && first.column == pos.column;
  errors_->Add(pos, absl::StrCat("the name \"", Shown(name), "\" is taken: ",
                                 repetition ? "each use gives it again; put $name or the index of the repeat into it"
                                            : absl::StrCat("first at ", map_->Loc(first).ToString())));
}

std::optional<std::string> NameTable::Resolve(const std::string& prefix, absl::string_view name, SourcePos pos,
                                              const std::string& reader) {
  const int64_t order = order_++;
  const OutputName split = SplitOutputName(name);
  const auto found = names_.find(absl::StrCat(prefix, split.base));
  if (found == names_.end()) {
    const bool again = !pending_.empty() && pending_.back().pos.line == pos.line &&
                       pending_.back().pos.column == pos.column && pending_.back().prefix == prefix;
    if (!again || !pos.known()) pending_.push_back({prefix, std::string(name), reader, pos, order});
    return std::nullopt;
  }
  const Definition& definition = found->second;
  if (definition.as == DefinedAs::kInput && split.index > 0) {
    errors_->Add(pos, absl::StrCat("\"", Shown(name), "\": \"", Shown(split.base),
                                   "\" is an input of the network: it is one value"));
    return std::nullopt;
  }
  if (definition.as != DefinedAs::kAlias) return absl::StrCat(prefix, name);
  if (definition.values.empty()) return std::nullopt;
  const size_t index = split.index < 0 ? 0 : static_cast<size_t>(split.index);
  if (index >= definition.values.size()) {
    errors_->Add(pos, absl::StrCat("\"", Shown(name), "\": ", definition.what, " puts out ", definition.values.size(),
                                   definition.values.size() == 1 ? " value" : " values, counted from 0"));
    return std::nullopt;
  }
  return definition.values[index];
}

// Tells whether `from` reads `to`, directly or through others.
bool NameTable::Reaches(const std::string& from, const std::string& to) const {
  std::vector<std::string> stack = {from};
  std::unordered_set<std::string> seen;
  while (!stack.empty()) {
    const std::string name = std::string(SplitOutputName(stack.back()).base);
    stack.pop_back();
    if (name == to) return true;
    const auto found = names_.find(name);
    if (found == names_.end() || !seen.insert(name).second) continue;
    for (const std::string& value : found->second.values) stack.push_back(value);
  }
  return false;
}

void NameTable::ReportEarly(const Pending& pending, const std::string& full, const Definition& definition) {
  const std::string shown = Shown(SplitOutputName(pending.name).base);
  const std::string who = Who(pending);
  if (!pending.reader.empty() && Reaches(full, pending.reader)) {
    errors_->Add(pending.pos, full == pending.reader ? absl::StrCat(who, "layer \"", shown, "\" reads itself")
                                                     : absl::StrCat(who, "a cycle: \"", shown,
                                                                    "\" reads this layer, directly or through others"));
    return;
  }
  errors_->Add(pending.pos,
               absl::StrCat(who, "\"", shown, "\" is used before it is defined",
                            definition.pos.known() ? absl::StrCat(", at ", map_->Loc(definition.pos).ToString()) : "",
                            ": a layer stands after what it reads"));
}

void NameTable::ReportUnknown(const Pending& pending, bool suggest) {
  const std::string base = std::string(SplitOutputName(pending.name).base);
  std::string hint;
  if (!pending.prefix.empty() && names_.contains(base)) {
    hint = absl::StrCat("; a block sees its own layers and inputs only: give it \"", Shown(base), "\" as an input");
  } else if (suggest) {
    Suggester suggester(base);
    for (const std::string& name : in_order_) {
      if (absl::StartsWith(name, pending.prefix)) suggester.Consider(name.substr(pending.prefix.size()));
    }
    hint = suggester.Question();
  }
  errors_->Add(pending.pos, absl::StrCat(Who(pending), "there is no layer or input \"", Shown(base), "\"", hint));
}

// Tells whether the name may belong to something that was not understood.
bool NameTable::IsExcused(const Pending& pending, const std::string& full) {
  for (const std::string& prefix : lost_prefixes_) {
    if (absl::StartsWith(full, prefix)) return true;
  }
  if (excused_.contains(full)) return true;
  if (excuses_ == lost_.size() || lost_[excuses_] > pending.order) return false;
  ++excuses_;
  excused_.insert(full);
  return true;
}

void NameTable::Finish() {
  int reported = 0;
  for (const Pending& pending : pending_) {
    if (errors_->full()) return;
    const std::string full = absl::StrCat(pending.prefix, SplitOutputName(pending.name).base);
    const auto found = names_.find(full);
    if (found != names_.end()) {
      ReportEarly(pending, full, found->second);
    } else if (!IsExcused(pending, full)) {
      ReportUnknown(pending, ++reported <= kMostSuggestions);
    }
  }
}

}  // namespace snug::core::loader
