// Reads arrays saved by NumPy. Each file is a field, and its first axis counts samples.
//
//   OpenNpy({{.name = "image", .path = "x.npy"}, {.name = "label", .path = "y.npy", .label = true, .max_value = 10}})
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug::core {

struct NpyField {
  std::string name, path;
  // The type of the field: float32, float64, int32, int64 or uint8. When it is absent, floats become float32, and other
  // integers and bools int32. Unsigned bytes with at least two axes for each sample are pixels: they are divided by 255
  // and become float32.
  std::optional<DType> dtype;
  bool label = false;     // is padded with kIgnoredLabel, which the file may contain too
  int64_t max_value = 0;  // integers lie in [0, max_value); 0: no bound
};

// Numbers are checked when they are read: NaN, infinity, and integers beyond their bounds are errors.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenNpy(const std::vector<NpyField>& fields);

}  // namespace snug::core
