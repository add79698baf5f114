// A box of an image as a sample: drawn smaller or larger, by planes, as numbers in [0, 1].
#pragma once

#include <cstdint>
#include <vector>

#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/crop.h"

namespace snug::core {

// Each pixel of the sample is the mean of those that it covers, weighted by a triangle about its middle that is as wide
// as two pixels of the coarser grid: the bilinear filter of PIL and torchvision with antialiasing. What lies outside
// the box does not count.
// `planes` has channels x height x width floats; `scratch` is used again from call to call.
void ResizeBox(const PixelView& image, const ImageBox& box, int64_t height, int64_t width, float* planes,
               std::vector<float>* scratch);

}  // namespace snug::core
