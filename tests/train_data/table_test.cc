// What is learnt from a table: categories, classes, what stands in for empty fields, means and deviations.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/train/data/sources.h"
#include "engine/train/data/table/table_fit.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class TableTest : public FileTest {
 protected:
  CsvData Open(const std::string& text, const CsvOptions& options = {}) {
    auto opened = OpenCsv(Write("data.csv", text), options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? *std::move(opened) : CsvData();
  }
  std::string Error(const std::string& text, const CsvOptions& options = {}) {
    return ErrorOf(OpenCsv(Write("data.csv", text), options));
  }
  // With another table for evaluation.
  CsvOptions With(CsvOptions options, const std::string& test) {
    options.test_file = Write("test.csv", test);
    return options;
  }
  // Notes without the folder's name.
  std::string NotesOf(const CsvData& data) const {
    return ErrorOf(absl::InvalidArgumentError(absl::StrJoin(data.notes, "\n")));
  }
};

std::vector<float> Features(const Dataset& dataset, int64_t row) { return Sample(dataset, row).Field<float>(0); }
int32_t Label(const Dataset& dataset, int64_t row) { return Sample(dataset, row).Field<int32_t>(1)[0]; }

TEST_F(TableTest, TextLabelsBecomeClassesInTheOrderOfTheAlphabet) {
  const CsvData data = Open("width,kind\n1,tulip\n2, aster \n3,\"rose, red\"\n4,tulip\n");
  EXPECT_THAT(data.classes, ElementsAre("aster", "rose, red", "tulip"));
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < 4; ++row) labels.push_back(Label(*data.training, row));
  EXPECT_THAT(labels, ElementsAre(2, 0, 1, 2));
  EXPECT_EQ(data.training->fields()[1].max_value, 3);
  EXPECT_EQ(NotesOf(data),
            "data.csv: 4 rows below a header, 1 number a sample (width), 3 classes (aster, rose, red, tulip)");
}

TEST_F(TableTest, AnUnknownLabelIsAnErrorThatNamesTheKnownOnes) {
  const std::string table = "width,kind\n1,tulip\n2,aster\n";
  EXPECT_EQ(
      Error(table, With({}, "width,kind\n1,aster\n7,tullip\n")),
      "test.csv:3:3: column \"kind\": expected a label of the training's table (aster, tulip), found \"tullip\"; did "
      "you mean \"tulip\"?");
  EXPECT_EQ(Label(*Open(table, With({}, "width,kind\n7,tulip\n")).evaluation, 0), 1);
  EXPECT_EQ(Error("width,kind\n1,\n"),
            "data.csv:2:3: column \"kind\": expected a label, found nothing: leave the row out");
  EXPECT_EQ(
      Error("width,kind\n1,a\n2,3\n"),
      "data.csv:3:3: column \"kind\": expected a text as in line 2, found \"3\": labels are all texts, or all classes "
      "from 0 on");
  EXPECT_THAT(Error("width,kind\n1,2\n2,x\n"), HasSubstr("data.csv:3:3: column \"kind\": expected a class from 0"));
  EXPECT_THAT(Error("width,kind\n1,caf\xE9\n"), HasSubstr("expected UTF-8, found bytes that are none"));
  EXPECT_EQ(
      Error("width,kind\n1,x\n", {.regression = true}),
      "data.csv:2:3: column \"kind\": expected a number, found \"x\"; for classes the network's input of labels is "
      "INT32");
}

TEST_F(TableTest, ATableOfTextsMayHaveNoHeader) {
  const CsvData data = Open("5.1,3.5,setosa\n4.9,3.0,setosa\n6.2,2.9,virginica\n");
  EXPECT_EQ(data.training->size(), 3);
  EXPECT_THAT(data.notes[0], HasSubstr("3 rows without a header, 2 numbers a sample (0, 1)"));
  EXPECT_EQ(Open("red,1,yes\nblue,2,no\nred,3,no\n", {.categories = {"0"}}).training->size(), 3);
  // These texts come once, so they are names.
  EXPECT_EQ(Open("0,1,kind\n5,3,0\n4,3,1\n").training->size(), 2);
  EXPECT_EQ(Open("0,1,kind\n5,3,a\n4,3,b\n").training->size(), 2);
  EXPECT_EQ(Open("colour,kind\nred,a\nblue,b\n", {.categories = {"colour"}}).training->size(), 2);
}

TEST_F(TableTest, CategoriesBecomeANumberForEachValue) {
  const CsvData data = Open("age,city,label\n30,Bern,0\n40,Basel,1\n50,\"Bern\",1\n", {.categories = {"city"}});
  EXPECT_EQ(data.training->fields()[0].type.ToString(), "float32[3]");
  EXPECT_EQ(data.training->fields()[0].made_of, "age, city=Basel, city=Bern");
  EXPECT_THAT(Features(*data.training, 0), ElementsAre(30, 0, 1));
  EXPECT_THAT(Features(*data.training, 1), ElementsAre(40, 1, 0));
  EXPECT_THAT(Features(*data.training, 2), ElementsAre(50, 0, 1));
  // By number, from the end too.
  EXPECT_EQ(Open("1,7,x,0\n2,8,y,0\n3,7,x,0\n", {.categories = {"1", "-2"}}).training->fields()[0].made_of,
            "0, 1=7, 1=8, 2=x, 2=y");
}

TEST_F(TableTest, AValueThatNoTrainingRowHasIsZerosAndIsSaid) {
  const std::string table = "age,city,label\n30,Bern,0\n40,Basel,1\n";
  const CsvData data = Open(table, With({.categories = {"city"}}, "age,city,label\n1,Genf,0\n2,Bern,0\n3,Chur,0\n"));
  EXPECT_THAT(Features(*data.evaluation, 0), ElementsAre(1, 0, 0));
  EXPECT_THAT(Features(*data.evaluation, 1), ElementsAre(2, 0, 1));
  EXPECT_THAT(NotesOf(data), HasSubstr("\ntest.csv: column \"city\": 2 rows have values that no training row has "
                                       "(\"Genf\", \"Chur\"): 0 for each known value"));
}

TEST_F(TableTest, ColumnsThatAreNamedMustBeThere) {
  const std::string table = "age,city,label\n30,Bern,0\n";
  EXPECT_EQ(Error(table, {.categories = {"cita"}}),
            "data.csv:1:1: no column is called \"cita\"; did you mean \"city\"?");
  EXPECT_EQ(Error(table, {.categories = {"label"}}), "data.csv:1:1: category: column \"label\" is the label");
  EXPECT_EQ(Error(table, {.categories = {"city", "1"}}),
            "data.csv:1:1: category: \"1\" is column \"city\", which is named already");
  EXPECT_THAT(Error(table, {.categories = {"7"}}), HasSubstr("category column 7: expected -3 to 2"));
  EXPECT_THAT(Error(table, {.categories = {"city"}, .missing = {"cita=mean"}}),
              HasSubstr("no column is called \"cita\""));
  EXPECT_THAT(Error(table, {.categories = {"city"}, .missing = {"label=0"}}), HasSubstr("which no row may lack"));
  EXPECT_THAT(
      Error(table, {.categories = {"city"}, .missing = {"median"}}),
      HasSubstr("csv: missing: expected mean, a number or refuse, or one of them for a column, as age=mean; found "
                "\"median\""));
  EXPECT_THAT(Error(table, {.categories = {"city"}, .missing = {"0", "mean"}}),
              HasSubstr("expected one rule for all columns, found two"));
  EXPECT_THAT(Error(table, {.categories = {"city"}, .missing = {"age=0", "0=1"}}),
              HasSubstr("expected one rule for column \"0\", found two"));
}

TEST_F(TableTest, EmptyFieldsBecomeWhatTheRuleSays) {
  const std::string table = "a,b,city,label\n1,10,x,0\n,,,1\n5, ,y,1\n3,20,x,0\n";
  const CsvData data = Open(table, {.categories = {"city"}, .missing = {"mean", "b=-1"}});
  EXPECT_THAT(Features(*data.training, 1), ElementsAre(3, -1, 2.0F / 3, 1.0F / 3));
  EXPECT_THAT(Features(*data.training, 2), ElementsAre(5, -1, 0, 1));
  EXPECT_THAT(NotesOf(data), AllOf(HasSubstr("column \"a\": 1 empty field is 3, the mean of the training rows"),
                                   HasSubstr("column \"b\": 2 empty fields are -1"),
                                   HasSubstr("column \"city\": 1 empty field is the shares that each value has")));
  EXPECT_THAT(Features(*Open(table, {.categories = {"city"}, .missing = {"0.5"}}).training, 1),
              ElementsAre(0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(Error(table, {.categories = {"city"}, .missing = {"mean", "city=refuse"}}),
              HasSubstr("data.csv:3:3: column \"city\": expected a value, found nothing"));
  EXPECT_THAT(Error("a,b,label\n,1,0\n,2,0\n", {.missing = {"mean"}}),
              HasSubstr("column \"a\": missing: there is no mean, since the field is empty in every training row"));
}

TEST_F(TableTest, NormalisedColumnsHaveMeanZeroAndDeviationOne) {
  std::string table = "time,same,label\n";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&table, 1'700'000'000 + i * i, ",", i % 7 == 0 ? "" : "4", ",0\n");
  const CsvData data = Open(table, {.missing = {"mean"}, .normalise = true});
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < 100; ++row) {
    const std::vector<float> features = Features(*data.training, row);
    sum += features[0];
    squares += double{features[0]} * features[0];
    EXPECT_EQ(features[1], 0);
  }
  EXPECT_NEAR(sum / 100, 0, 1e-6);
  EXPECT_NEAR(squares / 100, 1, 1e-6);
  EXPECT_THAT(NotesOf(data), HasSubstr("column \"same\" has one value, 4, in all training rows"));
}

// What is held back teaches nothing: other numbers there change no training sample.
TEST_F(TableTest, HeldBackRowsDoNotLeak) {
  const int64_t rows = 50;
  const CsvOptions options{.categories = {"city"}, .missing = {"mean"}, .normalise = true, .held_back = 0.3, .seed = 5};
  const auto training = TrainingSamples(rows, options.held_back, options.seed);
  ASSERT_TRUE(training.ok());
  const auto table = [&](int other) {
    std::string text = "a,city,label\n";
    for (int64_t row = 0; row < rows; ++row) {
      const bool trains = std::find(training->begin(), training->end(), row) != training->end();
      const int64_t value = trains ? row : row * other;
      absl::StrAppend(&text, row % 9 == 0 ? "" : absl::StrCat(value), ",", trains ? "in" : absl::StrCat("out", other),
                      ",0\n");
    }
    return text;
  };
  const CsvData one = Open(table(3), options), other = Open(table(-1000), options);
  ASSERT_EQ(one.training->size(), static_cast<int64_t>(training->size()));
  EXPECT_EQ(one.learnt, other.learnt);
  EXPECT_EQ(one.training->fields()[0].made_of, "a, city=in");
  double sum = 0;
  for (int64_t row = 0; row < one.training->size(); ++row) {
    EXPECT_EQ(Features(*one.training, row), Features(*other.training, row));
    sum += Features(*one.training, row)[0];
  }
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_THAT(NotesOf(one), HasSubstr("15 rows have values that no training row has (\"out3\")"));
}

TEST_F(TableTest, WhatWasLearntServesOtherTables) {
  const CsvOptions options{.label = "kind", .categories = {"city"}, .missing = {"mean"}, .normalise = true};
  const CsvData trained = Open("age,city,kind\n10,Bern,b\n20,Basel,a\n,Bern,a\n", options);
  CsvOptions later = options;
  later.learnt = trained.learnt;
  // In another sequence, with other numbers and other values.
  const CsvData data = Open("kind,city,age\nb,Genf,15\nb,Bern,\n", later);
  EXPECT_EQ(data.learnt, trained.learnt);
  EXPECT_THAT(data.classes, ElementsAre("a", "b"));
  EXPECT_THAT(Features(*data.training, 0), ElementsAre(0, 0, 0));
  EXPECT_THAT(Features(*data.training, 1), ElementsAre(0, 0, 1));
  EXPECT_EQ(Label(*data.training, 0), 1);
  // The same table has the same bits.
  const CsvData again = Open("age,city,kind\n10,Bern,b\n20,Basel,a\n,Bern,a\n", later);
  for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(Features(*again.training, row), Features(*trained.training, row));
  later.label = "";  // then it is where it was
  EXPECT_EQ(Label(*Open("kind,city,age\nb,Genf,15\n", later).training, 0), 1);
}

TEST_F(TableTest, RowsToPredictNeedNoLabels) {
  const std::string rows = "10,Bern\n20,Basel\n";
  CsvOptions options{.categories = {"city"}, .held_back = 0.5};
  const CsvData trained = Open("age,kind,city\n10,b,Bern\n20,a,Basel\n", {.label = "kind", .categories = {"city"}});
  options.learnt = trained.learnt;
  options.may_lack_labels = true;
  const CsvData found = Open("city,age\nBern,10\nBasel,20\n", options);
  EXPECT_TRUE(found.lacks_labels);
  EXPECT_EQ(found.evaluation, nullptr);
  ASSERT_EQ(found.training->size(), 2);
  for (int64_t row = 0; row < 2; ++row) {
    EXPECT_EQ(Features(*found.training, row), Features(*trained.training, row));
    EXPECT_EQ(Label(*found.training, row), kIgnoredLabel);
  }
  EXPECT_EQ(found.classes, trained.classes);
  // A column of another name is no label, and a table with labels has them.
  EXPECT_THAT(Error("age,city,sort\n1,Bern,a\n", options),
              HasSubstr("expected the columns of the training's table; unexpected: \"sort\""));
  const CsvData labelled = Open("age,city,kind\n10,Bern,b\n20,Basel,a\n", options);
  EXPECT_FALSE(labelled.lacks_labels);
  EXPECT_NE(labelled.evaluation, nullptr);
  // Without a header the label's place is known from the training's table, wherever it was.
  const CsvData numbered = Open("10,b,Bern\n20,a,Basel\n30,a,Bern\n", {.label = "1", .categories = {"2"}});
  CsvOptions by_number{.label = "1", .categories = {"2"}, .learnt = numbered.learnt, .may_lack_labels = true};
  const CsvData bare = Open(rows, by_number);
  ASSERT_NE(bare.training, nullptr);
  EXPECT_TRUE(bare.lacks_labels);
  EXPECT_EQ(Features(*bare.training, 1), Features(*numbered.training, 1));
  EXPECT_THAT(Error("10\n20\n", by_number), HasSubstr("expected at least two columns"));
  // A column of labels that has no name is there all the same.
  const CsvData nameless = Open("age,\n10,yes\n20,no\n", {.held_back = 0.5});
  EXPECT_FALSE(nameless.lacks_labels);
  EXPECT_NE(nameless.evaluation, nullptr);
}

TEST_F(TableTest, ATableThatDoesNotFitIsAnError) {
  const std::string table = "age,city,kind\n10,Bern,b\n20,Basel,a\n";
  CsvOptions options{.categories = {"city"}, .missing = {"age=0"}};
  options.learnt = Open(table, options).learnt;
  EXPECT_EQ(Error("age,town,kind,extra\n1,Bern,a,1\n", {.label = "kind", .learnt = options.learnt}),
            "data.csv:1:1: column \"age\": missing is refuse, and 0 in the training's table: expected the same");
  EXPECT_EQ(Error("age,town,kind,extra\n1,Bern,a,1\n", {.missing = {"age=0"}, .learnt = options.learnt}),
            "data.csv:1:1: expected the columns of the training's table; missing: \"city\"; unexpected: \"town\", "
            "\"extra\"");
  EXPECT_THAT(
      Error("age,city,sort\n1,Bern,a\n", options),
      HasSubstr(
          "data.csv:1:1: label: expected column \"kind\" as in the training's table, found none; where labels are "
          "not known, -100 stands for them, and `snug predict` needs no such column"));
  CsvOptions others = options;
  others.categories = {};
  EXPECT_EQ(Error(table, others),
            "data.csv:1:1: column \"city\": is of numbers, and a category in the training's table: expected the same "
            "`category` as there");
  others = options;
  others.normalise = true;
  EXPECT_EQ(Error(table, others),
            "data.csv:1:1: normalise: the columns of the training's table were not normalised: expected the same here");
  others = options;
  others.label = "age";
  others.missing = {};
  EXPECT_THAT(Error(table, others),
              HasSubstr("the label of the training's table is in column \"kind\", here in \"age\""));
  EXPECT_THAT(
      Error("age,city,kind\n1,Bern,zzzzzz\n", options),
      HasSubstr("data.csv:2:8: column \"kind\": expected a label of the training's table (a, b), found \"zzzzzz\""));
  options.learnt = "{\"columns\": [{\"name\": 7}]}";
  EXPECT_THAT(Error(table, options),
              StartsWith("what the checkpoint keeps of the training's table: byte 22: expected a "
                         "string"));
}

TEST_F(TableTest, ATableWithoutHeaderIsMatchedByPlace) {
  CsvOptions options;
  options.learnt = Open("1,2,a\n3,4,b\n5,6,a\n").learnt;
  EXPECT_THAT(Features(*Open("7,8,b\n", options).training, 0), ElementsAre(7, 8));
  EXPECT_THAT(Error("7,8,9,b\n", options),
              HasSubstr("the label of the training's table is in column \"2\", here in \"3\""));
}

TEST_F(TableTest, QuotesAndLineEndsInTexts) {
  const CsvData data =
      Open("\xEF\xBB\xBF\"the, city\",\"kind\"\r\n\"a \"\"b\"\"\",\"x\r\ny\"\r\n\"c,d\",z\r\n\"a \"\"b\"\"\",z",
           {.categories = {"the, city"}});
  EXPECT_THAT(data.classes, ElementsAre("x\r\ny", "z"));
  EXPECT_EQ(data.training->fields()[0].made_of, "the, city=a \"b\", the, city=c,d");
  const auto fit = TableFit::FromJson(data.learnt);
  ASSERT_TRUE(fit.ok()) << fit.status().message();
  EXPECT_EQ(fit->ToJson(), data.learnt);
  EXPECT_EQ(fit->classes, data.classes);
}

TEST_F(TableTest, FarValuesAreNoInfinities) {
  EXPECT_THAT(Error("a,label\n1e-30,0\n2e-30,0\n", With({.normalise = true}, "a,label\n1e30,0\n")),
              HasSubstr("test.csv:2: column \"a\": 1e+30 is too far from the mean of the training rows"));
}

// A category with as many values as rows takes no memory for each of them in each row.
TEST_F(TableTest, ManyValues) {
  std::string table = "id,label\n";
  for (int i = 0; i < 100000; ++i) absl::StrAppend(&table, "row", i, ",0\n");
  const CsvData data = Open(table, {.categories = {"id"}});
  EXPECT_EQ(data.training->fields()[0].type.ToString(), "float32[100000]");
  EXPECT_THAT(data.training->fields()[0].made_of, HasSubstr(" and 99980 more"));
  const std::vector<float> features = Features(*data.training, 99999);
  EXPECT_EQ(std::count(features.begin(), features.end(), 1.0F), 1);
}

// Each of these columns is looked up by its name; if each name were compared with all others, the test would not end.
TEST_F(TableTest, WideTablesOfCategories) {
  constexpr int kColumns = 60000;
  std::string header, row;
  CsvOptions options;
  for (int i = 0; i < kColumns; ++i) {
    options.categories.push_back(absl::StrCat("the category ", i));
    absl::StrAppend(&header, options.categories.back(), ",");
    absl::StrAppend(&row, i, ",");
  }
  EXPECT_EQ(Open(header + "label\n" + row + "0\n", options).training->fields()[0].type.ToString(), "float32[60000]");
}

TEST_F(TableTest, IgnoredLabelsAreNoClasses) {
  CsvData data = Open("a,label\n1,-100\n2,1\n");
  EXPECT_EQ(Label(*data.training, 0), -100);
  EXPECT_EQ(data.training->fields()[1].max_value, 2);
  EXPECT_EQ(Open("a,label\n1,-100\n").training->fields()[1].max_value, 1);
  data = Open("a,label\n1,-100\n2,yes\n3,no\n", With({}, "a,label\n7,-100\n"));
  EXPECT_THAT(data.classes, ElementsAre("no", "yes"));
  EXPECT_EQ(Label(*data.training, 0), -100);
  EXPECT_EQ(Label(*data.training, 1), 1);
  EXPECT_EQ(Label(*data.evaluation, 0), -100);
}

TEST_F(TableTest, AColumnMayHaveANumberForAName) {
  const CsvData data = Open("age,2020,kind,z\n1,0,x,7\n2,1,y,8\n", {.label = "2020", .categories = {"kind"}});
  EXPECT_EQ(data.training->fields()[0].made_of, "age, kind=x, kind=y, z");
  EXPECT_EQ(Label(*data.training, 1), 1);
  // A number that is a place is a place, whatever the first line has.
  EXPECT_EQ(Open("1,2,x\n2,0,y\n3,1,x\n", {.label = "2"}).training->size(), 3);
}

TEST_F(TableTest, OnlyDecimalNumbersAreNumbers) {
  EXPECT_THAT(Open("a,label\n1,nan\n2,inf\n3,0x10\n").classes, ElementsAre("0x10", "inf", "nan"));
  EXPECT_EQ(Open("nan,inf\n1,0\n").training->size(), 1);
  EXPECT_EQ(Error("a,label\n0x10,0\n"),
            "data.csv:2:1: column \"a\": expected a number, found \"0x10\"; `category` takes columns of texts");
  for (const std::string nothing : {"nan", "NA", " n/a"}) {
    EXPECT_EQ(Error("a,label\n" + nothing + ",0\n", {.missing = {"mean"}}),
              "data.csv:2:1: column \"a\": expected a number, found \"" + nothing +
                  "\"; `missing` is for empty fields: leave this one empty");
  }
  EXPECT_EQ(Error("a,label\n1,0\n", {.missing = {"a=1e39"}}),
            "csv: missing: expected a finite float32 number, found \"a=1e39\"");
  EXPECT_THAT(Error("a,label\n1,0\n", {.missing = {"a=nan"}}), HasSubstr("expected mean, a number or refuse"));
}

// What a file holds never reaches a terminal as it stands.
TEST_F(TableTest, MessagesShowWhatAFileHolds) {
  const auto found = [&](const std::string& field) { return Error("a,label\n\"" + field + "\",0\n"); };
  EXPECT_THAT(found(std::string("1\0x", 3)), HasSubstr("found \"1\\000x\"; `category`"));
  EXPECT_THAT(found("\x1B[31mred"), HasSubstr("found \"\\033[31mred\";"));
  EXPECT_THAT(found("caf\xE9"), HasSubstr("found \"caf\\xe9\";"));
  EXPECT_THAT(found("\xC2\x9B"
                    "1m\xEF\xBB\xBF"),
              HasSubstr("found \"\\u009b1m\\ufeff\";"));
  EXPECT_THAT(found("a\"\"b\\\xC3\xA9"), HasSubstr("found \"a\\\"b\\\\\xC3\xA9\";"));
  EXPECT_LT(found(std::string(2'500'000, 'x')).size(), 300);
  EXPECT_THAT(Error("\"a\x1B\",label\nx,0\n"), HasSubstr("column \"a\\033\": expected a number"));
  EXPECT_THAT(NotesOf(Open("\"a\nb\",label\n1,\"x\ny\"\n2,z\n")),
              AllOf(HasSubstr("(a\\nb), 2 classes (x\\ny, z)"), testing::Not(HasSubstr("\n"))));
  EXPECT_THAT(Error("a,label\n1,yes\n", With({}, "a,label\n1,\x1Bno\n")), HasSubstr("found \"\\033no\""));
}

// What an evaluation would stumble over after an epoch is seen before the first step.
TEST_F(TableTest, TheTestTableIsCheckedAsItOpens) {
  const std::string table = "a,label\n1,0\n2,2\n";
  EXPECT_EQ(Error(table, With({}, "a,label\n1,2\n5,9\n")),
            "test.csv:3:3: column \"label\": expected a class from 0 to 2, or -100, found \"9\"");
  EXPECT_EQ(Label(*Open(table, With({.classes = 10}, "a,label\n5,9\n")).evaluation, 0), 9);
}

TEST_F(TableTest, AHeaderMustBeThereAsInTheTraining) {
  CsvOptions options;
  options.learnt = Open("a,b,kind\n1,2,x\n3,4,y\n").learnt;
  EXPECT_THAT(Error("1,2,x\n", options),
              testing::EndsWith("; the training's table had a header, and so must this one"));
  EXPECT_THAT(Error("a,c,kind\n1,2,x\n", options), testing::Not(HasSubstr("had a header")));
  options.learnt = Open("1,2,x\n3,4,y\n5,6,x\n").learnt;
  EXPECT_THAT(Error("a,b,kind\n1,2,x\n", options),
              AllOf(HasSubstr("column \"0\": expected a number, found \"a\""),
                    testing::EndsWith("table had no header, and neither must this one have one")));
  EXPECT_THAT(Error("1,2,x\n1,z,x\n", options), testing::Not(HasSubstr("header")));
}

TEST_F(TableTest, OneRowAndOneClass) {
  EXPECT_EQ(Error("a,label\n1,0\n", {.held_back = 0.1}),
            "data.csv: has one row, and a part of the rows is to be held back: --data-held-back=0 takes it whole");
  EXPECT_THAT(NotesOf(Open("a,label\n1,x\n2,x\n")), testing::EndsWith(", 1 class: all labels are \"x\""));
}

// Whatever bytes a table has, it is read with finite numbers or refused with a place; and so is what a checkpoint
// keeps.
TEST_F(TableTest, DamagedTablesAreReadOrRefused) {
  const std::string whole =
      "\xEF\xBB\xBF"
      "age,city,\"in, come\",kind\r\n30,Bern,1.5,yes\r\n,\"Basel \"\"B\"\"\",-2e3,no\r\n41,,7,yes\n28,Zug,,no\n";
  const CsvOptions options{.categories = {"city"}, .missing = {"mean"}, .normalise = true, .held_back = 0.25};
  const std::string learnt = Open(whole, options).learnt;
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const auto damage = [&](std::string text) {
    for (size_t changes = 1 + below(3); changes > 0 && !text.empty(); --changes) {
      const size_t at = below(text.size()), length = std::min(below(12) + 1, text.size() - at);
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), length));
          break;
        default:
          text[at] = "\",\r\n;0e-. {}[]"[below(14)];
      }
    }
    return text;
  };
  int read = 0, refused = 0;
  for (int i = 0; i < 4000; ++i) {
    CsvOptions changed = options;
    if (i % 2 == 1) changed.learnt = i % 4 == 1 ? learnt : damage(learnt);
    const std::string text = i % 4 == 3 ? whole : damage(whole);
    const auto opened = OpenCsv(Write("data.csv", text), changed);
    if (!opened.ok()) {
      ++refused;
      EXPECT_THAT(ErrorOf(opened), testing::AnyOf(StartsWith("data.csv:"), StartsWith("what the checkpoint keeps"),
                                                  HasSubstr(": has one row, and a part")));
      continue;
    }
    ++read;
    for (const auto& dataset : {opened->training, opened->evaluation}) {
      for (int64_t row = 0; row < dataset->size(); ++row) {
        const Sample sample(*dataset, row);
        ASSERT_TRUE(sample.status().ok()) << sample.status();
        for (const float value : sample.Field<float>(0)) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
  EXPECT_GT(read, 200);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace snug::core
