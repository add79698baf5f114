#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;

std::string Record(const std::string& labels, char pixel) {
  std::string record = labels + std::string(3072, pixel);
  record[labels.size()] = '\xff';
  return record;
}

class CifarTest : public FileTest {};

TEST_F(CifarTest, SeveralFilesAreOneDataset) {
  const std::string a = Write("a.bin", Record("\x03", '\x33') + Record("\x09", '\x66'));
  const std::string b = Write("b.bin", Record("\x01", '\x99'));
  const auto dataset = OpenCifar10({a, b});
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ASSERT_EQ((*dataset)->size(), 3);
  EXPECT_EQ((*dataset)->fields()[0].type.ToString(), "float32[3, 32, 32]");
  const std::vector<int32_t> labels = {3, 9, 1};
  const std::vector<float> pixels = {0.2F, 0.4F, 0.6F};
  for (int64_t i = 0; i < 3; ++i) {
    const Sample sample(**dataset, i);
    EXPECT_THAT(sample.Field<int32_t>(1), ElementsAre(labels[static_cast<size_t>(i)]));
    EXPECT_EQ(sample.Field<float>(0).front(), 1);
    EXPECT_EQ(sample.Field<float>(0).back(), pixels[static_cast<size_t>(i)]);
  }
}

TEST_F(CifarTest, AHundredClassesHaveCoarseLabelsToo) {
  const auto dataset = OpenCifar100({Write("train.bin", Record("\x13\x63", '\x33'))});
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  const Sample sample(**dataset, 0);
  EXPECT_EQ((*dataset)->fields()[1].name, "label");
  EXPECT_THAT(sample.Field<int32_t>(1), ElementsAre(99));
  EXPECT_EQ((*dataset)->fields()[2].name, "coarse_label");
  EXPECT_THAT(sample.Field<int32_t>(2), ElementsAre(19));
  EXPECT_EQ(sample.Field<float>(0).front(), 1);
}

TEST_F(CifarTest, ClassesHaveTheNamesOfTheFilesBesideTheRecords) {
  const std::string records = Write("train.bin", Record("\x13\x63", '\x33'));
  const std::string folder = records.substr(0, records.rfind('/'));
  std::string fine;
  for (int i = 0; i < 100; ++i) fine += "kind " + std::to_string(i) + "\r\n";
  Write("fine_label_names.txt", fine + "\n");
  const auto dataset = OpenCifar100({records}, folder);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  ASSERT_EQ((*dataset)->fields()[1].classes.size(), 100u);
  EXPECT_EQ((*dataset)->fields()[1].classes[99], "kind 99");
  EXPECT_TRUE((*dataset)->fields()[2].classes.empty());  // there is no file of them
  Write("batches.meta.txt", "airplane\nautomobile\n");
  EXPECT_EQ(ErrorOf(OpenCifar10({Write("a.bin", Record("\x03", '\x33'))}, folder)),
            "batches.meta.txt: byte 0: expected the names of 10 classes, a line each, found 2");
}

TEST_F(CifarTest, Errors) {
  const std::string good = Record("\x03", '\x33');
  EXPECT_EQ(ErrorOf(OpenCifar10({})), "CIFAR-10: expected a file, found none");
  EXPECT_EQ(ErrorOf(OpenCifar10({Write("a.bin", "")})),
            "a.bin: byte 0: expected CIFAR-10 records of 3073 bytes, found 0 bytes");
  EXPECT_EQ(ErrorOf(OpenCifar10({Write("a.bin", good + "xyz")})),
            "a.bin: byte 3073: expected CIFAR-10 records of 3073 bytes, found 3 bytes");
  EXPECT_EQ(ErrorOf(OpenCifar10({Write("a.bin", Record("\x01\x02", 'a'))})),
            "a.bin: byte 3073: expected CIFAR-10 records of 3073 bytes, found 1 bytes: it looks like CIFAR-100");
  EXPECT_EQ(ErrorOf(OpenCifar100({Write("a.bin", good)})),
            "a.bin: byte 0: expected CIFAR-100 records of 3074 bytes, found 3073 bytes: it looks like CIFAR-10");
  EXPECT_EQ(ErrorOf(OpenCifar10({Write("a.bin", good), Write("b.bin", good + Record("\x0a", 'a'))})),
            "b.bin: byte 3073: label of record 1: expected 0 to 9, found 10");
  EXPECT_EQ(ErrorOf(OpenCifar100({Write("a.bin", Record("\x14\x01", 'a'))})),
            "a.bin: byte 0: coarse_label of record 0: expected 0 to 19, found 20");
  EXPECT_EQ(ErrorOf(OpenCifar100({Write("a.bin", Record("\x13\x64", 'a'))})),
            "a.bin: byte 1: label of record 0: expected 0 to 99, found 100");
}

}  // namespace
}  // namespace snug::core
