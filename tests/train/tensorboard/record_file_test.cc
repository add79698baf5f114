// What TensorBoard's own reader makes of whole files: tests/cli/tensorboard_test.py.
#include "engine/train/tensorboard/record_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::tensorboard {
namespace {

TEST(Crc32c, HasTheValuesOfRfc3720) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending, descending;
  for (char i = 0; i < 32; ++i) {
    ascending.push_back(i);
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(descending), 0x113FDB5Cu);
}

TEST(Crc32c, IsMaskedByARotationAndASum) {
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8u);
  EXPECT_EQ(MaskedCrc32c("123456789"), (0xE3069283u >> 15 | 0xE3069283u << 17) + 0xA282EAD8u);
}

TEST(RecordFile, FramesARecordWithItsLengthAndTwoChecksums) {
  const std::string framed = FramedRecord("abc");
  ASSERT_EQ(framed.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(framed.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(framed.substr(12, 3), "abc");
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(framed[at + i])) << 8 * i;
    return value;
  };
  EXPECT_EQ(number(8), MaskedCrc32c(framed.substr(0, 8)));
  EXPECT_EQ(number(15), MaskedCrc32c("abc"));
}

TEST(RecordFile, ARecordIsThereBeforeTheFileIsClosed) {
  const checkpoint::TemporaryFolder folder;
  const auto file = RecordFile::Create(folder.path("events"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const char* record : {"one", ""}) ASSERT_TRUE((*file)->Write(record).ok());
  std::stringstream content;
  content << std::ifstream(folder.path("events"), std::ios::binary).rdbuf();
  EXPECT_EQ(content.str(), FramedRecord("one") + FramedRecord(""));
  EXPECT_FALSE(RecordFile::Create(folder.path("events")).ok());  // what is there is never written over
}

}  // namespace
}  // namespace snug::core::tensorboard
