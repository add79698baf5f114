// What classes are called where a person or another program reads of them.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/evaluator.h"
#include "engine/train/judgement/class_scores.h"

namespace snug::core::cli {

// Returns text without control characters or bytes that are no UTF-8, which are written as escapes: names come from
// files, and go to terminals and documents.
std::string Printable(absl::string_view text);

class ClassNames {
 public:
  ClassNames() = default;
  explicit ClassNames(const std::vector<std::string>& names);

  // Whether the data have a name for this class; where they have none it is called by its number.
  bool named(int64_t c) const { return c >= 0 && c < static_cast<int64_t>(names_.size()); }
  // -1 is what has no prediction.
  std::string Of(int64_t c) const;

 private:
  std::vector<std::string> names_;
};

// What the data call the classes of the labels.
ClassNames NamesOfClasses(const Evaluator& evaluator, const ClassScores& scores);

}  // namespace snug::core::cli
