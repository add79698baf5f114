#include "engine/train/checkpoint/name_patterns.h"

#include <absl/strings/strip.h>

#include <utility>

#include "engine/base/text/glob.h"

namespace snug::core::checkpoint {

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
