// The mean of several checkpoints of one training: of each element in double, rounded to the type that it is kept in.
// What is not a floating-point number is that of the newest.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/checkpoint/safetensors.h"

namespace snug::core::checkpoint {

class AverageOf {
 public:
  // The newest comes last, and says by `wanted` which tensors count. The others must have the same ones: an error names
  // the file and the tensor.
  static absl::StatusOr<AverageOf> Make(std::vector<SafetensorsFile> files,
                                        const std::function<bool(const SafetensorsFile&, const std::string&)>& wanted);

  const SafetensorsFile& newest() const { return files_.back(); }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // their places are those in newest()
  // Makes a part of the mean of one of tensors(), of whole elements. No more than such a part of each file is in
  // memory.
  absl::Status Read(const TensorEntry& tensor, int64_t offset, absl::Span<std::byte> bytes) const;

 private:
  explicit AverageOf(std::vector<SafetensorsFile> files) : files_(std::move(files)) {}

  std::vector<SafetensorsFile> files_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace snug::core::checkpoint
