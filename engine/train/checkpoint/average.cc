#include "engine/train/checkpoint/average.h"

#include <absl/strings/str_cat.h>

#include <optional>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/train/checkpoint/element_type.h"

namespace snug::core::checkpoint {

absl::StatusOr<AverageOf> AverageOf::Make(
    std::vector<SafetensorsFile> files, const std::function<bool(const SafetensorsFile&, const std::string&)>& wanted) {
  if (files.empty()) return absl::InvalidArgumentError("average: expected at least one checkpoint, found none");
  AverageOf average(std::move(files));
  for (const TensorEntry& tensor : average.newest().tensors()) {
    if (!wanted(average.newest(), tensor.name)) continue;
    for (const SafetensorsFile& file : average.files_) {
      const TensorEntry* const other = file.Find(tensor.name);
      if (other != nullptr && other->type == tensor.type && other->shape == tensor.shape) continue;
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": tensor \"", tensor.name, "\": expected ",
                                                     tensor.TypeText(), " as in ", average.newest().path(), ", found ",
                                                     other == nullptr ? "none" : other->TypeText()));
    }
    average.tensors_.push_back(tensor);
  }
  return average;
}

absl::Status AverageOf::Read(const TensorEntry& tensor, int64_t offset, absl::Span<std::byte> bytes) const {
  const std::optional<DType> dtype = DTypeOf(tensor.type);
  if (!dtype.has_value() || !IsFloating(*dtype)) {
    return newest().Read(*newest().Find(tensor.name), bytes, offset);
  }
  const size_t count = bytes.size() / static_cast<size_t>(SizeOf(tensor.type));
  std::vector<double> sums(count), numbers(count);
  for (const SafetensorsFile& file : files_) {
    SNUG_RETURN_IF_ERROR(file.Read(*file.Find(tensor.name), bytes, offset));
    Convert(tensor.type, bytes, DType::kFloat64, reinterpret_cast<std::byte*>(numbers.data()));
    for (size_t i = 0; i < count; ++i) sums[i] += numbers[i];
  }
  for (double& sum : sums) sum /= static_cast<double>(files_.size());
  Convert(ElementType::kF64, {reinterpret_cast<const std::byte*>(sums.data()), count * sizeof(double)}, *dtype,
          bytes.data());
  return absl::OkStatus();
}

}  // namespace snug::core::checkpoint
