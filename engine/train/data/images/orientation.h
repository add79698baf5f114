// How a camera was held, which its files tell beside their pixels, and pixels turned upright by it.
#pragma once

#include <absl/types/span.h>

#include <cstdint>

#include "engine/train/data/images/codec.h"

namespace snug::core {

// Where a picture's first row and first column are, as Exif numbers it: 1 is upright; 2 mirrored left to right; 3
// upside down; 4 mirrored top to bottom; 5 to 8 have rows for columns: 5 mirrored along the falling diagonal, 6 to be
// turned right, 7 mirrored along the rising diagonal, 8 to be turned left.
using Orientation = int;
constexpr Orientation kUpright = 1;

inline bool SwapsSides(Orientation orientation) { return orientation > 4; }

// The orientation that Exif data tell, which begin with their order of bytes ("II" or "MM"). Upright where they tell
// none, or cannot be read.
Orientation OrientationInExif(absl::Span<const uint8_t> exif);

// The same of whole files: of a JPEG file's first segment of Exif data, and of a PNG file's chunk.
Orientation JpegOrientation(absl::Span<const uint8_t> file);
Orientation PngOrientation(absl::Span<const uint8_t> file);

Pixels TurnedUpright(Pixels pixels, Orientation orientation);

}  // namespace snug::core
