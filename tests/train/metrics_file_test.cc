// The file of what a training measured goes on where the training does.
#include "engine/train/metrics_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "tests/checkpoint/temporary_folder.h"

namespace snug::core {
namespace {

Trainer::StepReport Report(int64_t step, double loss) {
  return {.step = step, .steps = 9, .metrics = {{"loss", loss}}};
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(MetricsFile, KeepsWhatIsNotDoneAgain) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::vector<MetricsFile::Line> kept;
  {
    const auto file = MetricsFile::Open(path, 0, &kept);
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const int64_t step : {1, 2}) ASSERT_TRUE((*file)->Step(Report(step, 0.5)).ok());
    Trainer::EvaluationReport evaluation{.step = 2};
    evaluation.evaluation.metrics = {{"loss", 0.25}, {"accuracy", 1}};
    ASSERT_TRUE((*file)->Evaluation(evaluation).ok());
    ASSERT_TRUE((*file)->Step(Report(3, 0.75)).ok());
  }
  std::ofstream(path, std::ios::app) << "{\"kind\": \"step\", \"st";  // as a machine leaves it that lost power
  const std::vector<std::string> before = LinesOf(path);
  ASSERT_TRUE(kept.empty());
  {
    const auto file = MetricsFile::Open(path, 2, &kept);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Step(Report(3, 0.75)).ok());
  }
  ASSERT_EQ(kept.size(), 3);
  EXPECT_EQ(kept[1].kind, MetricsFile::LineKind::kStep);
  EXPECT_EQ(kept[2].kind, MetricsFile::LineKind::kEvaluation);
  EXPECT_EQ(kept[2].step, 2);
  EXPECT_EQ(kept[2].metrics, (Metrics{{"loss", 0.25}, {"accuracy", 1}}));
  const std::vector<std::string> after = LinesOf(path);
  EXPECT_EQ(after, (std::vector<std::string>{before[0], before[1], before[2], before[3]}));
}

TEST(MetricsFile, ChangesAfterTheStepItGoesOnFromAreForTheCaller) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::vector<MetricsFile::Line> kept;
  {
    const auto file = MetricsFile::Open(path, 0, &kept);
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const int64_t step : {1, 2, 3}) {
      ASSERT_TRUE((*file)->Step(Report(step, 0.5)).ok());
      ASSERT_TRUE(
          (*file)->Change({.step = step, .name = "data-flip", .before = "its \"default\"", .after = "true"}).ok());
    }
  }
  const std::vector<std::string> before = LinesOf(path);
  ASSERT_EQ(before.size(), 6);
  EXPECT_EQ(before[1],
            R"({"kind": "change", "step": 1, "name": "data-flip", "before": "its \"default\"", "after": "true"})");
  ASSERT_TRUE(MetricsFile::Open(path, 2, &kept).ok());
  EXPECT_EQ(LinesOf(path), std::vector<std::string>(before.begin(), before.begin() + 3));
  EXPECT_EQ(kept.size(), 2);
}

TEST(MetricsFile, OneTrainingAtATimeWritesIt) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::vector<MetricsFile::Line> kept;
  EXPECT_TRUE(MetricsFile::CheckNobodyWrites(path).ok());  // there is none
  {
    const auto first = MetricsFile::Open(path, 0, &kept);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE((*first)->Step(Report(1, 0.5)).ok());
    const std::string expected =
        path + ": another training is writing here: wait for its end, or give another --output";
    EXPECT_EQ(MetricsFile::CheckNobodyWrites(path).message(), expected);
    EXPECT_EQ(MetricsFile::Open(path, 0, &kept).status().message(), expected);
    EXPECT_EQ(MetricsFile::Open(path, 1, &kept).status().message(), expected);
    EXPECT_TRUE(kept.empty());
    ASSERT_TRUE((*first)->Step(Report(2, 0.5)).ok());
    EXPECT_EQ(LinesOf(path).size(), 2);
  }
  EXPECT_TRUE(MetricsFile::CheckNobodyWrites(path).ok());
  EXPECT_TRUE(MetricsFile::Open(path, 2, &kept).ok());
  EXPECT_EQ(kept.size(), 2);
}

// A killed program's lock stays until the system has taken its memory back.
TEST(MetricsFile, ALockThatIsAboutToGoIsWaitedFor) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::vector<MetricsFile::Line> kept;
  auto first = MetricsFile::Open(path, 0, &kept);
  ASSERT_TRUE(first.ok()) << first.status().message();
  std::thread end([&first] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    first->reset();
  });
  const auto second = MetricsFile::Open(path, 0, &kept);
  end.join();
  EXPECT_TRUE(second.ok()) << second.status().message();
}

TEST(MetricsFile, NumbersThatAreNotFiniteAndLinesThatNobodyCanReadStay) {
  const checkpoint::TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  std::vector<MetricsFile::Line> kept;
  {
    const auto file = MetricsFile::Open(path, 0, &kept);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Step(Report(1, std::nan(""))).ok());
  }
  std::ofstream(path, std::ios::app) << "a user's remark\n";
  {
    const auto file = MetricsFile::Open(path, 1, &kept);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->Step(Report(2, 0.5)).ok());
  }
  ASSERT_EQ(kept.size(), 1);
  EXPECT_EQ(kept[0].step, 1);
  ASSERT_EQ(kept[0].metrics.size(), 1);
  EXPECT_EQ(kept[0].metrics[0].first, "loss");
  EXPECT_TRUE(std::isnan(kept[0].metrics[0].second));
  const std::vector<std::string> lines = LinesOf(path);
  ASSERT_EQ(lines.size(), 3);
  EXPECT_NE(lines[0].find("\"loss\": null"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], "a user's remark");
}

}  // namespace
}  // namespace snug::core
