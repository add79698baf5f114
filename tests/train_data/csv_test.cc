#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/data/sources.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CsvTest : public FileTest {
 protected:
  std::shared_ptr<const Dataset> Open(const std::string& text, const CsvOptions& options = {}) {
    auto opened = OpenCsv(Write("data.csv", text), options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? opened->training : nullptr;
  }
  std::string Error(const std::string& text, const CsvOptions& options = {}) {
    return ErrorOf(OpenCsv(Write("data.csv", text), options));
  }
};

TEST_F(CsvTest, TheLastColumnIsTheLabel) {
  const auto dataset = Open("1,2.5,0\n-3e2, .5 ,2\n");
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->fields()[0].type.ToString(), "float32[2]");
  EXPECT_EQ(dataset->fields()[1].type.ToString(), "int32[]");
  EXPECT_EQ(dataset->fields()[1].max_value, 3);
  EXPECT_EQ(dataset->fields()[1].padding, kIgnoredLabel);
  EXPECT_THAT(Sample(*dataset, 1).Field<float>(0), ElementsAre(-300, 0.5F));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(1), ElementsAre(2));
}

TEST_F(CsvTest, QuotesLineEndsAndByteOrderMark) {
  const std::string text = "\xEF\xBB\xBF\"the \"\"width\"\"\",\"kind, or\r\nclass\",y\r\n\r\n\"1\",2,\"3\"\r\n4,1,6";
  const auto dataset = Open(text, {.label = "kind, or\r\nclass"});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_THAT(Sample(*dataset, 0).Field<float>(0), ElementsAre(1, 3));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(1), ElementsAre(2));
  EXPECT_THAT(Sample(*dataset, 1).Field<float>(0), ElementsAre(4, 6));
  EXPECT_THAT(Error(text, {.label = "the widht"}), HasSubstr("did you mean \"the \"width\"\"?"));
}

TEST_F(CsvTest, LabelsByNameAndNumber) {
  const std::string text = "a,b,c\n1,0,3\n";
  for (const std::string label : {"b", "1", "-2"}) {
    EXPECT_THAT(Sample(*Open(text, {.label = label}), 0).Field<float>(0), ElementsAre(1, 3)) << label;
  }
  EXPECT_EQ(Error(text, {.label = "d"}), "data.csv:1:1: no column is called \"d\"");
  EXPECT_EQ(Error("a,b,a\n1,0,3\n", {.label = "a"}),
            "data.csv:1:1: label: two columns are called \"a\": give the number of one, 0 or 2");
  EXPECT_THAT(Sample(*Open("a,b,a\n1,3,0\n", {.label = "-1"}), 0).Field<float>(0), ElementsAre(1, 3));
  EXPECT_EQ(Error("1,2,3\n", {.label = "b"}),
            "data.csv:1:1: no column is called \"b\": the file has no header, give its number");
  EXPECT_EQ(Error(text, {.label = "3"}), "data.csv:1:1: label column 3: expected -3 to 2, the file has 3 columns");
}

TEST_F(CsvTest, AHeaderIsToldOrSeen) {
  EXPECT_EQ(Open("1,2\n3,4\n")->size(), 2);
  EXPECT_EQ(Open("1,2\n3,4\n", {.header = true})->size(), 1);
  EXPECT_EQ(Error("a,b\n3,4\n", {.header = false}),
            "data.csv:1:1: column \"0\": expected a number, found \"a\"; `category` takes columns of texts");
}

TEST_F(CsvTest, Regression) {
  const auto dataset = Open("1;-2.5\n", {.regression = true, .separator = ';'});
  EXPECT_EQ(dataset->fields()[1].type.ToString(), "float32[]");
  EXPECT_THAT(Sample(*dataset, 0).Field<float>(1), ElementsAre(-2.5F));
}

TEST_F(CsvTest, Errors) {
  EXPECT_EQ(Error(""), "data.csv:1:1: expected rows of numbers, found an empty file");
  EXPECT_EQ(Error("\n\r\n"), "data.csv:1:1: expected rows of numbers, found an empty file");
  EXPECT_EQ(Error("a,b\n"), "data.csv:1:1: expected rows of numbers after the header, found none");
  EXPECT_EQ(Error("a;b\n1;2\n"),
            "data.csv:1:1: expected at least two columns, features and a label, separated by \",\", found one");
  for (const std::string empty : {"", " \t"}) {
    EXPECT_EQ(
        Error("x,y,label\n1," + empty + ",0\n"),
        "data.csv:2:3: column \"y\": expected a number, found nothing: leave the row out, or let `missing` say what "
        "it becomes");
  }
  EXPECT_EQ(Error("x,y,label\n1,2,0\n12,3x,0\n"),
            "data.csv:3:4: column \"y\": expected a number, found \"3x\"; `category` takes columns of texts");
  EXPECT_EQ(Error("x,label\nnan,0\n"),
            "data.csv:2:1: column \"x\": expected a number, found \"nan\"; `missing` is for empty "
            "fields: leave this one empty");
  EXPECT_EQ(Error("x,label\n1e60,0\n"), "data.csv:2:1: column \"x\": expected a finite float32 number, found \"1e60\"");
  EXPECT_EQ(Error("1,2,0\n\n1,2\n"), "data.csv:3:1: expected 3 fields as in line 1, found 2");
  EXPECT_EQ(Error("1,2,0\n1,2,0,\n"), "data.csv:2:1: expected 3 fields as in line 1, found 4");
  EXPECT_EQ(Error("1,\"2\n3,4\n"), "data.csv:1:3: expected a closing quote before the end of the file");
  EXPECT_EQ(Error("1,\"2\"3\n"), "data.csv:1:6: expected \",\" or the end of the line after a closing quote");
}

TEST_F(CsvTest, LabelsOutOfRange) {
  for (const std::string label : {"3", "-1", "1.5"}) {
    EXPECT_EQ(Error("1,0\n2," + label + "\n", {.classes = 3}),
              "data.csv:2:3: column \"1\": expected a class from 0 to 2, or -100, found \"" + label + "\"");
  }
  EXPECT_EQ(Open("1,0\n", {.classes = 3})->fields()[1].max_value, 3);
}

}  // namespace
}  // namespace snug::core
