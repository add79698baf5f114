// PNG, by libpng. Samples of 16 bits are rounded to 8, palettes become colours, what is transparent is laid on black,
// and of an animated file this is the picture that programs show that know no animations.
#include <absl/strings/str_cat.h>

#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/orientation.h"

#if SNUG_HAS_PNG
#include <png.h>
#endif

namespace snug::core {
namespace {

bool IsPng(absl::Span<const uint8_t> bytes) {
  return bytes.size() >= 4 && bytes[0] == 0x89 && bytes[1] == 'P' && bytes[2] == 'N' && bytes[3] == 'G';
}

#if SNUG_HAS_PNG

class PngReader {
 public:
  PngReader() { image_.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image_); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  png_image* image() { return &image_; }
  absl::Status Begin(absl::Span<const uint8_t> bytes) {
    return png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) != 0 ? absl::OkStatus() : Broken();
  }
  absl::Status Broken() const {
    return absl::InvalidArgumentError(absl::StrCat("a broken PNG file: ", image_.message));
  }

 private:
  png_image image_{};
};

absl::StatusOr<ImageCodec::Size> PngSize(absl::Span<const uint8_t> bytes) {
  PngReader reader;
  const absl::Status status = reader.Begin(bytes);
  if (!status.ok()) return status;
  return ImageCodec::Size{reader.image()->width, reader.image()->height};
}

absl::StatusOr<Pixels> DecodePng(absl::Span<const uint8_t> bytes, int64_t channels, int /*reduction*/) {
  PngReader reader;
  const absl::Status status = reader.Begin(bytes);
  if (!status.ok()) return status;
  png_image* image = reader.image();
  // Samples of 16 bits that come without a gamma mean what those of 8 bits do. libpng would take them for linear light.
  image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  image->format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Pixels pixels{.width = image->width, .height = image->height, .channels = channels};
  pixels.bytes.resize(PNG_IMAGE_SIZE(*image));
  const png_color black = {0, 0, 0};
  if (png_image_finish_read(image, &black, pixels.bytes.data(), /*row_stride=*/0, /*colormap=*/nullptr) == 0) {
    return reader.Broken();
  }
  return pixels;
}

#else

absl::Status NoPng() {
  return absl::UnimplementedError(
      "a PNG file, and this build of Snug has no libpng (Debian: libpng-dev; then build again)");
}
absl::StatusOr<ImageCodec::Size> PngSize(absl::Span<const uint8_t> /*bytes*/) { return NoPng(); }
absl::StatusOr<Pixels> DecodePng(absl::Span<const uint8_t> /*bytes*/, int64_t /*channels*/, int /*reduction*/) {
  return NoPng();
}

#endif

}  // namespace

ImageCodec PngCodec() {
  return {.name = "PNG", .matches = IsPng, .size = PngSize, .decode = DecodePng, .orientation = PngOrientation};
}

}  // namespace snug::core
