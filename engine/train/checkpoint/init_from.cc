#include "engine/train/checkpoint/init_from.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/glob.h"
#include "engine/base/text/suggest.h"
#include "engine/train/checkpoint/element_type.h"
#include "engine/train/checkpoint/resume.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/tensor_source.h"

namespace snug::core::checkpoint {
namespace {

using Variables = std::map<std::string, StateVariable>;

// Says why the tensor cannot be loaded; "" when it can.
std::string Obstacle(const TensorSource& file, const TensorEntry& tensor, const Variables& variables,
                     NamePatterns& patterns) {
  std::string decided;
  if (!patterns.Includes(tensor.name, &decided)) {
    return decided.empty() ? "no pattern names it" : absl::StrCat("left out by \"", decided, "\"");
  }
  if (IsIgnored(tensor.name)) return "nothing reads it";
  const auto found = variables.find(tensor.name);
  if (IsTrainingState(file, tensor.name) || (found != variables.end() && !found->second.is_weight())) {
    return "state of the optimizer";
  }
  if (found == variables.end()) {
    Suggester suggester(tensor.name);
    for (const auto& [name, variable] : variables) suggester.Consider(name);
    return absl::StrCat("the network has none of that name", suggester.Question());
  }
  const ValueType& type = *found->second.view.type;
  if (absl::MakeConstSpan(tensor.shape) != type.shape.dims() || !CanConvert(tensor.type, type.dtype)) {
    return absl::StrCat("it is ", tensor.TypeText(), ", the network's is ", type.ToString());
  }
  return "";
}

}  // namespace

absl::StatusOr<InitReport> InitFrom(Session& session, FileSystem& files, const std::string& given,
                                    const std::vector<std::string>& patterns) {
  SNUG_ASSIGN_OR_RETURN(const CheckpointStore::Found found, FindCheckpoint(files, given));
  const std::string& path = found.path;
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<TensorSource> file, OpenTensorSource(files, path));
  Variables unset = StateVariables(session);
  const Variables variables = unset;
  NamePatterns names(patterns);
  InitReport report{.path = path, .notes = file->notes()};
  report.notes.insert(report.notes.end(), found.warnings.begin(), found.warnings.end());
  std::vector<Assignment> assignments;
  for (const TensorEntry& tensor : file->tensors()) {
    std::string obstacle = Obstacle(*file, tensor, variables, names);
    if (obstacle.empty()) {
      assignments.push_back({&tensor, variables.at(tensor.name).view});
      report.loaded.push_back(tensor.name);
      unset.erase(tensor.name);
    } else {
      report.not_loaded.push_back({tensor.name, std::move(obstacle)});
    }
  }
  for (const auto& [name, variable] : unset) {
    if (variable.is_weight()) report.untouched.push_back(name);
  }
  std::sort(report.loaded.begin(), report.loaded.end());
  std::sort(report.not_loaded.begin(), report.not_loaded.end(),
            [](const InitReport::Left& a, const InitReport::Left& b) { return a.name < b.name; });
  report.unused = names.Unused();
  if (assignments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no tensor of it can be loaded\n", report.ToString()));
  }
  SNUG_RETURN_IF_ERROR(file->VerifyChecksums());
  SNUG_RETURN_IF_ERROR(Assign(*file, assignments));
  return report;
}

std::string InitReport::ToString() const {
  std::string text =
      absl::StrCat("loaded ", loaded.size(), ", not loaded ", not_loaded.size(), ", as initialised ", untouched.size());
  for (const std::string& note : notes) absl::StrAppend(&text, "\n  of the file: ", note);
  for (const Left& left : not_loaded) absl::StrAppend(&text, "\n  not loaded: \"", left.name, "\": ", left.why);
  for (const std::string& name : untouched) absl::StrAppend(&text, "\n  as initialised: \"", name, "\"");
  for (const std::string& pattern : unused) absl::StrAppend(&text, "\n  pattern \"", pattern, "\" matches no tensor");
  return text;
}

NamePatterns::NamePatterns(std::vector<std::string> patterns)
    : patterns_(std::move(patterns)), used_(patterns_.size(), 0) {}

bool NamePatterns::Includes(absl::string_view name, std::string* decided) {
  bool included = patterns_.empty() || patterns_[0].substr(0, 1) == "!";
  if (decided != nullptr) decided->clear();
  for (size_t i = 0; i < patterns_.size(); ++i) {
    absl::string_view pattern = patterns_[i];
    const bool excludes = absl::ConsumePrefix(&pattern, "!");
    if (!GlobMatches(pattern, name)) continue;
    used_[i] = 1;
    included = !excludes;
    if (decided != nullptr) *decided = patterns_[i];
  }
  return included;
}

std::vector<std::string> NamePatterns::Unused() const {
  std::vector<std::string> unused;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    if (!used_[i]) unused.push_back(patterns_[i]);
  }
  return unused;
}

}  // namespace snug::core::checkpoint
