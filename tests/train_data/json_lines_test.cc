#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/train/data/loader.h"
#include "engine/train/data/sources.h"
#include "tests/train_data/test_dataset.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

JsonLinesInput Integers(const std::string& name, const Shape& shape, int64_t max_value = 0, int64_t padding = 0) {
  return {
      .field = {
          .name = name, .type = {.dtype = DType::kInt32, .shape = shape}, .max_value = max_value, .padding = padding}};
}

class JsonLinesTest : public FileTest {
 protected:
  absl::StatusOr<JsonLines> TryOpen(const std::string& text, const JsonLinesOptions& options) {
    return OpenJsonLines(Write("data.jsonl", text), options);
  }
  std::shared_ptr<const Dataset> Open(const std::string& text, const JsonLinesOptions& options) {
    auto lines = TryOpen(text, options);
    EXPECT_TRUE(lines.ok()) << lines.status().message();
    return lines.ok() ? lines->dataset : nullptr;
  }
  // What opening the file says of it, without the folder's name.
  std::string ErrorOf(const std::string& text, const JsonLinesOptions& options) {
    const absl::Status status = TryOpen(text, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string message(status.message());
    const size_t name = message.find("data.jsonl");
    return name == std::string::npos ? message : message.substr(name);
  }

  const JsonLinesOptions tagged_ = {
      .inputs = {Integers("words", {4}, 10), Integers("length", {}, 5), Integers("tags", {4}, 3, kIgnoredLabel)},
      .length = "length"};
};

TEST_F(JsonLinesTest, ShortSamplesAreFilledUpAndCounted) {
  const auto dataset = Open(R"({"words": [7, 8, 9], "tags": [0, 1, 2]}
{"tags": [], "words": []}

{"words": [1,2,3,4], "tags": [-100, 0, 0, 1]})",
                            tagged_);
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(0), ElementsAre(7, 8, 9, 0));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(1), ElementsAre(3));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(2), ElementsAre(0, 1, 2, -100));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(1), ElementsAre(0));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(2), ElementsAre(-100, -100, -100, -100));
  EXPECT_THAT(Sample(*dataset, 2).Field<int32_t>(2), ElementsAre(-100, 0, 0, 1));
  EXPECT_EQ(dataset->LengthOf(0), 3);
  EXPECT_EQ(dataset->LengthOf(2), 4);
}

TEST_F(JsonLinesTest, TextIsItsBytes) {
  const auto dataset = Open(R"({"text": "a\u00e9\n"})", {.inputs = {Integers("text", {6}, 256)}});
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(0), ElementsAre('a', 0xC3, 0xA9, '\n', 0, 0));
}

TEST_F(JsonLinesTest, NumbersAndListsOfLists) {
  const JsonLinesOptions options = {.inputs = {{.field = {.name = "path", .type = {.shape = {3, 2}}}},
                                               {.field = {.name = "goal", .type = {}}},
                                               Integers("steps", {})},
                                    .length = "steps"};
  const auto dataset = Open(
      "{\"path\": [[1, 2.5], [-3e1, 4]], \"goal\": -0.25}\n"
      "{\"path\": [1, 2, 3, 4, 5, 6], \"goal\": 7}\n",
      options);
  EXPECT_THAT(Sample(*dataset, 0).Field<float>(0), ElementsAre(1, 2.5, -30, 4, 0, 0));
  EXPECT_THAT(Sample(*dataset, 0).Field<float>(1), ElementsAre(-0.25));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(2), ElementsAre(2));
  EXPECT_THAT(Sample(*dataset, 1).Field<float>(0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(2), ElementsAre(3));
}

TEST_F(JsonLinesTest, WithoutLabelsTheyAreTheNextTokens) {
  const JsonLinesOptions options = {.inputs = {Integers("tokens", {3}, 256), Integers("label", {3}, 256)}};
  const auto dataset = Open("{\"tokens\": \"abcd\"}\n{\"tokens\": [5, 6]}\n", options);
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(0), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(Sample(*dataset, 0).Field<int32_t>(1), ElementsAre('b', 'c', 'd'));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(0), ElementsAre(5, 0, 0));
  EXPECT_THAT(Sample(*dataset, 1).Field<int32_t>(1), ElementsAre(6, kIgnoredLabel, kIgnoredLabel));
  EXPECT_THAT(ErrorOf("{\"tokens\": [5]}", options), HasSubstr("at least 2 tokens"));
  // What the training file is decides of another one, too.
  JsonLinesOptions decided = options;
  decided.next_tokens = false;
  EXPECT_THAT(ErrorOf("{\"tokens\": [5, 6]}", decided), HasSubstr("field \"label\": expected for this input"));
  decided.next_tokens = true;
  EXPECT_THAT(ErrorOf("{\"tokens\": [5, 6], \"label\": [1]}", decided), HasSubstr("expected no such field"));
  const auto labelled = Open(R"({"tokens": "abc", "label": [1, 2]})", options);
  EXPECT_THAT(Sample(*labelled, 0).Field<int32_t>(1), ElementsAre(1, 2, 0));
}

TEST_F(JsonLinesTest, LongSamplesAreRefusedOrCut) {
  const std::string text = R"({"words": [1, 2, 3, 4, 5], "tags": [0, 0, 0, 0, 1]})";
  EXPECT_THAT(
      ErrorOf(text, tagged_),
      HasSubstr("data.jsonl:1:26: field \"words\": expected at most 4, which is what the network takes, found 5: "
                "`truncate` cuts longer ones"));
  JsonLinesOptions options = tagged_;
  options.truncate = true;
  EXPECT_THAT(Sample(*Open(text, options), 0).Field<int32_t>(0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Sample(*Open(text, options), 0).Field<int32_t>(1), ElementsAre(4));
}

TEST_F(JsonLinesTest, FieldsThatAreNoInputAreNamed) {
  auto lines = TryOpen(R"({"id": {"a": [1, "b", null, true]}, "words": [], "tags": [], "who": "me"})", tagged_);
  ASSERT_TRUE(lines.ok()) << lines.status().message();
  EXPECT_THAT(lines->unread, ElementsAre("id", "who"));
}

TEST_F(JsonLinesTest, ErrorsSayWhere) {
  const std::string good = "{\"words\": [1], \"tags\": [0]}\n";
  EXPECT_EQ(ErrorOf("", tagged_), "data.jsonl:1: expected a JSON object a line, found an empty file");
  EXPECT_THAT(ErrorOf(good + "words", tagged_), HasSubstr("data.jsonl:2:1: expected an object, '{', found 'w'"));
  EXPECT_THAT(ErrorOf(good + "{\"words\": [1], \"tags\": [0]", tagged_), HasSubstr("data.jsonl:2:"));
  EXPECT_THAT(
      ErrorOf(good + "\n{\"words\": [1], \"tag\": [0]}", tagged_),
      HasSubstr("data.jsonl:3:27: field \"tags\": expected for this input of the network, found none; is \"tag\" "
                "meant?"));
  EXPECT_THAT(ErrorOf("{\"words\": [10], \"tags\": [0]}", tagged_),
              HasSubstr("field \"words\": expected a whole number from 0 to 9, found 10"));
  EXPECT_THAT(ErrorOf("{\"words\": [1.5], \"tags\": [0]}", tagged_), HasSubstr("found 1.5"));
  EXPECT_THAT(ErrorOf("{\"words\": 1, \"tags\": [0]}", tagged_), HasSubstr("a list of numbers or a text"));
  EXPECT_THAT(ErrorOf("{\"words\": [[1]], \"tags\": [0]}", tagged_), HasSubstr("a number in field \"words\""));
  EXPECT_THAT(ErrorOf("{\"words\": [1], \"words\": [1], \"tags\": [0]}", tagged_), HasSubstr("found twice"));
  EXPECT_THAT(ErrorOf("{\"words\": [1], \"tags\": [0], \"length\": 1}", tagged_), HasSubstr("which is counted"));
  EXPECT_THAT(ErrorOf("{\"words\": [1], \"tags\": [\xff]}", tagged_), HasSubstr("data.jsonl:1:25: expected UTF-8"));
  EXPECT_THAT(ErrorOf("{\"words\": [1e999], \"tags\": [0]}", tagged_), HasSubstr("too large"));
}

TEST_F(JsonLinesTest, TheInputOfTheLengthMustFit) {
  JsonLinesOptions options = tagged_;
  options.length = "lenght";
  EXPECT_THAT(ErrorOf("{}", options), HasSubstr("the network has no input \"lenght\""));
  options = tagged_;
  options.inputs[1].field.max_value = 4;
  EXPECT_THAT(ErrorOf("{}", options), HasSubstr("takes values below 4, and samples may be 4 long"));
  options.length = "words";
  EXPECT_THAT(ErrorOf("{}", options), HasSubstr("expected an input of one integer a sample"));
}

// Whatever stands in a file, it is read or refused by its place; and what was read once is read again.
TEST_F(JsonLinesTest, BrokenFilesAreAnswered) {
  const std::string whole =
      "{\"words\": [1, 2, 3], \"tags\": [0, 1, 2], \"id\": {\"a\": [true, null, -1.5e3]}}\n"
      "{\"words\": \"\\u0001\\u0002\", \"tags\": [2]}\n";
  const std::string letters = "{}[]\",:\\-+.0eE19nutf \n\xc3\x01";
  std::mt19937 random(7);
  int read = 0, refused = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 4);
      } else if (random() % 2 == 0) {
        text.insert(at, 1, letter);
      } else {
        text[at] = letter;
      }
      if (text.empty()) text = "{";
    }
    auto lines = TryOpen(text, tagged_);
    if (!lines.ok()) {
      ++refused;
      EXPECT_THAT(std::string(lines.status().message()), HasSubstr("data.jsonl:")) << text;
      continue;
    }
    ++read;
    for (int64_t sample = 0; sample < lines->dataset->size(); ++sample) Sample(*lines->dataset, sample);
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 250);
}

class ByLengthTest : public JsonLinesTest {
 protected:
  ByLengthTest() {
    std::mt19937 random(3);
    std::string text;
    for (int i = 0; i < kSamples; ++i) {
      text += "{\"words\": [";
      for (int j = static_cast<int>(random() % 40); j >= 0; --j) text += j == 0 ? "1" : "1,";
      text += "], \"number\": " + std::to_string(i) + "}\n";
    }
    dataset_ = Open(text, {.inputs = {Integers("words", {40}), Integers("number", {}), Integers("length", {})},
                           .length = "length"});
  }

  static constexpr int kSamples = 1003, kBatch = 10;
  std::shared_ptr<const Dataset> dataset_;
};

struct EpochOfLengths {
  std::vector<int32_t> numbers;
  int64_t padding = 0;           // elements up to the longest of each batch
  std::vector<int32_t> longest;  // of each batch
};

EpochOfLengths LengthsOf(Loader& loader) {
  EpochOfLengths epoch;
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    const Batch& batch = NextOf(loader);
    const auto field = [&](int i) {
      const auto* begin = reinterpret_cast<const int32_t*>(batch.data[static_cast<size_t>(i)]);
      return std::vector<int32_t>(begin, begin + batch.valid);
    };
    const std::vector<int32_t> numbers = field(1), lengths = field(2);
    epoch.numbers.insert(epoch.numbers.end(), numbers.begin(), numbers.end());
    epoch.longest.push_back(*std::max_element(lengths.begin(), lengths.end()));
    for (const int32_t length : lengths) epoch.padding += epoch.longest.back() - length;
  }
  return epoch;
}

TEST_F(ByLengthTest, BatchesHaveSamplesOfAboutOneLength) {
  const EpochOfLengths usual = LengthsOf(*MakeLoader(dataset_, {.batch = kBatch, .seed = 5}));
  const EpochOfLengths sorted = LengthsOf(*MakeLoader(dataset_, {.batch = kBatch, .seed = 5, .by_length = 20}));
  EXPECT_LT(sorted.padding * 8, usual.padding);
  // Batches do not come in the order of their lengths.
  EXPECT_FALSE(std::is_sorted(sorted.longest.begin(), sorted.longest.begin() + 20));
}

TEST_F(ByLengthTest, AnEpochHasTheSameSamplesAsWithout) {
  for (const int64_t by_length : {int64_t{2}, int64_t{7}, int64_t{20}, int64_t{1000}, INT64_MAX}) {
    const auto usual = MakeLoader(dataset_, {.batch = kBatch, .seed = 5});
    const auto sorted = MakeLoader(dataset_, {.batch = kBatch, .seed = 5, .by_length = by_length});
    std::vector<int32_t> last;
    for (int e = 0; e < 2; ++e) {
      EpochOfLengths expected = LengthsOf(*usual), epoch = LengthsOf(*sorted);
      EXPECT_NE(epoch.numbers, last);
      last = epoch.numbers;
      std::sort(expected.numbers.begin(), expected.numbers.end());
      std::sort(epoch.numbers.begin(), epoch.numbers.end());
      EXPECT_EQ(epoch.numbers, expected.numbers) << by_length;
    }
  }
}

TEST_F(ByLengthTest, AShortBatchThatIsKeptHasTheRest) {
  const auto loader =
      MakeLoader(dataset_, {.batch = kBatch, .seed = 5, .by_length = 20, .last_batch = LoaderOptions::LastBatch::kPad});
  std::vector<int32_t> numbers = LengthsOf(*loader).numbers, all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, all);
}

}  // namespace
}  // namespace snug::core
