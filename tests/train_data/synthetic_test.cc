#include "engine/train/data/synthetic.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/base/hash.h"
#include "engine/train/data/synthetic/tasks.h"
#include "tests/train_data/test_files.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Dataset> Make(absl::string_view task, const SyntheticOptions& options) {
  auto dataset = MakeSynthetic(task, options);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  return *std::move(dataset);
}

// Both fields of the first samples.
uint64_t HashOf(const Dataset& dataset) {
  std::string bytes;
  for (int64_t i = 0; i < 20; ++i) {
    const Sample sample(dataset, i);
    for (size_t f = 0; f < 2; ++f) {
      bytes += dataset.fields()[f].type.dtype == DType::kFloat32 ? BytesOf(sample.Field<float>(f))
                                                                 : BytesOf(sample.Field<int32_t>(f));
    }
  }
  return HashName(bytes);
}

struct Labelled {
  std::vector<std::vector<float>> inputs;
  std::vector<int32_t> labels;
};
Labelled Take(const Dataset& dataset, int64_t n) {
  Labelled taken;
  for (int64_t i = 0; i < n; ++i) {
    const Sample sample(dataset, i);
    taken.inputs.push_back(sample.Field<float>(0));
    taken.labels.push_back(sample.Field<int32_t>(1)[0]);
  }
  return taken;
}

size_t Nearest(const std::vector<std::vector<float>>& points, const std::vector<float>& to) {
  size_t nearest = 0;
  float least = INFINITY;
  for (size_t i = 0; i < points.size(); ++i) {
    float distance = 0;
    for (size_t j = 0; j < to.size(); ++j) distance += (points[i][j] - to[j]) * (points[i][j] - to[j]);
    if (distance >= least) continue;
    least = distance;
    nearest = i;
  }
  return nearest;
}

// The fraction of held-back samples that have the label of the nearest training sample.
double NearestNeighbour(const Labelled& training, const Labelled& held_back) {
  int right = 0;
  for (size_t i = 0; i < held_back.labels.size(); ++i) {
    right += training.labels[Nearest(training.inputs, held_back.inputs[i])] == held_back.labels[i] ? 1 : 0;
  }
  return right / static_cast<double>(held_back.labels.size());
}

// ... of the nearest class mean.
double NearestMean(const Labelled& training, const Labelled& held_back) {
  std::vector<std::vector<float>> means(10, std::vector<float>(training.inputs[0].size()));
  std::array<float, 10> counts = {};
  for (size_t i = 0; i < training.labels.size(); ++i) {
    const auto label = static_cast<size_t>(training.labels[i]);
    ++counts[label];
    for (size_t j = 0; j < means[label].size(); ++j) means[label][j] += training.inputs[i][j];
  }
  for (size_t c = 0; c < means.size(); ++c) {
    for (float& x : means[c]) x /= counts[c];
  }
  return NearestNeighbour({means, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, held_back);
}

// The same bytes on every machine and in every release: results that were published stay comparable.
TEST(Synthetic, SamplesNeverChange) {
  EXPECT_EQ(HashOf(*Make("digits", {.seed = 1})), 762227670445523185U);
  EXPECT_EQ(HashOf(*Make("digits", {.seed = 1, .held_back = true})), 8568338546357980392U);
  EXPECT_EQ(HashOf(*Make("textures", {.seed = 1})), 5329729280438840222U);
  EXPECT_EQ(HashOf(*Make("spiral", {.seed = 1})), 18218381283208461477U);
  EXPECT_EQ(HashOf(*Make("copy", {.seed = 1})), 10017947140185422595U);
}

TEST(Synthetic, SeedAndPartMakeOtherSamples) {
  for (const SyntheticTask& task : SyntheticTasks()) {
    const uint64_t hash = HashOf(*Make(task.name, {.seed = 1}));
    EXPECT_EQ(HashOf(*Make(task.name, {.seed = 1, .samples = 20})), hash) << task.name;
    EXPECT_NE(HashOf(*Make(task.name, {.seed = 2})), hash) << task.name;
    EXPECT_NE(HashOf(*Make(task.name, {.seed = 1, .held_back = true})), hash) << task.name;
  }
}

TEST(Synthetic, SizesAndErrors) {
  EXPECT_EQ(Make("digits", {})->size(), 60000);
  EXPECT_EQ(Make("digits", {.held_back = true})->size(), 10000);
  EXPECT_EQ(Make("digits", {.samples = 7})->size(), 7);
  EXPECT_EQ(MakeSynthetic("digits", {.samples = -1}).status().message(),
            "samples of \"digits\": expected at least 1, found -1");
  EXPECT_EQ(MakeSynthetic("digit", {}).status().message(),
            "no built-in data \"digit\": expected one of digits, textures, spiral, copy; did you mean \"digits\"?");
}

TEST(Synthetic, ImagesHave256LevelsAndBalancedLabels) {
  for (const absl::string_view task : {"digits", "textures"}) {
    const Labelled samples = Take(*Make(task, {.seed = 3}), 1000);
    std::array<int, 10> counts = {};
    for (const int32_t label : samples.labels) ++counts[static_cast<size_t>(label)];
    for (const int count : counts) EXPECT_NEAR(count, 100, 40) << task;
    for (const float pixel : samples.inputs[0]) EXPECT_EQ(pixel, std::round(pixel * 255) / 255) << task;
  }
}

// Neither solved by a mean image of each class, nor noise.
TEST(Synthetic, DigitsAreNeitherTrivialNorNoise) {
  const Labelled training = Take(*Make("digits", {.seed = 1}), 1000);
  const Labelled held_back = Take(*Make("digits", {.seed = 1, .held_back = true}), 200);
  EXPECT_LT(NearestMean(training, held_back), 0.85);
  EXPECT_GT(NearestNeighbour(training, held_back), 0.4);
}

TEST(Synthetic, TexturesHideFromPixels) {
  const Labelled training = Take(*Make("textures", {.seed = 1}), 500);
  const Labelled held_back = Take(*Make("textures", {.seed = 1, .held_back = true}), 200);
  EXPECT_LT(NearestMean(training, held_back), 0.25);
  EXPECT_LT(NearestNeighbour(training, held_back), 0.4);
}

TEST(Synthetic, SpiralsArmsAreApart) {
  const Labelled training = Take(*Make("spiral", {.seed = 1}), 3000);
  const Labelled held_back = Take(*Make("spiral", {.seed = 1, .held_back = true}), 500);
  EXPECT_GT(NearestNeighbour(training, held_back), 0.97);
  EXPECT_LT(NearestMean(training, held_back), 0.6);
}

TEST(Synthetic, CopyAsksForWhatCameBefore) {
  const auto dataset = Make("copy", {.seed = 1});
  for (int64_t i = 0; i < 50; ++i) {
    const Sample sample(*dataset, i);
    const std::vector<int32_t> tokens = sample.Field<int32_t>(0);
    const std::vector<int32_t> labels = sample.Field<int32_t>(1);
    EXPECT_EQ(tokens[16], 0);
    for (size_t t = 0; t < 32; ++t) {
      EXPECT_TRUE(t == 16 ? tokens[t] == 0 : tokens[t] > 0 && tokens[t] < 32);
      EXPECT_EQ(labels[t], t < 16 ? kIgnoredLabel : tokens[t - 16]);
      if (t > 16) {
        EXPECT_EQ(tokens[t], labels[t - 1]);
      }
    }
  }
}

TEST(Turns, AreNearTheSine) {
  for (int i = -3000; i < 3000; ++i) {
    const float turns = static_cast<float>(i) / 1000;
    EXPECT_NEAR(SineOfTurns(turns), std::sin(2 * M_PI * turns), 0.0018) << turns;
    EXPECT_NEAR(CosineOfTurns(turns), std::cos(2 * M_PI * turns), 0.0018) << turns;
  }
}

}  // namespace
}  // namespace snug::core
