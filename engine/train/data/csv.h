// Tables of numbers as CSV: one column is the label, the others are the features, in their sequence. Read whole.
// Fields: features float32[columns - 1], label int32 (a class), or float32 for regression.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/train/data/dataset.h"

namespace snug {

struct CsvOptions {
  std::optional<bool> header;  // absent: the first line is one if a field of it is no number
  std::string label;           // the column's name, or its number from 0, -1 is the last; "": the last
  bool regression = false;     // labels are any numbers
  int64_t classes = 0;         // labels lie in [0, classes); 0: as many as the largest label says
  char separator = ',';
};

absl::StatusOr<std::shared_ptr<const Dataset>> OpenCsv(const std::string& path, const CsvOptions& options);

}  // namespace snug
