// Which part of an image a sample shows.
#pragma once

#include <cstdint>

#include "engine/base/random.h"

namespace snug::core {

struct ImageBox {
  double left = 0, top = 0, width = 0, height = 0;  // in pixels
};

// What is drawn at random: a part of `least_area` to all of the image's area, its sides at most 4 : 3 longer or shorter
// than the sample's. As torchvision's RandomResizedCrop: ten draws, and the middle where none of them fits.
ImageBox RandomBox(int64_t width, int64_t height, double least_area, double aspect, const Philox& random,
                   uint64_t epoch, uint64_t sample);

// The middle of the image, of the sample's aspect (width / height), 7/8 as large as it could be: what is judged.
ImageBox MiddleBox(int64_t width, int64_t height, double aspect);

}  // namespace snug::core
