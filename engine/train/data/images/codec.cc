#include "engine/train/data/images/codec.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <array>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/data/images/orientation.h"

namespace snug::core {
namespace {

// Larger images are taken for an attack or an accident: their pixels would not fit into memory beside a training.
constexpr int64_t kMaxPixels = int64_t{1} << 28;

struct OtherFormat {
  absl::string_view begins, name;
};
// What people call images and this does not read.
constexpr OtherFormat kOthers[] = {{"GIF8", "GIF"},  {"BM", "BMP"},   {"II*", "TIFF"}, {"MM", "TIFF"},
                                   {"RIFF", "WebP"}, {"<svg", "SVG"}, {"<?xml", "XML"}};

std::array<ImageCodec, 2> Codecs() { return {JpegCodec(), PngCodec()}; }

std::string WhatItIs(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) return "an empty file";
  for (const OtherFormat& other : kOthers) {
    if (absl::StartsWith(text, other.begins)) return absl::StrCat("what begins like ", other.name);
  }
  return "neither";
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

}  // namespace

absl::StatusOr<ImageFile> ImageFile::Open(const std::string& path) {
  ImageFile image;
  SNUG_ASSIGN_OR_RETURN(image.file_, FileBytes::Open(path));
  const absl::Span<const uint8_t> bytes = image.file_->bytes();
  for (const ImageCodec& codec : Codecs()) {
    if (!codec.matches(bytes)) continue;
    image.codec_ = codec;
    const absl::StatusOr<ImageCodec::Size> size = codec.size(bytes);
    if (!size.ok()) return WithPath(size.status(), path);
    image.size_ = *size;
    if (size->width < 1 || size->height < 1 || size->height > kMaxPixels / size->width) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": expected an image of 1 to ", kMaxPixels,
                                                     " pixels, found ", size->width, " x ", size->height));
    }
    image.orientation_ = codec.orientation(bytes);
    if (SwapsSides(image.orientation_)) std::swap(image.size_.width, image.size_.height);
    return image;
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected a JPEG or PNG file, found ", WhatItIs(bytes)));
}

absl::StatusOr<Pixels> ImageFile::Decode(int64_t channels, int reduction) const {
  absl::StatusOr<Pixels> pixels = codec_.decode(file_->bytes(), channels, reduction);
  if (!pixels.ok()) return WithPath(pixels.status(), file_->path());
  return TurnedUpright(*std::move(pixels), orientation_);
}

}  // namespace snug::core
