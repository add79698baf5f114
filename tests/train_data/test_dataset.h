// Datasets for tests of the Loader, and batches as bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/data/loader.h"

namespace snug::core {

// Sample i: an image [2, 4, 4] of i + element / 100, and the label i.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(int64_t size, int64_t broken = -1)
      : Dataset({{.name = "image", .type = {.shape = {2, 4, 4}}},
                 {.name = "label", .type = {.dtype = DType::kInt32}, .padding = kIgnoredLabel}},
                size),
        broken_(broken) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    if (sample == broken_) return absl::DataLossError("some.file: byte 12: expected 1, found 2");
    for (int i = 0; i < 32; ++i) {
      reinterpret_cast<float*>(fields[0])[i] = static_cast<float>(sample) + static_cast<float>(i) / 100;
    }
    *reinterpret_cast<int32_t*>(fields[1]) = static_cast<int32_t>(sample);
    return absl::OkStatus();
  }

 private:
  int64_t broken_;
};

inline std::unique_ptr<Loader> MakeLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  auto loader = Loader::Create(std::move(dataset), options);
  EXPECT_TRUE(loader.ok()) << loader.status().message();
  return *std::move(loader);
}

inline const Batch& NextOf(Loader& loader) {
  auto batch = loader.Next();
  EXPECT_TRUE(batch.ok()) << batch.status().message();
  return **batch;
}

inline std::vector<int32_t> LabelsOf(const Loader& loader, const Batch& batch) {
  const auto* labels = reinterpret_cast<const int32_t*>(batch.data[1]);
  return {labels, labels + loader.fields()[1].type.num_elements()};
}

inline std::string BytesOf(const Loader& loader, const Batch& batch) {
  std::string bytes;
  for (size_t f = 0; f < batch.data.size(); ++f) {
    bytes.append(reinterpret_cast<const char*>(batch.data[f]),
                 static_cast<size_t>(loader.fields()[f].type.size_bytes()));
  }
  return bytes;
}

}  // namespace snug::core
