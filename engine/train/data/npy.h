// Arrays saved by NumPy: each file is a field, its first axis counts samples.
//
//   OpenNpy({{.name = "image", .path = "x.npy"}, {.name = "label", .path = "y.npy", .label = true, .max_value = 10}})
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/data/dataset.h"

namespace snug {

struct NpyField {
  std::string name, path;
  // What the numbers become: float32, float64, int32, int64 or uint8. Absent: float32 for floats, and for unsigned
  // bytes of at least two axes a sample, which are pixels and divided by 255; int32 for other integers and bools.
  std::optional<DType> dtype;
  bool label = false;     // padded with kIgnoredLabel, which is also allowed in the file
  int64_t max_value = 0;  // integers lie in [0, max_value); 0: anywhere
};

// Numbers are checked as they are read: NaN and infinity, and integers beyond their bounds, are errors.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenNpy(const std::vector<NpyField>& fields);

}  // namespace snug
