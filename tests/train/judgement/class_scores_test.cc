#include "engine/train/judgement/class_scores.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LoadedNetwork Load(const std::string& layers) {
  absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(
      absl::StrCat(
          "name: \"n\" input { name: \"x\" shape { dim: 4 } } input { name: \"label\" dtype: INT32 max_value: 3 } "
          "layer { name: \"out\" input: \"x\" dense { units: 3 } } ",
          layers),
      "test.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return *std::move(loaded);
}

std::optional<ClassScores> Find(const std::string& layers, const std::string& scores = "",
                                const std::string& labels = "") {
  const LoadedNetwork loaded = Load(layers);
  const auto found = FindClassScores(loaded.network, scores, labels);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *found : std::nullopt;
}

constexpr char kLoss[] =
    "layer { name: \"loss\" input: \"out\" input: \"label\" softmax_cross_entropy {} } objective: \"loss\" ";

TEST(ClassScores, AreWhatALossOrMetricReads) {
  const auto found = Find(kLoss);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scores, "out");
  EXPECT_EQ(found->labels, "label");
  EXPECT_TRUE(found->labels_are_fed);
  EXPECT_EQ(found->ignored, -100);
  EXPECT_EQ(found->likelihood, "loss");
  EXPECT_FALSE(found->language);
  EXPECT_FALSE(found->probabilities);

  const auto smoothed = Find(
      "layer { name: \"loss\" input: \"out:0\" input: \"label\" softmax_cross_entropy { label_smoothing: 0.1 "
      "ignore_index: 2 "
      "classes: 2 } } objective: \"loss\" ");
  ASSERT_TRUE(smoothed.has_value());
  EXPECT_EQ(smoothed->scores, "out");
  EXPECT_EQ(smoothed->likelihood, "");  // the loss is another number
  EXPECT_EQ(smoothed->ignored, 2);
  EXPECT_EQ(smoothed->classes, 2);
  EXPECT_FALSE(Find("layer { name: \"loss\" input: \"out\" reduce_mean {} } objective: \"loss\" ").has_value());
}

// A network with several heads is judged by the one whose accuracy it reports.
TEST(ClassScores, OfSeveralHeadsAreThoseOfAnOutput) {
  const std::string two = absl::StrCat(
      "layer { name: \"side\" input: \"x\" dense { units: 3 } } layer { name: \"p\" input: \"side\" softmax {} } "
      "layer { name: \"first\" input: \"out\" input: \"label\" softmax_cross_entropy {} } "
      "layer { name: \"right\" input: \"p\" input: \"label\" accuracy {} } objective: \"first\" ");
  EXPECT_EQ(Find(two)->scores, "out");
  const auto reported = Find(two + "output: \"right\"");
  EXPECT_EQ(reported->scores, "p");
  EXPECT_TRUE(reported->probabilities);
  EXPECT_EQ(reported->likelihood, "");
}

TEST(ClassScores, CanBeNamed) {
  const std::string layers = absl::StrCat(kLoss, "layer { name: \"more\" input: \"out\" sigmoid {} } output: \"more\"");
  const auto found = Find(layers, "more");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->labels, "label");
  EXPECT_TRUE(found->binary);
  EXPECT_TRUE(found->probabilities);
  EXPECT_EQ(Find(layers, "", "label")->scores, "out");
  // Where nothing reads labels, they are the only input of whole numbers.
  EXPECT_EQ(Find("layer { name: \"loss\" input: \"out\" reduce_mean {} } objective: \"loss\" ", "out")->labels,
            "label");
}

TEST(ClassScores, ThatAreNamedKeepWhatIsKnownOfTheLabels) {
  const std::string layers =
      "layer { name: \"probs\" input: \"out\" softmax {} } "
      "layer { name: \"loss\" input: \"out\" input: \"label\" softmax_cross_entropy { ignore_index: 1 classes: 2 } } "
      "objective: \"loss\" output: \"probs\"";
  for (const char* const labels : {"", "label", "label:0"}) {
    const auto found = Find(layers, "probs", labels);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->labels, "label");
    EXPECT_EQ(found->ignored, 1);
    EXPECT_EQ(found->classes, 2);
    EXPECT_EQ(found->likelihood, "");  // the loss is of other scores
  }
  const auto alone = FindScores(Load(layers).network, "probs");
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->labels, "label");
  EXPECT_EQ(alone->classes, 2);
  // Nothing is known of labels that nothing reads.
  EXPECT_EQ(Find("layer { name: \"loss\" input: \"out\" reduce_mean {} } objective: \"loss\" ", "out")->ignored, -100);
}

TEST(ClassScores, AreWhatTheirReaderTakesThemFor) {
  const std::string sigmoid = "layer { name: \"s\" input: \"out\" sigmoid {} } output: \"s\" ";
  const std::string accuracy = "layer { name: \"a\" input: \"s\" input: \"label\" accuracy {} } output: \"a\" ";
  const std::string loss =
      "layer { name: \"l\" input: \"s\" input: \"label\" softmax_cross_entropy {} } objective: \"l\" ";
  const auto compared = Find(sigmoid + accuracy);
  ASSERT_TRUE(compared.has_value());
  EXPECT_EQ(compared->scores, "s");
  EXPECT_FALSE(compared->binary);  // three classes, one of which is the label
  EXPECT_TRUE(compared->probabilities);
  // The loss takes probabilities for logits, and so does who tells what it is.
  for (const std::string& maker : {sigmoid, std::string("layer { name: \"s\" input: \"out\" softmax {} } ")}) {
    for (const std::string& readers : {loss, accuracy + loss}) {
      const auto logits = Find(maker + readers);
      ASSERT_TRUE(logits.has_value());
      EXPECT_EQ(logits->scores, "s");
      EXPECT_FALSE(logits->binary);
      EXPECT_FALSE(logits->probabilities);
    }
  }
}

TEST(ClassScores, ThatLeaveLabelsOpenAreRefused) {
  const LoadedNetwork loaded = Load("layer { name: \"loss\" input: \"out\" reduce_mean {} } objective: \"loss\" ");
  EXPECT_THAT(FindClassScores(loaded.network, "", "label").status().message(),
              HasSubstr("--labels=label: expected --scores=LAYER beside it"));
  const auto with_two = LoadNetworkText(
      "name: \"n\" input { name: \"a\" dtype: INT32 } input { name: \"b\" dtype: INT64 } input { name: \"x\" shape { "
      "dim: 2 } } "
      "layer { name: \"out\" input: \"x\" dense { units: 3 } } output: \"out\"",
      "test.pbtxt");
  ASSERT_TRUE(with_two.ok()) << with_two.status().message();
  EXPECT_THAT(FindClassScores(with_two->network, "out", "").status().message(),
              HasSubstr("several of whole numbers: \"a\", \"b\""));
  EXPECT_TRUE(FindClassScores(with_two->network, "out", "b").ok());
  EXPECT_EQ(FindScores(with_two->network, "out")->scores, "out");
  EXPECT_FALSE(FindScores(with_two->network, "").has_value());
}

TEST(ClassScores, OfTokensAreALanguageModels) {
  const std::string text =
      "name: \"n\" input { name: \"tokens\" shape { dim: 8 } dtype: INT32 max_value: 50 } "
      "input { name: \"label\" shape { dim: 8 } dtype: INT32 max_value: $most } "
      "layer { name: \"e\" input: \"tokens\" embedding { entries: 50 width: 4 } } "
      "layer { name: \"out\" input: \"e\" dense { units: 50 } } "
      "layer { name: \"loss\" input: \"out\" input: \"label\" softmax_cross_entropy {} } objective: \"loss\"";
  for (const auto& [most, language] : {std::pair<const char*, bool>{"50", true}, {"9", false}}) {
    std::string with = text;
    with.replace(with.find("$most"), 5, most);
    const auto loaded = LoadNetworkText(with, "test.pbtxt");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const auto found = FindClassScores(loaded->network, "", "");
    ASSERT_TRUE(found.ok() && found->has_value());
    EXPECT_EQ((*found)->language, language);
  }
}

std::vector<double> RowOf(const ScoreReader& reader, const ValueView& view, int64_t row) {
  std::vector<double> logits;
  reader.Read(view, row, &logits);
  return logits;
}

TEST(ScoreReader, ReadRowsOfAnyShape) {
  const std::vector<float> numbers = {1, 2, 3, 9, 4, 5, 6, 9};
  const ValueType type{.dtype = DType::kFloat32, .shape = {1, 2, 4}, .layout = {}};
  std::vector<float> bytes = numbers;
  const ValueView view{&type, reinterpret_cast<std::byte*>(bytes.data())};
  const auto rows = ScoreReader::Create({.scores = "s", .labels = "l", .classes = 3}, type, 1);
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->rows_per_sample(), 2);
  EXPECT_EQ(rows->classes(), 3);
  EXPECT_EQ(RowOf(*rows, view, 1), (std::vector<double>{4, 5, 6}));

  const auto refused = [](const ClassScores& scores, const ValueType& of, int64_t batch) {
    return std::string(ScoreReader::Create(scores, of, batch).status().message());
  };
  EXPECT_EQ(refused({.scores = "s"}, type, 2),
            "scores \"s\": expected real numbers for each of 2 samples, found float32[1, 2, 4]");
  EXPECT_EQ(refused({.scores = "s", .classes = 5}, type, 1),
            "scores \"s\": expected at least 5 classes, found float32[1, 2, 4]");
  EXPECT_THAT(refused({.scores = "s"}, {.dtype = DType::kInt32, .shape = {1, 2}, .layout = {}}, 1),
              HasSubstr("found int32[1, 2]"));
  EXPECT_THAT(refused({.scores = "s"}, {.dtype = DType::kFloat32, .shape = {}, .layout = {}}, 1),
              HasSubstr("found float32[]"));
}

TEST(ScoreReader, ThatSayNoOrYesHaveTwoClasses) {
  std::vector<float> numbers = {0.25F, 0.75F};
  const ValueType type{.dtype = DType::kFloat32, .shape = {2, 1}, .layout = {}};
  const ValueView view{&type, reinterpret_cast<std::byte*>(numbers.data())};
  const auto logits = ScoreReader::Create({.scores = "s", .labels = "l"}, type, 2);
  ASSERT_TRUE(logits.ok());
  EXPECT_EQ(logits->classes(), 2);
  EXPECT_EQ(RowOf(*logits, view, 1), (std::vector<double>{0, 0.75}));
  const auto probabilities = ScoreReader::Create({.scores = "s", .labels = "l", .probabilities = true}, type, 2);
  const Prediction p = PredictionOf(RowOf(*probabilities, view, 1));
  EXPECT_EQ(p.best, 1);
  EXPECT_DOUBLE_EQ(p.probability(p.largest), 0.75);
}

TEST(Prediction, OfEqualScoresTheFirstWinsAndNoNumberSaysNothing) {
  EXPECT_EQ(PredictionOf({1, 3, 3}).best, 1);
  EXPECT_EQ(PredictionOf({1, std::nan(""), 3}).best, -1);
  EXPECT_EQ(PredictionOf({-kInfinity, 0, -kInfinity}).best, 1);
  EXPECT_EQ(PredictionOf({0, kInfinity}).best, 1);
  const Prediction p = PredictionOf({1, 3, 2});
  EXPECT_DOUBLE_EQ(p.cross_entropy(2), std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 2);
  EXPECT_DOUBLE_EQ(p.probability(3), std::exp(3.0) / (std::exp(1.0) + std::exp(2.0) + std::exp(3.0)));
  EXPECT_EQ(PredictionOf({1000, -1000}).cross_entropy(-1000), 2000);  // nothing overflows
}

TEST(LogOdds, AreThoseOfTheProbability) {
  const std::vector<double> logits = {1, 3, 2, -4};
  const std::vector<double> odds = LogOdds(logits);
  const Prediction p = PredictionOf(logits);
  for (size_t c = 0; c < logits.size(); ++c) {
    const double probability = p.probability(logits[c]);
    EXPECT_NEAR(odds[c], std::log(probability / (1 - probability)), 1e-12);
  }
  // Probabilities that round to 1 are told apart, and a class's rank does not depend on which other has which score.
  EXPECT_LT(LogOdds({100, 0, 0})[0], LogOdds({101, 0, 0})[0]);
  EXPECT_EQ(LogOdds({0.1, 0.2, 0.3, 5})[3], LogOdds({0.3, 0.1, 0.2, 5})[3]);
  EXPECT_EQ(LogOdds({0.1, 0.7, 0.3, 5})[1], LogOdds({5, 0.7, 0.1, 0.3})[1]);
  EXPECT_TRUE(std::isnan(LogOdds({kInfinity, 0, 0})[0]));
}

}  // namespace
}  // namespace snug::core
