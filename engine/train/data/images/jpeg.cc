// JPEG, by libjpeg-turbo.
#include <absl/strings/str_cat.h>

#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/orientation.h"

#if SNUG_HAS_JPEG
#include <turbojpeg.h>

#include <cstring>
#include <memory>
#endif

namespace snug::core {
namespace {

bool IsJpeg(absl::Span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

#if SNUG_HAS_JPEG

struct CloseHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, CloseHandle>;

// One for each thread: making one takes longer than decoding a small image.
Handle& Decompressor() {
  thread_local Handle handle;
  if (handle == nullptr) handle.reset(tjInitDecompress());
  return handle;
}

// A handle that has met an error may still be within that file: it is given up.
absl::Status BrokenJpeg(Handle& handle) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat("a broken JPEG file: ", tjGetErrorStr2(handle.get())));
  handle.reset();
  return status;
}

struct JpegHeader {
  int width = 0, height = 0, subsampling = 0, colours = 0;
};

absl::StatusOr<JpegHeader> ReadJpegHeader(absl::Span<const uint8_t> bytes) {
  JpegHeader h;
  Handle& handle = Decompressor();
  if (handle == nullptr) return absl::InternalError("libjpeg-turbo does not start");
  if (tjDecompressHeader3(handle.get(), bytes.data(),
                          static_cast<unsigned long>(bytes.size()),  // NOLINT(google-runtime-int)
                          &h.width, &h.height, &h.subsampling, &h.colours) != 0) {
    return BrokenJpeg(handle);
  }
  if (h.width == 0) return absl::InvalidArgumentError("a broken JPEG file: it ends before its size is told");
  return h;
}

absl::StatusOr<ImageCodec::Size> JpegSize(absl::Span<const uint8_t> bytes) {
  const absl::StatusOr<JpegHeader> header = ReadJpegHeader(bytes);
  if (!header.ok()) return header.status();
  return ImageCodec::Size{header->width, header->height};
}

// Files of four inks, as printers want them. Adobe's programs, which write nearly all of them, store how much light is
// left and not how much ink is there.
Pixels FromInks(const Pixels& inks, int64_t channels) {
  Pixels light{.width = inks.width, .height = inks.height, .channels = channels};
  const auto pixels = static_cast<size_t>(inks.width * inks.height);
  light.bytes.resize(pixels * static_cast<size_t>(channels));
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* ink = inks.bytes.data() + 4 * i;
    uint32_t rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = (uint32_t{ink[c]} * ink[3] + 127) / 255;
    if (channels == 3) {
      for (size_t c = 0; c < 3; ++c) light.bytes[3 * i + c] = static_cast<uint8_t>(rgb[c]);
    } else {
      // ITU-R 601's weights of red, green and blue, in 1/65536, which JPEG's own grey has too
      light.bytes[i] = static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 32768) >> 16);
    }
  }
  return light;
}

absl::StatusOr<Pixels> DecodeJpeg(absl::Span<const uint8_t> bytes, int64_t channels, int reduction) {
  const absl::StatusOr<JpegHeader> header = ReadJpegHeader(bytes);
  if (!header.ok()) return header.status();
  const bool inks = header->colours == TJCS_CMYK || header->colours == TJCS_YCCK;
  const tjscalingfactor scale = {1, reduction};
  Pixels pixels{.width = TJSCALED(header->width, scale),
                .height = TJSCALED(header->height, scale),
                .channels = inks ? 4 : channels};
  pixels.bytes.resize(static_cast<size_t>(pixels.width * pixels.height * pixels.channels));
  Handle& handle = Decompressor();
  const int format = inks ? TJPF_CMYK : channels == 3 ? TJPF_RGB : TJPF_GRAY;
  // The exact transform: the fast one's bits differ from one processor's vectors to another's.
  const int status = tjDecompress2(handle.get(), bytes.data(), static_cast<unsigned long>(bytes.size()),  // NOLINT
                                   pixels.bytes.data(), static_cast<int>(pixels.width), /*pitch=*/0,
                                   static_cast<int>(pixels.height), format, TJFLAG_ACCURATEDCT);
  if (status != 0) {
    // Bytes too many between two markers are common and harmless. Where the file ends too soon, the rest would be grey.
    const bool harmless = tjGetErrorCode(handle.get()) == TJERR_WARNING &&
                          std::strstr(tjGetErrorStr2(handle.get()), "xtraneous bytes") != nullptr;
    if (!harmless) return BrokenJpeg(handle);
  }
  return inks ? FromInks(pixels, channels) : pixels;
}

#else

absl::Status NoJpeg() {
  return absl::UnimplementedError(
      "a JPEG file, and this build of Snug has no libjpeg-turbo (Debian: libturbojpeg0-dev; then build again)");
}
absl::StatusOr<ImageCodec::Size> JpegSize(absl::Span<const uint8_t> /*bytes*/) { return NoJpeg(); }
absl::StatusOr<Pixels> DecodeJpeg(absl::Span<const uint8_t> /*bytes*/, int64_t /*channels*/, int /*reduction*/) {
  return NoJpeg();
}

#endif

}  // namespace

ImageCodec JpegCodec() {
  return {.name = "JPEG", .matches = IsJpeg, .size = JpegSize, .decode = DecodeJpeg, .orientation = JpegOrientation};
}

}  // namespace snug::core
