// What classes are called where a person or another program reads of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/evaluator.h"
#include "engine/train/judgement/class_scores.h"

namespace snug::core::cli {

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
