// Reads tables of numbers as CSV: one column is the label, the others are the features, in their sequence. The whole
// file is read at once. Fields: features float32[columns - 1], label int32 (a class), or float32 for regression.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/train/data/dataset.h"

namespace snug::core {

struct CsvOptions {
  std::optional<bool> header;  // absent: the first line is a header if one of its fields is not a number
  std::string label;           // the column's name or number, from 0; -1 or "" is the last column
  bool regression = false;     // whether labels are any numbers
  int64_t classes = 0;         // labels lie in [0, classes); 0: as the largest label says
  char separator = ',';
};

absl::StatusOr<std::shared_ptr<const Dataset>> OpenCsv(const std::string& path, const CsvOptions& options);

}  // namespace snug::core
