// libFuzzer: whatever the bytes, they are a picture whose pixels are upright and as many as its size says, or an error
// that says why not.
//
//   build/fuzz/tests/fuzz/image_fuzzer -dict=tests/fuzz/image.dict NEW_CORPUS
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/data/images/codec.h"
#include "engine/train/data/images/orientation.h"

namespace {

using snug::core::ImageCodec;
using snug::core::Pixels;

constexpr int64_t kMaxPixels = 1 << 20;  // little makes much here

void Decode(const ImageCodec& codec, absl::Span<const uint8_t> bytes) {
  const auto size = codec.size(bytes);
  if (!size.ok()) {
    SNUG_CHECK(!size.status().message().empty());
    return;
  }
  if (size->width < 1 || size->height < 1 || size->height > kMaxPixels / size->width) return;
  const int orientation = codec.orientation(bytes);
  SNUG_CHECK(orientation >= 1 && orientation <= 8);
  for (const int64_t channels : {1, 3}) {
    auto stored = codec.decode(bytes, channels, /*reduction=*/channels == 1 ? 2 : 1);
    if (!stored.ok()) continue;
    const int64_t across = stored->width, down = stored->height;
    const Pixels upright = snug::core::TurnedUpright(*std::move(stored), orientation);
    const bool swapped = snug::core::SwapsSides(orientation);
    SNUG_CHECK(upright.width == (swapped ? down : across) && upright.height == (swapped ? across : down));
    SNUG_CHECK(static_cast<int64_t>(upright.bytes.size()) == across * down * channels);
  }
}

}  // namespace

// The whole as a file; and as Exif data alone, which a PNG file's checksum would hide from most mutations.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Span<const uint8_t> bytes(data, size);
  (void)snug::core::OrientationInExif(bytes);
  for (const ImageCodec& codec : {snug::core::JpegCodec(), snug::core::PngCodec()}) {
    if (codec.matches(bytes)) Decode(codec, bytes);
  }
  return 0;
}
