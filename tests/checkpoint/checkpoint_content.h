// Tensors whose bytes follow from the step, so that a test can tell whether a checkpoint is what was saved.
#pragma once

#include <string>
#include <vector>

#include "engine/base/random.h"
#include "engine/train/checkpoint/safetensors.h"
#include "engine/train/checkpoint/store.h"

namespace snug::core::checkpoint {

class ContentOfStep {
 public:
  explicit ContentOfStep(int64_t step, size_t elements = 40) : floats_(elements), counter_(step) {
    for (size_t i = 0; i < elements; ++i) {
      floats_[i] = ToUniform(static_cast<uint32_t>(MixKeys(static_cast<uint64_t>(step), i)));
    }
  }

  std::vector<TensorBytes> tensors() const {
    return {{.name = "weight",
             .type = ElementType::kF32,
             .shape = {static_cast<int64_t>(floats_.size())},
             .bytes = {reinterpret_cast<const std::byte*>(floats_.data()), floats_.size() * sizeof(float)}},
            {.name = "counter",
             .type = ElementType::kI64,
             .shape = {},
             .bytes = {reinterpret_cast<const std::byte*>(&counter_), sizeof(counter_)}}};
  }
  Metadata metadata() const { return {{"epoch", std::to_string(counter_ / 10)}}; }

  // Whether the file holds it, and nothing else. No use of checksums here.
  bool IsIn(FileSystem& files, const std::string& path) const {
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(files, path);
    if (!file.ok() || file->header().tensors.size() != 2) return false;
    if (file->header().metadata.at("epoch") != metadata().at("epoch")) return false;
    for (const TensorBytes& tensor : tensors()) {
      const TensorEntry* const found = file->Find(tensor.name);
      if (found == nullptr || found->type != tensor.type || found->shape != tensor.shape) return false;
      std::vector<std::byte> bytes(tensor.bytes.size());
      if (!file->Read(*found, absl::MakeSpan(bytes)).ok()) return false;
      if (absl::MakeConstSpan(bytes) != tensor.bytes) return false;
    }
    return true;
  }

 private:
  std::vector<float> floats_;
  int64_t counter_;
};

inline absl::Span<const std::byte> Bytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline constexpr StoreOptions kKeepTwo{.keep_last = 2};

inline absl::Status SaveStep(CheckpointStore& store, int64_t step) {
  const ContentOfStep content(step);
  return store.Save(step, content.tensors(), content.metadata()).status();
}

}  // namespace snug::core::checkpoint
