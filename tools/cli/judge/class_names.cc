#include "tools/cli/judge/class_names.h"

#include <absl/strings/str_cat.h>

#include "engine/base/text/printable.h"

namespace snug::core::cli {

ClassNames::ClassNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) names_.push_back(Printable(name));
}

std::string ClassNames::Of(int64_t c) const {
  if (c < 0) return "none";
  return named(c) ? names_[static_cast<size_t>(c)] : absl::StrCat(c);
}

ClassNames NamesOfClasses(const Evaluator& evaluator, const ClassScores& scores) {
  if (const DataField* const labels = evaluator.FieldOf(scores.labels); labels != nullptr) {
    return ClassNames(labels->classes);
  }
  // The classes of labels that a layer computes are its own, not those of the data.
  if (!scores.labels.empty() && !scores.labels_are_fed) return {};
  // A network that only predicts takes no labels, but the data have them.
  for (const DataField& field : evaluator.dataset().fields()) {
    if (!field.classes.empty()) return ClassNames(field.classes);
  }
  return {};
}

}  // namespace snug::core::cli
