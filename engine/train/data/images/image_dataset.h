// Image files as a Dataset.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

#include "engine/train/data/dataset.h"
#include "engine/train/data/images/image_cache.h"
#include "engine/train/data/images/image_list.h"

namespace snug::core {

struct ImageDatasetOptions {
  int64_t channels = 3, height = 0, width = 0;  // of a sample; 1 channel is grey, 3 are colours
  // How a sample is cut out: at random, anew in each epoch, or (for evaluation) from the middle.
  bool random = false;
  double least_area = 0.08;  // of a random part, as a share of the image
  double jitter = 0;         // of the colours of a random part: JitterColours()
  double hue = 0;            // the same
  uint64_t seed = 0;
  // The images of the list, decoded and smaller: where it is given, samples are cut out of these.
  std::shared_ptr<const ImageCache> cache = nullptr;
};

// Whether samples can be as they are asked for.
absl::Status CheckImageSample(const ImageDatasetOptions& options);

// Fields: image float32[channels, height, width] in [0, 1], label int32, with the names of the classes. A sample's name
// is its file's path.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenImages(const ImageList& list, const ImageDatasetOptions& options);

}  // namespace snug::core
