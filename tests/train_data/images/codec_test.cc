#include "engine/train/data/images/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/train_data/image_files.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

#if !SNUG_HAS_JPEG || !SNUG_HAS_PNG
constexpr bool kHasLibraries = false;
#else
constexpr bool kHasLibraries = true;
#endif

class ImageCodecTest : public FileTest {
 protected:
  void SetUp() override {
    if (!kHasLibraries) GTEST_SKIP() << "SKIPPED: a build without libjpeg-turbo or libpng";
  }
  absl::StatusOr<Pixels> Decoded(const std::string& name, const std::string& bytes, int64_t channels = 3,
                                 int reduction = 1) const {
    absl::StatusOr<ImageFile> file = ImageFile::Open(Write(name, bytes));
    if (!file.ok()) return file.status();
    return file->Decode(channels, reduction);
  }
};

std::string Deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                     static_cast<uLong>(bytes.size())),
            Z_OK);
  packed.resize(size);
  return packed;
}

// A file of two pixels beside each other, as other programs write them: `kind` is PNG's type of colour, `row` the
// samples, `before` and `behind` are other chunks around those.
std::string TwoPixels(char depth, char kind, const std::string& row, const std::string& before = "",
                      const std::string& behind = "") {
  const std::string header = BigEndian32(2) + BigEndian32(1) + depth + kind + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + PngChunk("IHDR", header) + before +
         PngChunk("IDAT", Deflated(std::string(1, '\0') + row)) + behind + PngChunk("IEND", "");
}

// Smooth, so that JPEG loses little of it.
Pixels Ramp(int64_t width, int64_t height, int64_t channels) {
  return Painted(width, height, channels, [&](int64_t x, int64_t y, int64_t c) {
    return static_cast<int>(c == 0 ? 255 * x / width : c == 1 ? 255 * y / height : 128);
  });
}

void ExpectNear(const Pixels& found, const Pixels& wanted, int tolerance) {
  ASSERT_EQ(found.width, wanted.width);
  ASSERT_EQ(found.height, wanted.height);
  ASSERT_EQ(found.channels, wanted.channels);
  for (size_t i = 0; i < wanted.bytes.size(); ++i) {
    ASSERT_LE(std::abs(int{found.bytes[i]} - int{wanted.bytes[i]}), tolerance) << "byte " << i;
  }
}

TEST_F(ImageCodecTest, PngIsExactInColourAndGrey) {
  const Pixels colour = Ramp(37, 21, 3), grey = Ramp(37, 21, 1);
  const auto decoded = Decoded("a.png", PngOf(colour));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectNear(*decoded, colour, 0);
  const auto decoded_grey = Decoded("b.png", PngOf(grey), 1);
  ASSERT_TRUE(decoded_grey.ok()) << decoded_grey.status();
  ExpectNear(*decoded_grey, grey, 0);
}

TEST_F(ImageCodecTest, GreyFilesBecomeColoursAndTheOtherWay) {
  const Pixels grey = Ramp(16, 16, 1);
  for (const std::string& file : {PngOf(grey), JpegOf(grey)}) {
    const auto decoded = Decoded("grey", file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_EQ(decoded->channels, 3);
    for (size_t i = 0; i < grey.bytes.size(); ++i) {
      for (size_t c = 0; c < 3; ++c) ASSERT_NEAR(decoded->bytes[3 * i + c], grey.bytes[i], 2);
    }
  }
  const Pixels white = Painted(8, 8, 3, [](int64_t, int64_t, int64_t) { return 255; });
  for (const std::string& file : {PngOf(white), JpegOf(white)}) {
    const auto decoded = Decoded("white", file, 1);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->channels, 1);
    EXPECT_GE(decoded->bytes[0], 254);
  }
}

TEST_F(ImageCodecTest, JpegIsNearWhatWasEncoded) {
  const Pixels colour = Ramp(64, 48, 3);
  const auto decoded = Decoded("a.jpg", JpegOf(colour, 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectNear(*decoded, colour, 6);
}

TEST_F(ImageCodecTest, JpegComesReducedAndRoundedUp) {
  const auto decoded = Decoded("a.jpg", JpegOf(Ramp(65, 48, 3)), 3, 4);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->width, 17);
  EXPECT_EQ(decoded->height, 12);
}

TEST_F(ImageCodecTest, InksBecomeLight) {
  // No cyan, all magenta and yellow, half of the light left by black: a dark red.
  const Pixels inks = Painted(16, 16, 4, [](int64_t, int64_t, int64_t c) { return c == 0 ? 255 : c == 3 ? 128 : 0; });
  const auto decoded = Decoded("inks.jpg", JpegOf(inks, 100));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectNear(*decoded, Painted(16, 16, 3, [](int64_t, int64_t, int64_t c) { return c == 0 ? 128 : 0; }), 3);
  const auto grey = Decoded("inks.jpg", JpegOf(inks, 100), 1);
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_NEAR(grey->bytes[0], 0.299 * 128, 2);
}

TEST_F(ImageCodecTest, SixteenBitsAreRoundedToEight) {
  const Pixels white = Painted(4, 4, 3, [](int64_t x, int64_t, int64_t) { return x < 2 ? 0 : 255; });
  const auto decoded = Decoded("a.png", Png16Of(white));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectNear(*decoded, white, 0);
}

TEST_F(ImageCodecTest, SixteenBitsOfOtherProgramsMeanWhatEightDo) {
  const auto grey = Decoded("grey.png", TwoPixels(16, 0, std::string("\x80\x00\x40\x40", 4)), 1);
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_NEAR(grey->bytes[0], 0x80, 1);
  EXPECT_NEAR(grey->bytes[1], 0x40, 1);
  const std::string row("\x80\x00\x40\x40\x10\x10\x00\x00\xff\xff\x20\x20", 12);
  const auto colour = Decoded("colour.png", TwoPixels(16, 2, row));
  ASSERT_TRUE(colour.ok()) << colour.status();
  const Pixels wanted{.width = 2, .height = 1, .channels = 3, .bytes = {0x80, 0x40, 0x10, 0, 0xff, 0x20}};
  ExpectNear(*colour, wanted, 1);
}

TEST_F(ImageCodecTest, PalettesBecomeColoursAndWhatIsTransparentBlack) {
  const Pixels wanted{.width = 2, .height = 1, .channels = 3, .bytes = {200, 100, 50, 0, 0, 0}};
  const auto palette = Decoded("palette.png", TwoPixels(8, 3, std::string("\x01\x00", 2),
                                                        PngChunk("PLTE", std::string("\0\0\0\xc8\x64\x32", 6))));
  ASSERT_TRUE(palette.ok()) << palette.status();
  ExpectNear(*palette, wanted, 0);
  const auto alpha = Decoded("alpha.png", TwoPixels(8, 6, std::string("\xc8\x64\x32\xff\xc8\x64\x32\x00", 8)));
  ASSERT_TRUE(alpha.ok()) << alpha.status();
  ExpectNear(*alpha, wanted, 0);
}

TEST_F(ImageCodecTest, OfAnAnimationItsStandingPictureCounts) {
  // A frame's control: its number, width, height, place, delay, and what becomes of it. The second frame is another
  // picture.
  const auto control = [](uint32_t number) {
    return PngChunk("fcTL", BigEndian32(number) + BigEndian32(2) + BigEndian32(1) + BigEndian32(0) + BigEndian32(0) +
                                std::string("\0\1\0\1\0\0", 6));
  };
  const std::string before = PngChunk("acTL", BigEndian32(2) + BigEndian32(0)) + control(0);
  const std::string second = Deflated(std::string("\0\xff\xff\xff\xff\xff\xff", 7));
  const std::string behind = control(1) + PngChunk("fdAT", BigEndian32(2) + second);
  const std::string first("\x01\x02\x03\x04\x05\x06", 6);
  const auto decoded = Decoded("animated.png", TwoPixels(8, 2, first, before, behind));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectNear(*decoded, {.width = 2, .height = 1, .channels = 3, .bytes = {1, 2, 3, 4, 5, 6}}, 0);
  // Formats that animate and are neither JPEG nor PNG are named.
  EXPECT_THAT(ErrorOf(Decoded("a.png", std::string("RIFF\0\0\0\0WEBPVP8X", 16))),
              HasSubstr("found what begins like WebP"));
}

TEST_F(ImageCodecTest, WhatIsTruncatedIsNamed) {
  const Pixels noise = Painted(64, 64, 3, [](int64_t x, int64_t y, int64_t c) {
    return static_cast<int>((x * 7919 + y * 104729 + c * 1299709) * 2654435761 >> 8 & 255);
  });
  const std::string jpeg = JpegOf(noise), png = PngOf(noise);
  for (const size_t share : {2U, 4U}) {
    EXPECT_THAT(ErrorOf(Decoded("a.jpg", jpeg.substr(0, jpeg.size() / share))),
                HasSubstr("a.jpg: a broken JPEG file: "));
    EXPECT_THAT(ErrorOf(Decoded("a.png", png.substr(0, png.size() / share))), HasSubstr("a.png: a broken PNG file: "));
  }
  EXPECT_THAT(ErrorOf(Decoded("a.jpg", jpeg.substr(0, 20))), HasSubstr("a.jpg: a broken JPEG file: "));
  EXPECT_THAT(ErrorOf(Decoded("a.png", png.substr(0, 20))), HasSubstr("a.png: a broken PNG file: "));
}

TEST_F(ImageCodecTest, DamagedBytesNeverCrash) {
  const Pixels ramp = Ramp(32, 32, 3);
  uint32_t state = 1;
  for (const std::string& whole :
       {JpegOf(ramp), PngOf(ramp), WithExif(JpegOf(ramp), ExifOf(6)), WithExif(PngOf(ramp), ExifOf(7, false))}) {
    for (int round = 0; round < 500; ++round) {
      std::string damaged = whole;
      for (int k = 0; k < 3; ++k) {
        state = state * 1664525U + 1013904223U;
        damaged[4 + (state >> 8) % (damaged.size() - 4)] = static_cast<char>(state >> 24);
      }
      const auto decoded = Decoded("damaged", damaged);
      if (!decoded.ok()) {
        EXPECT_THAT(ErrorOf(decoded), HasSubstr("damaged: "));
      }
    }
  }
}

TEST_F(ImageCodecTest, OtherFilesAreToldByTheirBeginning) {
  EXPECT_EQ(ErrorOf(Decoded("a.jpg", "GIF89a...")), "a.jpg: expected a JPEG or PNG file, found what begins like GIF");
  EXPECT_EQ(ErrorOf(Decoded("a.jpg", "")), "a.jpg: expected a JPEG or PNG file, found an empty file");
  EXPECT_EQ(ErrorOf(Decoded("a.jpg", "hello")), "a.jpg: expected a JPEG or PNG file, found neither");
}

// The header of a picture of 60,000 x 60,000, which needs 10 GB, takes 33 bytes.
TEST_F(ImageCodecTest, HugeImagesAreRefusedBeforeMemoryIsTaken) {
  std::string png = PngOf(Ramp(8, 8, 3));
  const std::string sides = BigEndian32(60000) + BigEndian32(60000);
  png.replace(16, 8, sides);
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(png.data()) + 12, 17);
  png.replace(29, 4, BigEndian32(static_cast<uint32_t>(sum)));
  EXPECT_EQ(ErrorOf(Decoded("a.png", png)), "a.png: expected an image of 1 to 268435456 pixels, found 60000 x 60000");
  // A JPEG file's sides are behind the marker of its frame: its length, the bits of a sample, height, width.
  std::string jpeg = JpegOf(Ramp(8, 8, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xea\x60");
  EXPECT_EQ(ErrorOf(Decoded("a.jpg", jpeg)), "a.jpg: expected an image of 1 to 268435456 pixels, found 60000 x 65500");
}

}  // namespace
}  // namespace snug::core
