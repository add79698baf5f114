// Means over several batches, of which some count more rows than others.
#include "engine/train/metrics.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/train/trainer.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

constexpr int64_t kSamples = 13, kRows = 4;

// Of the 4 labels of a sample, 0 to 4 are ignored.
class Ragged final : public Dataset {
 public:
  explicit Ragged(int32_t ignored)
      : Dataset({{.name = "x", .type = {DType::kFloat32, {kRows, 3}, {}}},
                 {.name = "label", .type = {DType::kInt32, {kRows}, {}}, .max_value = 2, .padding = ignored}},
                kSamples),
        ignored_(ignored) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    auto* const x = reinterpret_cast<float*>(fields[0]);
    auto* const labels = reinterpret_cast<int32_t*>(fields[1]);
    for (int64_t i = 0; i < kRows * 3; ++i)
      x[i] = static_cast<float>(std::sin(static_cast<double>(sample * 31 + i * 7)));
    for (int64_t i = 0; i < kRows; ++i) labels[i] = i < sample % 5 ? ignored_ : static_cast<int32_t>((sample + i) % 2);
    return absl::OkStatus();
  }

 private:
  int32_t ignored_;
};

// `labels` is the layer or input that the losses and metrics read.
std::string Network(const std::string& labels, const std::string& ignore) {
  return absl::StrCat(R"(
    name: "rows"
    input { name: "x" shape { dim: [4, 3] } }
    input { name: "label" shape { dim: 4 } dtype: INT32 }
    layer { name: "again" input: "label" reshape { dim: 4 } }
    layer { name: "fc" input: "x" dense { units: 3 } }
    layer { name: "log" input: "fc" log_softmax {} }
    layer { name: "loss" input: "fc" input: ")",
                      labels, "\" softmax_cross_entropy {", ignore, R"(} }
    layer { name: "likelihood" input: "log" input: ")",
                      labels, "\" nll_loss {", ignore, R"(} }
    layer { name: "right" input: "fc" input: ")",
                      labels, "\" accuracy {", ignore, R"(} }
    layer { name: "near" input: "fc" input: ")",
                      labels, "\" top_k_accuracy { k: 2 ", ignore, R"(} }
    layer { name: "size" input: "fc" reduce_mean {} }
    objective: "loss" output: ["likelihood", "right", "near", "size"])");
}

Metrics Evaluate(const std::string& text, int32_t ignored, int64_t batch) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test.pbtxt");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return {};
  const auto data = std::make_shared<const Ragged>(ignored);
  const TrainerOptions options{.compile = {.batch = batch, .precision = DType::kFloat64}};
  const auto trainer = Trainer::Create(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                                       loaded->network.training(), {data, data}, options);
  EXPECT_TRUE(trainer.ok()) << trainer.status().message();
  if (!trainer.ok()) return {};
  const absl::StatusOr<Trainer::EvaluationReport> report = (*trainer)->Evaluate();
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report->evaluation.metrics : Metrics();
}

TEST(MeanMetrics, CountEveryRowOnceWhateverTheBatch) {
  for (const auto& [ignore, ignored] : {std::pair<const char*, int32_t>{"", -100}, {"ignore_index: 2", 2}}) {
    for (const char* const labels : {"label", "again", "again:0"}) {
      const std::string text = Network(labels, ignore);
      const Metrics whole = Evaluate(text, ignored, kSamples);
      ASSERT_EQ(whole.size(), 5u);
      EXPECT_EQ(whole[0].first, "loss");
      EXPECT_NEAR(whole[0].second, whole[1].second, 1e-12);  // they are one
      for (const int64_t batch : {1, 2, 5, 12}) {            // some batches of 1 have no row that counts
        const Metrics parts = Evaluate(text, ignored, batch);
        ASSERT_EQ(parts.size(), whole.size());
        for (size_t i = 0; i < parts.size(); ++i) {
          EXPECT_EQ(parts[i].first, whole[i].first);
          EXPECT_NEAR(parts[i].second, whole[i].second, 1e-12) << labels << " " << batch << " " << parts[i].first;
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug::core
