#include "tests/train_data/image_files.h"

#include <gtest/gtest.h>

#if SNUG_HAS_JPEG
#include <turbojpeg.h>
#endif
#if SNUG_HAS_PNG
#include <png.h>
#endif

namespace snug::core {

Pixels Painted(int64_t width, int64_t height, int64_t channels,
               const std::function<int(int64_t, int64_t, int64_t)>& colour) {
  Pixels pixels{.width = width, .height = height, .channels = channels};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) pixels.bytes.push_back(static_cast<uint8_t>(colour(x, y, c)));
    }
  }
  return pixels;
}

#if SNUG_HAS_JPEG
std::string JpegOf(const Pixels& pixels, int quality) {
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): the library's type
  const int format = pixels.channels == 1 ? TJPF_GRAY : pixels.channels == 3 ? TJPF_RGB : TJPF_CMYK;
  const int sampling = pixels.channels == 1 ? TJSAMP_GRAY : TJSAMP_444;
  EXPECT_EQ(tjCompress2(handle, pixels.bytes.data(), static_cast<int>(pixels.width), 0, static_cast<int>(pixels.height),
                        format, &bytes, &size, sampling, quality, 0),
            0)
      << tjGetErrorStr2(handle);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return file;
}
#else
std::string JpegOf(const Pixels& /*pixels*/, int /*quality*/) { return ""; }
#endif

#if SNUG_HAS_PNG
namespace {

std::string Encoded(const Pixels& pixels, png_uint_32 format, const void* samples) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(pixels.width);
  image.height = static_cast<png_uint_32>(pixels.height);
  image.format = format;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, samples, 0, nullptr), 0) << image.message;
  std::string file(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, file.data(), &size, 0, samples, 0, nullptr), 0) << image.message;
  file.resize(size);
  return file;
}

}  // namespace

std::string PngOf(const Pixels& pixels) {
  return Encoded(pixels, pixels.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB, pixels.bytes.data());
}
// libpng's short way takes samples of 16 bits as linear light, and rounds back through the same curve.
std::string Png16Of(const Pixels& pixels) {
  std::vector<uint16_t> samples;
  for (const uint8_t byte : pixels.bytes) samples.push_back(static_cast<uint16_t>(byte * 257));
  return Encoded(pixels, pixels.channels == 1 ? PNG_FORMAT_LINEAR_Y : PNG_FORMAT_LINEAR_RGB, samples.data());
}
#else
std::string PngOf(const Pixels& /*pixels*/) { return ""; }
std::string Png16Of(const Pixels& /*pixels*/) { return ""; }
#endif

}  // namespace snug::core
