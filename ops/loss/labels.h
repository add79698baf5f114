// Reads the integer labels of losses and metrics: each names a class or is the one that is ignored.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <string>

#include "ops/node_types.h"

namespace snug::core {

// The label that readers of files let pass beside those that are bounded (kIgnoredLabel, engine/train/data/dataset.h).
inline constexpr int64_t kLeftOutOfFiles = -100;

inline std::string HintOfPlace(int64_t classes) {
  return absl::StrCat(". In a file of labels `max_value: ", classes, "` on their input finds its place");
}

// Counts the rows that are not ignored. The error for a label that is no class names the label.
template <class Label>
absl::Status CheckLabels(const Label* labels, int64_t rows, int64_t classes, int64_t ignored, int64_t* counted) {
  *counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t label = labels[r];
    if (label == ignored) continue;
    if (label < 0 || label >= classes) {
      return absl::InvalidArgumentError(absl::StrCat("labels: row ", r, ": expected a class in [0, ", classes,
                                                     ") or the ignored ", ignored, ", found ", label,
                                                     ignored == kLeftOutOfFiles ? HintOfPlace(classes) : ""));
    }
    ++*counted;
  }
  return absl::OkStatus();
}

// The index_bound of ops whose input 0 is [..., classes] and whose input 1 holds labels.
inline int64_t LabelBound(const NodeTypes& types, int input) {
  const Shape& logits = types.input(0).shape;
  return input == 1 && logits.rank() > 0 ? logits[logits.rank() - 1] : 0;
}

}  // namespace snug::core
