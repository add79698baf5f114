#include "engine/train/data/images/orientation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/train_data/image_files.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

// Exif data in memory of just that size, so that a read beyond it is found by ASan.
int OrientationOf(const std::string& exif) {
  const std::vector<uint8_t> bytes(exif.begin(), exif.end());
  return OrientationInExif(bytes);
}

TEST(Orientation, IsReadInBothOrdersOfBytes) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool least_first : {true, false}) {
      EXPECT_EQ(OrientationOf(ExifOf(orientation, least_first)), orientation);
    }
  }
  for (const int none : {0, 9, 256, 65535}) EXPECT_EQ(OrientationOf(ExifOf(none)), 1) << none;
}

TEST(Orientation, WhatCannotBeReadIsUpright) {
  const std::string whole = ExifOf(6);
  const size_t end = whole.find("\x12\x01") + 12;  // of the entry that tells it
  for (size_t size = 0; size <= whole.size(); ++size) {
    EXPECT_EQ(OrientationOf(whole.substr(0, size)), size < end ? 1 : 6) << size;
  }
  const auto changed = [&](size_t at, const std::string& bytes) {
    std::string exif = whole;
    return OrientationOf(exif.replace(at, bytes.size(), bytes));
  };
  EXPECT_EQ(changed(0, "MM"), 1);                                // of another order than the rest
  EXPECT_EQ(changed(4, std::string("\xff\xff\xff\xff", 4)), 1);  // a table beyond the end
  EXPECT_EQ(changed(10, std::string("\x01\x00", 2)), 1);         // a table that ends before it
  EXPECT_EQ(changed(10, std::string("\xff\xff", 2)), 6);         // one that is longer than the file
  EXPECT_EQ(changed(end - 10, std::string("\x02", 1)), 1);       // a text
  EXPECT_EQ(changed(end - 8, std::string("\x02", 1)), 1);        // two numbers
  EXPECT_EQ(changed(end - 10, std::string("\x04", 1)), 6);       // a number of 32 bits
}

TEST(Orientation, AnyBytesHaveOne) {
  uint32_t state = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string exif = ExifOf(1 + round % 8, round % 2 == 0);
    for (int k = 0; k < 4; ++k) {
      state = state * 1664525U + 1013904223U;
      exif[2 + (state >> 8) % (exif.size() - 2)] = static_cast<char>(state >> 24);
    }
    const int found = OrientationOf(exif);
    ASSERT_TRUE(found >= 1 && found <= 8) << found;
  }
}

// The quarters of a picture: red, green, and below them blue, white.
Pixels Quarters() {
  constexpr uint8_t kColours[2][2][3] = {{{255, 0, 0}, {0, 255, 0}}, {{0, 0, 255}, {255, 255, 255}}};
  return Painted(48, 32, 3, [&](int64_t x, int64_t y, int64_t c) { return kColours[y / 16][x / 24][c]; });
}

// The letters of the quarters' colours, by rows.
std::string LettersOf(const Pixels& pixels) {
  std::string letters;
  for (const int64_t y : {pixels.height / 4, pixels.height * 3 / 4}) {
    for (const int64_t x : {pixels.width / 4, pixels.width * 3 / 4}) {
      const uint8_t* const colour = pixels.view().row(y) + x * 3;
      letters += colour[0] > 127 ? (colour[1] > 127 ? 'W' : 'R') : colour[1] > 127 ? 'G' : 'B';
    }
  }
  return letters;
}

// As the standard says where the first row and the first column are to be seen.
constexpr const char* kLetters[] = {"RGBW", "GRWB", "WBGR", "BWRG", "RBGW", "BRWG", "WGBR", "GWRB"};

TEST(Orientation, TurnsPixelsAsExifSays) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Pixels turned = TurnedUpright(Quarters(), orientation);
    EXPECT_EQ(LettersOf(turned), kLetters[orientation - 1]) << orientation;
    EXPECT_EQ(turned.width, orientation > 4 ? 32 : 48);
    EXPECT_EQ(turned.height, orientation > 4 ? 48 : 32);
  }
}

class TurnedFileTest : public FileTest {
 protected:
  void SetUp() override {
#if !SNUG_HAS_JPEG || !SNUG_HAS_PNG
    GTEST_SKIP() << "SKIPPED: a build without libjpeg-turbo or libpng";
#endif
  }
};

TEST_F(TurnedFileTest, FilesOfEitherFormatAreUpright) {
  for (const std::string& file : {JpegOf(Quarters()), PngOf(Quarters())}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const auto image = ImageFile::Open(Write("image", WithExif(file, ExifOf(orientation, orientation % 2 == 0))));
      ASSERT_TRUE(image.ok()) << image.status();
      for (const int reduction : {1, 2}) {
        const auto pixels = image->Decode(3, reduction);
        ASSERT_TRUE(pixels.ok()) << pixels.status();
        EXPECT_EQ(LettersOf(*pixels), kLetters[orientation - 1]) << orientation;
        EXPECT_EQ(pixels->width * image->height(), pixels->height * image->width());
        EXPECT_EQ(pixels->width == image->width(), reduction == 1 || file[0] != '\xff') << orientation;
      }
    }
  }
}

// A camera writes other segments before, as JFIF's; a program may write notes into the same kind of segment.
TEST_F(TurnedFileTest, ExifIsFoundBehindOtherSegments) {
  const std::string note = "\xff\xe1" + std::string("\x00\x08http:/", 8);
  const std::string jpeg = WithExif(JpegOf(Quarters()), ExifOf(6));
  const std::string file = jpeg.substr(0, 2) + note + "\xff" + jpeg.substr(2);  // and a byte to fill up
  const auto image = ImageFile::Open(Write("image", file));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width(), 32);
  // What looks like it within the picture is not.
  const std::string behind = JpegOf(Quarters()) + WithExif(JpegOf(Quarters()), ExifOf(6)).substr(2);
  const auto upright = ImageFile::Open(Write("image", behind));
  ASSERT_TRUE(upright.ok()) << upright.status();
  EXPECT_EQ(upright->width(), 48);
}

TEST_F(TurnedFileTest, AChunkWithAWrongChecksumDoesNotCount) {
  std::string file = WithExif(PngOf(Quarters()), ExifOf(6));
  file[33 + 8 + ExifOf(6).size()] ^= 1;
  const auto image = ImageFile::Open(Write("image", file));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width(), 48);
}

}  // namespace
}  // namespace snug::core
