// Image files that tests write, of every kind that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/train/data/images/codec.h"

namespace snug::core {

// `colour(x, y, channel)` is 0 to 255.
Pixels Painted(int64_t width, int64_t height, int64_t channels,
               const std::function<int(int64_t, int64_t, int64_t)>& colour);

// The bytes of files. Four channels are inks, stored as Adobe's programs do: 255 is none.
std::string JpegOf(const Pixels& pixels, int quality = 95);
std::string PngOf(const Pixels& pixels);
std::string Png16Of(const Pixels& pixels);  // each sample has 16 bits: v * 257
std::string PngChunk(const std::string& kind, const std::string& data);

// Exif data that tell an orientation between other entries, in either order of bytes; and files that have such data.
std::string ExifOf(int orientation, bool least_first = true);
std::string WithExif(const std::string& file, const std::string& exif);

}  // namespace snug::core
