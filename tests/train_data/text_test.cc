#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;

class TextTest : public FileTest {
 protected:
  std::shared_ptr<const Dataset> Open(const std::string& text, const TextOptions& options) {
    auto dataset = OpenText(Write("text", text), options);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return *std::move(dataset);
  }
};

TEST_F(TextTest, LabelsAreTheNextBytes) {
  const auto dataset = Open(
      "abcd\xff"
      "fg",
      {.length = 3});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(0), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(1), ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(0), ElementsAre('d', 255, 'f'));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(1), ElementsAre(255, 'f', 'g'));
  EXPECT_EQ(dataset->fields()[0].max_value, 256);
}

TEST_F(TextTest, WindowsMayOverlap) {
  const auto dataset = Open("abcdef", {.length = 3, .stride = 1});
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_THAT(Sample(*dataset, 2).Field<int32_t>(1), ElementsAre('d', 'e', 'f'));
}

TEST_F(TextTest, RowsGoOnWhereTheyEnded) {
  const auto dataset = Open("abcdefghijklm", {.length = 2, .rows = 2});  // six windows, three for each row
  ASSERT_EQ(dataset->size(), 6);
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(0), ElementsAre('a', 'b'));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(0), ElementsAre('g', 'h'));
  EXPECT_THAT(Sample(*dataset, 2).Field<int32_t>(0), ElementsAre('c', 'd'));
  EXPECT_THAT(Sample(*dataset, 5).Field<int32_t>(1), ElementsAre('l', 'm'));
  EXPECT_EQ(Open("abcdefghijklm", {.length = 2, .rows = 4})->size(), 4);
}

TEST_F(TextTest, PartsShareNoByte) {
  const auto training = Open("0123456789", {.length = 2, .to = 0.6});
  const auto held_back = Open("0123456789", {.length = 2, .from = 0.6});
  ASSERT_EQ(training->size(), 2);
  ASSERT_EQ(held_back->size(), 1);
  EXPECT_THAT(Sample(*training, 1).Field<int32_t>(1), ElementsAre('3', '4'));
  EXPECT_THAT(Sample(*held_back, 0).Field<int32_t>(0), ElementsAre('6', '7'));
  EXPECT_THAT(Sample(*held_back, 0).Field<int32_t>(1), ElementsAre('7', '8'));
}

TEST_F(TextTest, Errors) {
  const std::string path = Write("text", "abcdef");
  EXPECT_EQ(
      ErrorOf(OpenText(path, {.length = 6})),
      "text: byte 6: the text ends here, expected at least 7 bytes from byte 0 on (a window of 6 and the byte after "
      "it): use a longer text or a shorter window");
  EXPECT_EQ(ErrorOf(OpenText(path, {.length = 5})), "");
  EXPECT_EQ(ErrorOf(OpenText(path, {.length = 2, .rows = 3})),
            "text: byte 6: the text ends here after 2 windows of 2 bytes, expected at least one for each of 3 rows");
  EXPECT_EQ(ErrorOf(OpenText(path, {.rows = 0})), "text rows: expected at least 1, found 0");
  EXPECT_EQ(
      ErrorOf(OpenText(path, {.length = 3, .from = 0.5})),
      "text: byte 6: the text ends here, expected at least 4 bytes from byte 3 on (a window of 3 and the byte after "
      "it): use a longer text or a shorter window");
  EXPECT_EQ(ErrorOf(OpenText(path, {.length = 0})),
            "text windows: expected a length and a stride of at least 1, found 0 and 0");
  EXPECT_EQ(ErrorOf(OpenText(path, {.length = 2, .from = 0.5, .to = 0.5})),
            "part of a text: expected 0 <= from < to <= 1, found 0.5 to 0.5");
  EXPECT_EQ(
      ErrorOf(OpenText(Write("empty", ""), {.length = 1})),
      "empty: byte 0: the text ends here, expected at least 2 bytes from byte 0 on (a window of 1 and the byte after "
      "it): use a longer text or a shorter window");
}

}  // namespace
}  // namespace snug::core
