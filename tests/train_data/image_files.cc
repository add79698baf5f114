#include "tests/train_data/image_files.h"

#include <gtest/gtest.h>
#include <zlib.h>

#if SNUG_HAS_JPEG
#include <turbojpeg.h>
#endif
#if SNUG_HAS_PNG
#include <png.h>
#endif

#include "tests/train_data/test_files.h"

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

std::string PngChunk(const std::string& kind, const std::string& data) {
  const std::string named = kind + data;
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(named.data()), static_cast<uInt>(named.size()));
  return BigEndian32(static_cast<uint32_t>(data.size())) + named + BigEndian32(static_cast<uint32_t>(sum));
}

std::string ExifOf(int orientation, bool least_first) {
  const auto number = [&](uint32_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * (least_first ? i : size - 1 - i))));
    return bytes;
  };
  // A tag, its type (2: text, 3: a number of 16 bits, 4: of 32), how many there are, and four bytes of them.
  const auto entry = [&](uint32_t tag, uint32_t type, const std::string& value) {
    return number(tag, 2) + number(type, 2) + number(1, 4) + value + std::string(4 - value.size(), '\0');
  };
  return (least_first ? std::string("II") : std::string("MM")) + number(42, 2) + number(10, 4) + "??" + number(3, 2) +
         entry(0x010F, 2, "A") + entry(0x0112, 3, number(static_cast<uint32_t>(orientation), 2)) +
         entry(0x0131, 4, number(7, 4)) + number(0, 4);
}

std::string WithExif(const std::string& file, const std::string& exif) {
  if (file[0] != '\xff') return file.substr(0, 33) + PngChunk("eXIf", exif) + file.substr(33);  // behind its header
  const std::string content = std::string("Exif\0\0", 6) + exif;
  return file.substr(0, 2) + "\xff\xe1" + BigEndian32(static_cast<uint32_t>(content.size() + 2)).substr(2) + content +
         file.substr(2);
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
