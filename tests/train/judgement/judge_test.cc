// Judges networks whose scores are their inputs, so that what comes out can be worked out by hand.
#include "engine/train/judgement/judge.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/train/evaluator.h"
#include "ops/registry.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

constexpr float kNot = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Rows of scores "x" and labels, as whole or real numbers.
template <class Label>
class Rows final : public Dataset {
 public:
  Rows(std::vector<std::vector<float>> scores, std::vector<Label> labels, size_t labels_each = 1)
      : Dataset(
            {{.name = "x", .type = {.dtype = DType::kFloat32, .shape = {static_cast<int64_t>(scores[0].size())}}},
             {.name = "label", .type = {.dtype = DTypeOf<Label>::value, .shape = {static_cast<int64_t>(labels_each)}}}},
            static_cast<int64_t>(scores.size())),
        labels_each_(labels_each),
        scores_(std::move(scores)),
        labels_(std::move(labels)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const auto i = static_cast<size_t>(sample);
    std::memcpy(fields[0], scores_[i].data(), scores_[i].size() * sizeof(float));
    std::memcpy(fields[1], &labels_[i * labels_each_], labels_each_ * sizeof(Label));
    return absl::OkStatus();
  }

 private:
  size_t labels_each_;
  std::vector<std::vector<float>> scores_;
  std::vector<Label> labels_;
};

std::string Network(int64_t classes, const std::string& rest, const std::string& label = "dtype: INT32") {
  return absl::StrCat("name: \"rows\" input { name: \"x\" shape { dim: ", classes, " } } input { name: \"label\" ",
                      label, " } layer { name: \"s\" input: \"x\" scale {} } ", rest);
}

constexpr char kClassifier[] =
    "layer { name: \"loss\" input: \"s\" input: \"label\" softmax_cross_entropy {} } "
    "layer { name: \"accuracy\" input: \"s\" input: \"label\" accuracy {} } objective: \"loss\" output: \"accuracy\"";

struct Judged {
  Judgement judgement;
  Evaluator::Report report;
};

absl::StatusOr<Judged> JudgeRows(const std::string& text, std::shared_ptr<const Dataset> data, int64_t batch,
                                 const Judge::Options& options = {.worst = 3}) {
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkText(text, "test.pbtxt"));
  SNUG_ASSIGN_OR_RETURN(const std::optional<ClassScores> scores, FindClassScores(loaded.network, "", ""));
  CompileOptions compile{.precision = DType::kFloat64};
  compile.fetch = {scores->scores};
  if (!scores->labels_are_fed) compile.fetch.push_back(scores->labels);
  SNUG_ASSIGN_OR_RETURN(std::vector<Compiled> programs,
                        Evaluator::CompilePrograms(loaded.network, loaded.source_map, OpRegistry::Builtin(), compile,
                                                   batch, data->size()));
  SNUG_ASSIGN_OR_RETURN(const auto session, Session::Create(std::move(programs), {}));
  SNUG_ASSIGN_OR_RETURN(const auto evaluator, Evaluator::Create(loaded.network, *session, 0, std::move(data), {}));
  SNUG_ASSIGN_OR_RETURN(const auto judge, Judge::Create(*scores, evaluator->first_program(), options));
  Judged judged;
  SNUG_ASSIGN_OR_RETURN(judged.report,
                        evaluator->Run(0, {.before_run = [&](Program& p) { return judge->BeforeRun(p); },
                                           .after_run = [&](Program& p, int64_t) { return judge->AfterRun(p); }}));
  judged.judgement = judge->Finish();
  return judged;
}

// Two rows of class 0, three of class 1, one that is left out, none of class 2, and a tie in the third row.
std::shared_ptr<const Dataset> SixRows() {
  return std::make_shared<Rows<int32_t>>(
      std::vector<std::vector<float>>{{2, 1, 0}, {0, 3, 0}, {1, 1, 0}, {0, 2, 1}, {7, 7, 7}, {0, 0, 5}},
      std::vector<int32_t>{0, 0, 1, 1, -100, 1});
}

TEST(Judge, NumbersAreThoseWorkedOutByHandWhateverTheBatch) {
  for (const int64_t batch : {1, 2, 4, 6}) {
    const auto judged = JudgeRows(Network(3, kClassifier), SixRows(), batch);
    ASSERT_TRUE(judged.ok()) << judged.status().message();
    const Judgement& j = judged->judgement;
    EXPECT_EQ(j.ignored, 1);
    EXPECT_EQ(j.confusion.rows(), 5);
    EXPECT_EQ(j.confusion.accuracy(), 2.0 / 5);
    for (const auto& [name, value] : judged->report.metrics) {
      if (name == "accuracy") {
        EXPECT_NEAR(value, 2.0 / 5, 1e-12);
      }
      if (name == "loss") {
        EXPECT_NEAR(value, j.cross_entropy, 1e-12);
      }
    }
    EXPECT_EQ(j.confusion.Count(0, 0), 1);
    EXPECT_EQ(j.confusion.Count(0, 1), 1);
    EXPECT_EQ(j.confusion.Count(1, 0), 1);  // the tie: the first class wins
    EXPECT_EQ(j.confusion.Count(1, 1), 1);
    EXPECT_EQ(j.confusion.Count(1, 2), 1);
    // Of class 0 the first row beats all three others, and the second one of them.
    ASSERT_EQ(j.areas.size(), 3u);
    EXPECT_EQ(j.areas[0], 4.0 / 6);
    EXPECT_EQ(j.areas[1], 2.0 / 6);
    EXPECT_TRUE(std::isnan(j.areas[2]));
    EXPECT_EQ(j.mean_area, 0.5);
    EXPECT_FALSE(j.binary);
    EXPECT_TRUE(j.curve.empty());
    ASSERT_EQ(j.worst.size(), 3u);
    EXPECT_EQ(j.worst[0].index, 5);
    EXPECT_EQ(j.worst[1].index, 1);
    EXPECT_EQ(j.worst[2].index, 2);
    EXPECT_EQ(j.worst[0].predicted, 2);
    EXPECT_EQ(j.worst[0].label, 1);
    EXPECT_NEAR(j.worst[0].label_probability, 1 / (2 + std::exp(5.0)), 1e-12);
    EXPECT_NEAR(j.worst[0].predicted_probability, std::exp(5.0) / (2 + std::exp(5.0)), 1e-12);
  }
}

TEST(Judge, ScoresThatAreNoNumbersAreNeverRightAndRankNothing) {
  const auto data = std::make_shared<Rows<int32_t>>(
      std::vector<std::vector<float>>{{1, 0}, {kNot, 0}, {kNot, kNot}, {0, 1}}, std::vector<int32_t>{0, 1, 0, 1});
  const auto judged = JudgeRows(Network(2, kClassifier), data, 4);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  EXPECT_EQ(judged->judgement.confusion.unpredicted(), 2);
  EXPECT_EQ(judged->judgement.confusion.accuracy(), 0.5);
  for (const auto& [name, value] : judged->report.metrics) {
    if (name == "accuracy") {
      EXPECT_EQ(value, 0.5);
    }
  }
  EXPECT_TRUE(judged->judgement.areas.empty());
  EXPECT_EQ(judged->judgement.areas_missing, "sample 1 has scores that are no numbers");
  EXPECT_EQ(judged->judgement.worst[0].index, 1);  // worst of all, in their sequence
  EXPECT_EQ(judged->judgement.worst[1].index, 2);
  EXPECT_TRUE(std::isnan(judged->judgement.worst[0].cross_entropy));
}

TEST(Judge, TwoClassesHaveACurve) {
  const auto data = std::make_shared<Rows<int32_t>>(
      std::vector<std::vector<float>>{{0, 1}, {0, 2}, {0, -1}, {0, 1}, {5, 5}}, std::vector<int32_t>{0, 1, 0, 1, 1});
  const auto judged = JudgeRows(Network(2, kClassifier), data, 2);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  // Class 1 has 2, 1, 0, and the others 1, -1: 2 and 2, 1.5, 0 and 1 of the six pairs.
  EXPECT_DOUBLE_EQ(judged->judgement.areas[1], (2 + 1.5 + 1) / 6);
  EXPECT_EQ(judged->judgement.areas[0], judged->judgement.areas[1]);
  EXPECT_TRUE(judged->judgement.binary);
  EXPECT_TRUE(std::isinf(judged->judgement.curve.front().threshold));  // above every probability
  EXPECT_NEAR(judged->judgement.curve[1].threshold, 1 / (1 + std::exp(-2.0)), 1e-12);
}

TEST(Judge, ACurveGoesFromAboveOneToZero) {
  const auto data = std::make_shared<Rows<int32_t>>(
      std::vector<std::vector<float>>{{0, kInfinite}, {0, 0}, {kInfinite, 0}}, std::vector<int32_t>{1, 0, 1});
  const auto judged = JudgeRows(Network(2, kClassifier), data, 3);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  std::vector<double> thresholds;
  for (const RocPoint& corner : judged->judgement.curve) thresholds.push_back(corner.threshold);
  EXPECT_EQ(thresholds, (std::vector<double>{kInfinite, 1, 0.5, 0}));
}

TEST(Judge, InfiniteScoresWithoutProbabilitiesRankNothing) {
  for (const float infinite : {kInfinite, -kInfinite}) {
    const auto data = std::make_shared<Rows<int32_t>>(
        std::vector<std::vector<float>>{{1, 0, 2}, {infinite, infinite, infinite}, {0, 1, 3}},
        std::vector<int32_t>{0, 1, 0});
    const auto judged = JudgeRows(Network(3, kClassifier), data, 3);
    ASSERT_TRUE(judged.ok()) << judged.status().message();
    EXPECT_TRUE(judged->judgement.areas.empty());
    EXPECT_EQ(judged->judgement.areas_missing,
              "sample 1 has infinite scores, which give no probabilities to be ranked");
  }
  // One class that is impossible is no obstacle.
  const auto data = std::make_shared<Rows<int32_t>>(
      std::vector<std::vector<float>>{{1, -kInfinite, 2}, {2, -kInfinite, 1}}, std::vector<int32_t>{0, 2});
  const auto judged = JudgeRows(Network(3, kClassifier), data, 2);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  EXPECT_EQ(judged->judgement.areas_missing, "");
  EXPECT_EQ(judged->judgement.areas[0], 0);
}

TEST(Judge, ANumberThatSaysNoOrYesIsJudgedByZeroAndOne) {
  const std::string text = Network(1,
                                   "layer { name: \"loss\" input: \"s\" input: \"label\" "
                                   "binary_cross_entropy_with_logits {} } objective: \"loss\"",
                                   "shape { dim: 1 }");
  const auto data = [](float last) {
    return std::make_shared<Rows<float>>(std::vector<std::vector<float>>{{3}, {-2}, {0}, {1}, {-1}},
                                         std::vector<float>{1, 0, 0, 0, last});
  };
  const auto judged = JudgeRows(text, data(1), 5);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  EXPECT_EQ(judged->judgement.confusion.Count(1, 1), 1);
  EXPECT_EQ(judged->judgement.confusion.Count(0, 0), 2);  // 0 says no
  EXPECT_EQ(judged->judgement.confusion.Count(0, 1), 1);
  EXPECT_EQ(judged->judgement.confusion.Count(1, 0), 1);
  EXPECT_DOUBLE_EQ(judged->judgement.areas[1], 4.0 / 6);
  EXPECT_NEAR(judged->judgement.cross_entropy, judged->report.metrics[0].second, 1e-12);
  EXPECT_THAT(JudgeRows(text, data(0.5F), 5).status().message(),
              HasSubstr("labels \"label\" of sample 4: expected 0 or 1, found 0.5"));
}

TEST(Judge, ComputedLabelsCountToo) {
  const std::string text = Network(3,
                                   "layer { name: \"again\" input: \"label\" reshape { dim: 1 } } "
                                   "layer { name: \"rows\" input: \"s\" reshape { dim: [1, 3] } } "
                                   "layer { name: \"loss\" input: \"rows\" input: \"again\" softmax_cross_entropy {} } "
                                   "objective: \"loss\"");
  const auto judged = JudgeRows(text, SixRows(), 4);
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  EXPECT_EQ(judged->judgement.labels, "again");
  EXPECT_EQ(judged->judgement.scores, "rows");
  EXPECT_EQ(judged->judgement.confusion.accuracy(), 2.0 / 5);
  EXPECT_EQ(judged->judgement.ignored, 1);
}

TEST(Judge, KeepsNoMoreScoresThanItMay) {
  const auto judged = JudgeRows(Network(3, kClassifier), SixRows(), 4, {.most_ranked = 9});
  ASSERT_TRUE(judged.ok()) << judged.status().message();
  EXPECT_EQ(judged->judgement.areas_missing, "the scores of more than 3 rows are too many to be ranked");
  EXPECT_TRUE(std::isnan(judged->judgement.mean_area));
  EXPECT_EQ(judged->judgement.confusion.accuracy(), 2.0 / 5);
  const auto likelihood = JudgeRows(Network(3, kClassifier), SixRows(), 4, {.by_class = false});
  ASSERT_TRUE(likelihood.ok()) << likelihood.status().message();
  EXPECT_EQ(likelihood->judgement.cross_entropy, judged->judgement.cross_entropy);
}

TEST(Judge, LabelsThatAreProbabilitiesAreNoClasses) {
  const auto data = std::make_shared<Rows<float>>(std::vector<std::vector<float>>{{1, 2, 3}},
                                                  std::vector<float>{0.2F, 0.3F, 0.5F}, 3);
  const auto judged =
      JudgeRows(Network(3,
                        "layer { name: \"loss\" input: \"s\" input: \"label\" softmax_cross_entropy {} } "
                        "objective: \"loss\"",
                        "shape { dim: 3 }"),
                data, 1);
  EXPECT_EQ(judged.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(judged.status().message(), "the labels \"label\" are a probability for each class, not a class");
}

// A network that no loss tells anything of, whose scores and labels are named.
TEST(Judge, LabelsThatDoNotGoWithTheScoresAreRefused) {
  const auto loaded =
      LoadNetworkText(Network(3,
                              "layer { name: \"e\" input: \"label\" embedding { entries: 3 width: 2 } } "
                              "layer { name: \"sum\" input: \"e\" reduce_mean {} } objective: \"sum\"",
                              "shape { dim: 2 } dtype: INT32 max_value: 3"),
                      "test.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto scores = FindClassScores(loaded->network, "s", "label");
  ASSERT_TRUE(scores.ok() && scores->has_value());
  CompileOptions options;
  options.fetch = {"s"};
  auto programs = Evaluator::CompilePrograms(loaded->network, loaded->source_map, OpRegistry::Builtin(), options, 4, 4);
  ASSERT_TRUE(programs.ok()) << programs.status().message();
  const auto session = Session::Create(*std::move(programs), {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::string message(Judge::Create(**scores, (*session)->program(0), {}).status().message());
  EXPECT_EQ(
      message,
      "scores \"s\" float32[4, 3]: expected a class for each row of them as the labels, found \"label\" int32[4, 2]");
}

// Seven classes: the label's score is the largest, the fifth, the sixth, tied at the edge, beside a NaN, and a NaN.
TEST(Judge, CountsLabelsAmongTheFiveHighestScores) {
  const auto data = std::make_shared<Rows<int32_t>>(std::vector<std::vector<float>>{{9, 1, 2, 3, 4, 5, 6},
                                                                                    {9, 8, 7, 6, 5, 4, 3},
                                                                                    {9, 8, 7, 6, 5, 4, 3},
                                                                                    {9, 8, 7, 6, 1, 1, 1},
                                                                                    {9, 8, 7, 6, 1, 1, 1},
                                                                                    {9, kNot, 7, 6, 5, 4, 3},
                                                                                    {9, kNot, 7, 6, 5, 4, 3}},
                                                    std::vector<int32_t>{0, 4, 5, 4, 5, 2, 1});
  for (const bool likelihood : {true, false}) {
    const auto judged = JudgeRows(Network(7, kClassifier), data, 3, {.likelihood = likelihood});
    ASSERT_TRUE(judged.ok()) << judged.status().message();
    EXPECT_EQ(judged->judgement.in_top, 4);
    EXPECT_EQ(judged->judgement.top_accuracy(), 4.0 / 7);
    EXPECT_EQ(judged->judgement.confusion.unpredicted(), 2);
    EXPECT_EQ(std::isnan(judged->judgement.cross_entropy), true);  // one row is no number
  }
  const auto few = JudgeRows(Network(3, kClassifier), SixRows(), 2);
  ASSERT_TRUE(few.ok()) << few.status().message();
  EXPECT_FALSE(few->judgement.in_top.has_value());
}

TEST(Judge, WithoutLikelihoodsTheClassesAreTheSame) {
  const auto with = JudgeRows(Network(3, kClassifier), SixRows(), 4);
  const auto without = JudgeRows(Network(3, kClassifier), SixRows(), 4, {.likelihood = false});
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_TRUE(std::isnan(without->judgement.cross_entropy));
  EXPECT_EQ(without->judgement.areas[0], with->judgement.areas[0]);
  for (int64_t label = 0; label < 3; ++label) {
    for (int64_t c = -1; c < 3; ++c) {
      EXPECT_EQ(without->judgement.confusion.Count(label, c), with->judgement.confusion.Count(label, c));
    }
  }
}

}  // namespace
}  // namespace snug::core
