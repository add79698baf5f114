#include "engine/train/data/images/orientation.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace snug::core {
namespace {

using Bytes = absl::Span<const uint8_t>;

bool BeginsWith(Bytes bytes, absl::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// Whole numbers at places of `bytes`. What lies outside is 0, which is no number of anything that is looked for.
struct Numbers {
  Bytes bytes;
  bool least_first;

  uint64_t At(uint64_t place, uint64_t size) const {
    if (place > bytes.size() || size > bytes.size() - place) return 0;
    uint64_t number = 0;
    for (uint64_t i = 0; i < size; ++i) {
      number = number << 8 | bytes[static_cast<size_t>(place + (least_first ? size - 1 - i : i))];
    }
    return number;
  }
};

}  // namespace

// Exif data are a TIFF file: a table of 12 bytes for each entry, of which that of the orientation holds its number.
Orientation OrientationInExif(Bytes exif) {
  constexpr uint64_t kOrientationTag = 0x0112, kShort = 3, kLong = 4, kEntryBytes = 12;
  const bool least_first = BeginsWith(exif, absl::string_view("II*\0", 4));
  if (!least_first && !BeginsWith(exif, absl::string_view("MM\0*", 4))) return kUpright;
  const Numbers numbers{exif, least_first};
  const uint64_t table = numbers.At(4, 4), entries = numbers.At(table, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = table + 2 + i * kEntryBytes;
    if (entry + kEntryBytes > exif.size()) return kUpright;
    if (numbers.At(entry, 2) != kOrientationTag) continue;
    const uint64_t type = numbers.At(entry + 2, 2), count = numbers.At(entry + 4, 4);
    if ((type != kShort && type != kLong) || count != 1) return kUpright;
    const uint64_t said = numbers.At(entry + 8, type == kShort ? 2 : 4);
    return said >= 1 && said <= 8 ? static_cast<Orientation>(said) : kUpright;
  }
  return kUpright;
}

// A JPEG file is segments before its picture begins: 0xFF, a kind, and mostly a length, in which its own two bytes
// count.
Orientation JpegOrientation(Bytes file) {
  constexpr uint8_t kPicture = 0xDA, kEnd = 0xD9, kApplication1 = 0xE1, kFirstAlone = 0xD0, kLastAlone = 0xD8;
  const absl::string_view exif("Exif\0\0", 6);
  const Numbers numbers{file, /*least_first=*/false};
  for (size_t at = 2; at + 4 <= file.size();) {
    // As the decoder does, what is between segments is passed over.
    if (file[at] != 0xFF || file[at + 1] == 0xFF || file[at + 1] == 0) {
      ++at;
      continue;
    }
    const uint8_t kind = file[at + 1];
    if (kind == kPicture || kind == kEnd) return kUpright;
    at += 2;
    if (kind == 1 || (kind >= kFirstAlone && kind <= kLastAlone)) continue;
    const auto length = static_cast<size_t>(numbers.At(at, 2));
    if (length < 2 || length > file.size() - at) return kUpright;
    const Bytes content = file.subspan(at + 2, length - 2);
    if (kind == kApplication1 && BeginsWith(content, exif)) return OrientationInExif(content.subspan(exif.size()));
    at += length;
  }
  return kUpright;
}

// A PNG file is chunks behind its first 8 bytes: a length, a name of 4 bytes, so many bytes, and their checksum.
Orientation PngOrientation(Bytes file) {
  constexpr size_t kAround = 12, kLongest = 0x7FFF'FFFF;
  const Numbers numbers{file, /*least_first=*/false};
  for (size_t at = 8; at + kAround <= file.size();) {
    const auto length = static_cast<size_t>(numbers.At(at, 4));
    if (length > kLongest || length > file.size() - at - kAround) return kUpright;
    const Bytes named = file.subspan(at + 4, length + 4);
    if (BeginsWith(named, "eXIf")) {
      // What is not whole does not count, as for the decoder.
      const auto sum = static_cast<uint64_t>(crc32(0, named.data(), static_cast<uInt>(named.size())));
      return sum == numbers.At(at + 8 + length, 4) ? OrientationInExif(named.subspan(4)) : kUpright;
    }
    at += length + kAround;
  }
  return kUpright;
}

Pixels TurnedUpright(Pixels pixels, Orientation orientation) {
  if (orientation == kUpright) return pixels;
  const int64_t channels = pixels.channels, width = pixels.width, height = pixels.height;
  // Whether the first pixel of the turned picture is in the last column, and in the last row, of what is there.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Pixels turned{.width = width, .height = height, .channels = channels};
  if (SwapsSides(orientation)) std::swap(turned.width, turned.height);
  turned.bytes.resize(pixels.bytes.size());
  uint8_t* to = turned.bytes.data();
  for (int64_t y = 0; y < turned.height; ++y) {
    for (int64_t x = 0; x < turned.width; ++x, to += channels) {
      const int64_t column = SwapsSides(orientation) ? y : x, row = SwapsSides(orientation) ? x : y;
      const uint8_t* const from = pixels.view().row(from_bottom ? height - 1 - row : row) +
                                  (from_right ? width - 1 - column : column) * channels;
      std::copy_n(from, channels, to);
    }
  }
  return turned;
}

}  // namespace snug::core
