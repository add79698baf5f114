#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;

std::string Images(uint32_t n, uint32_t height, uint32_t width, const std::string& pixels, uint32_t magic = 0x803) {
  return BigEndian32(magic) + BigEndian32(n) + BigEndian32(height) + BigEndian32(width) + pixels;
}
std::string Labels(uint32_t n, const std::string& labels, uint32_t magic = 0x801) {
  return BigEndian32(magic) + BigEndian32(n) + labels;
}

class IdxTest : public FileTest {
 protected:
  std::string Error(const std::string& images, const std::string& labels, int64_t classes = 10) {
    return ErrorOf(OpenIdx(Write("images", images), Write("labels", labels), classes));
  }
  const std::string pixels_ = {'\0', '\x33', '\x66', '\x99', '\xcc', '\xff', '\1', '\2', '\3', '\4', '\5', '\6'};
  const std::string good_images_ = Images(2, 2, 3, pixels_);
  const std::string good_labels_ = Labels(2, "\x09\x04");
};

TEST_F(IdxTest, PixelsAndLabels) {
  const std::string images = Write("images", good_images_);
  const std::string labels = Write("labels", good_labels_);
  for (const bool gzipped : {false, true}) {
    const auto dataset = gzipped ? OpenIdx(WriteGzipped("i.gz", good_images_), WriteGzipped("l.gz", good_labels_))
                                 : OpenIdx(images, labels);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ((*dataset)->size(), 2);
    EXPECT_EQ((*dataset)->fields()[0].type.ToString(), "float32[1, 2, 3]");
    EXPECT_EQ((*dataset)->fields()[1].max_value, 10);
    const Sample first(**dataset, 0);
    EXPECT_THAT(first.Field<float>(0), ElementsAre(0.0F, 0.2F, 0.4F, 0.6F, 0.8F, 1.0F));
    EXPECT_THAT(first.Field<int32_t>(1), ElementsAre(9));
    const Sample second(**dataset, 1);
    EXPECT_EQ(second.Field<float>(0)[5], 6.0F / 255);
    EXPECT_THAT(second.Field<int32_t>(1), ElementsAre(4));
  }
}

TEST_F(IdxTest, WrongMagicNumbers) {
  EXPECT_EQ(
      Error(good_labels_ + std::string(8, '\0'), good_images_),
      "images: byte 0: expected the magic number 0x00000803, found 0x00000801 (labels: are the two files swapped?)");
  EXPECT_EQ(Error(good_images_, good_images_),
            "labels: byte 0: expected the magic number 0x00000801, found 0x00000803 (images)");
  EXPECT_EQ(
      Error(Images(2, 2, 3, pixels_, 0xd03), good_labels_),
      "images: byte 0: expected the magic number 0x00000803, found 0x00000d03 (IDX of another element type or rank)");
  EXPECT_EQ(Error("\x89PNG\r\n0123456789", good_labels_),
            "images: byte 0: expected the magic number 0x00000803, found 0x89504e47 (no IDX file)");
}

TEST_F(IdxTest, ShortFilesAndTrailingBytes) {
  EXPECT_EQ(Error("", good_labels_), "images: byte 0: the file ends here, expected an IDX header of 16 bytes");
  EXPECT_EQ(Error(good_images_.substr(0, 15), good_labels_),
            "images: byte 15: the file ends here, expected an IDX header of 16 bytes");
  EXPECT_EQ(Error(good_images_.substr(0, 27), good_labels_),
            "images: byte 27: the file ends here, expected 28 bytes (a header and 2 x 2 x 3 bytes): it was cut short, "
            "fetch it again");
  EXPECT_EQ(Error(good_images_ + "xy", good_labels_),
            "images: byte 28: expected the end of the file here (a header and 2 x 2 x 3 bytes), found 2 more bytes");
  EXPECT_EQ(Error(good_images_, good_labels_ + "x"),
            "labels: byte 10: expected the end of the file here (a header and 2 bytes), found 1 more bytes");
}

TEST_F(IdxTest, ImpossibleSizes) {
  EXPECT_EQ(Error(Images(0, 2, 3, ""), good_labels_),
            "images: byte 4: dimension 0 of shape [0, 2, 3]: expected at least 1");
  EXPECT_EQ(
      Error(Images(0xffffffff, 0xffffffff, 0xffffffff, ""), good_labels_),
      "images: byte 4: shape [4294967295, 4294967295, 4294967295] has too many elements: at most 2^46 are allowed");
}

TEST_F(IdxTest, LabelsThatDoNotFit) {
  EXPECT_EQ(Error(good_images_, Labels(3, "\1\2\3")),
            "labels: byte 4: expected as many labels as images has images, 2, found 3");
  EXPECT_EQ(Error(good_images_, Labels(2, "\x01\x0a")), "labels: byte 9: label of sample 1: expected 0 to 9, found 10");
  EXPECT_EQ(Error(good_images_, Labels(2, "\x01\x0a"), 11), "");
}

TEST_F(IdxTest, FilesThatCannotBeOpened) {
  EXPECT_EQ(ErrorOf(OpenIdx(PathOf("none"), PathOf("none"))), "none: cannot be opened: No such file or directory");
  EXPECT_EQ(ErrorOf(OpenIdx(PathOf("."), PathOf("none"))), ".: expected a file, found a directory");
}

TEST_F(IdxTest, DamagedGzip) {
  const std::string path = WriteGzipped("images.gz", good_images_ + std::string(5000, 'a') + good_labels_);
  std::ifstream in(path, std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(in)), {});
  const std::string labels = Write("labels", good_labels_);
  const auto error = [&](const std::string& bytes) { return ErrorOf(OpenIdx(Write("images.gz", bytes), labels)); };
  EXPECT_EQ(error(packed.substr(0, 20)),
            "images.gz: byte 20: the gzipped data end in the middle: the file was cut short");
  EXPECT_EQ(error(packed + "more"), "images.gz: byte " + std::to_string(packed.size()) +
                                        ": expected the end of the file after the gzipped data, found more");
  std::string damaged = packed;
  damaged[10] = '\xff';
  EXPECT_EQ(error(damaged), "images.gz: byte 11: the gzipped data are damaged (invalid block type)");
  std::string checksum = packed;
  checksum[packed.size() - 5] ^= 1;
  EXPECT_THAT(error(checksum), testing::HasSubstr("the gzipped data are damaged (incorrect data check)"));
}

TEST_F(IdxTest, GzipFilesBehindEachOther) {
  const std::string first = WriteGzipped("a.gz", good_images_.substr(0, 9));
  const std::string second = WriteGzipped("b.gz", good_images_.substr(9));
  std::string both;
  for (const std::string& path : {first, second}) {
    std::ifstream in(path, std::ios::binary);
    both.append((std::istreambuf_iterator<char>(in)), {});
  }
  EXPECT_EQ(Error(both, good_labels_), "");
}

}  // namespace
}  // namespace snug::core
