// Image files as pixels. A format is a row of Codecs() and a file of its own.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/data/file_bytes.h"

namespace snug::core {

// Rows from the top, in each the pixels from the left, in each its channels.
struct PixelView {
  int64_t width = 0, height = 0, channels = 0;
  const uint8_t* bytes = nullptr;

  const uint8_t* row(int64_t y) const { return bytes + y * width * channels; }
};

struct Pixels {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> bytes;

  PixelView view() const { return {width, height, channels, bytes.data()}; }
};

struct ImageCodec {
  absl::string_view name;

  // Whether a file that begins with these bytes is of this format.
  bool (*matches)(absl::Span<const uint8_t> bytes);

  // Reads how large the image is. The message of an error says what is wrong, without the file's name.
  struct Size {
    int64_t width = 0, height = 0;
  };
  absl::StatusOr<Size> (*size)(absl::Span<const uint8_t> bytes);

  // Decodes to `channels`, 1 (grey) or 3 (colour), whatever the file has. Of 1/`reduction` of its size (1, 2, 4 or 8,
  // rounded up) where the format has a short way to that, of its whole size elsewhere.
  absl::StatusOr<Pixels> (*decode)(absl::Span<const uint8_t> bytes, int64_t channels, int reduction);

  // How the camera was held (orientation.h). Sizes and pixels above are as they are stored.
  int (*orientation)(absl::Span<const uint8_t> bytes);
};

ImageCodec JpegCodec();
ImageCodec PngCodec();

// An image in a file: opened, told by its content and measured, not yet decoded. Sizes and pixels are upright, however
// the camera was held that made it.
class ImageFile {
 public:
  static absl::StatusOr<ImageFile> Open(const std::string& path);

  int64_t width() const { return size_.width; }
  int64_t height() const { return size_.height; }

  // As ImageCodec::decode; errors begin with the path.
  absl::StatusOr<Pixels> Decode(int64_t channels, int reduction = 1) const;

 private:
  std::shared_ptr<const FileBytes> file_;
  ImageCodec codec_{};
  ImageCodec::Size size_;
  int orientation_ = 1;
};

}  // namespace snug::core
