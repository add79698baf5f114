#include "tools/runs/run_follower.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "engine/train/metrics_file.h"
#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::runs {
namespace {

using Kind = RunFollower::Kind;

std::string StepLine(int64_t step, double loss) {
  return absl::StrFormat(
      "{\"kind\": \"step\", \"step\": %d, \"loss\": %.6g, \"epoch\": 0, \"learning_rate\": 0.5, \"seconds\": 0.25}\n",
      step, loss);
}

class RunFollowerTest : public testing::Test {
 protected:
  RunFollowerTest() : folder_(temporary_.path("run")) {}

  void MakeFolder() { std::filesystem::create_directory(folder_.path()); }
  void Append(const std::string& text) { std::ofstream(folder_.metrics(), std::ios::app) << text; }
  // As a training that goes on does: another file takes the place of the first.
  void Replace(const std::string& text) {
    std::ofstream(folder_.metrics() + ".new") << text;
    std::filesystem::rename(folder_.metrics() + ".new", folder_.metrics());
  }
  static size_t PointsOf(const RunFollower& run) {
    const RunFollower::Curve* const loss = run.Find(Kind::kTraining, "loss");
    return loss == nullptr ? 0 : loss->points.points().size();
  }

  const checkpoint::TemporaryFolder temporary_;
  const RunFolder folder_;
};

TEST_F(RunFollowerTest, WaitsForAFolderAndAFileThatAreYetToCome) {
  RunFollower run(folder_);
  EXPECT_FALSE(run.Poll());
  EXPECT_EQ(run.state(), RunState::kWaiting);
  MakeFolder();
  run.Poll();
  EXPECT_EQ(run.state(), RunState::kWaiting);
  Append(StepLine(1, 2));
  run.Poll();
  EXPECT_EQ(PointsOf(run), 1u);
  EXPECT_EQ(run.state(), RunState::kEnded);  // nobody has it open, and nothing tells how it ended
  EXPECT_EQ(run.beginnings(), 0);
}

TEST_F(RunFollowerTest, ALastLineWaitsForItsEnd) {
  MakeFolder();
  RunFollower run(folder_);
  const std::string line = StepLine(1, 2);
  for (const char letter : line) {
    EXPECT_EQ(PointsOf(run), 0u);
    Append(std::string(1, letter));
    run.Poll();
  }
  EXPECT_EQ(PointsOf(run), 1u);
  EXPECT_EQ(run.unreadable_lines(), 0);
}

TEST_F(RunFollowerTest, AFileThatIsReplacedIsReadAnew) {
  MakeFolder();
  RunFollower run(folder_);
  Append(StepLine(1, 2) + StepLine(2, 1) + StepLine(3, 0.5));
  run.Poll();
  ASSERT_EQ(PointsOf(run), 3u);
  Replace(StepLine(1, 2) + StepLine(2, 1));
  run.Poll();
  EXPECT_EQ(PointsOf(run), 2u);
  EXPECT_EQ(run.beginnings(), 1);
  Append(StepLine(3, 0.25));
  run.Poll();
  EXPECT_EQ(PointsOf(run), 3u);
  EXPECT_EQ(run.beginnings(), 1);
  EXPECT_EQ(run.Find(Kind::kTraining, "loss")->points.last(), 0.25);
}

TEST_F(RunFollowerTest, AFileThatIsWrittenAnewInPlaceIsReadAnew) {
  MakeFolder();
  RunFollower run(folder_);
  Append(StepLine(1, 2) + StepLine(2, 1));
  run.Poll();
  std::ofstream(folder_.metrics()) << StepLine(1, 7) << StepLine(2, 6) << StepLine(3, 5);  // larger than what was read
  run.Poll();
  EXPECT_EQ(run.beginnings(), 1);
  ASSERT_EQ(PointsOf(run), 3u);
  EXPECT_EQ(run.Find(Kind::kTraining, "loss")->points.points()[0].mean, 7);
  std::ofstream(folder_.metrics()) << "";
  run.Poll();
  EXPECT_EQ(PointsOf(run), 0u);
}

TEST_F(RunFollowerTest, LinesOfNobodyAreCountedAndLeftOut) {
  MakeFolder();
  RunFollower run(folder_);
  Append("rubbish\n" + StepLine(1, 2) + std::string(200'000, 'x') + "\n" + StepLine(2, 1) + std::string("\0\0\n", 3));
  run.PollToTheEnd();
  EXPECT_EQ(PointsOf(run), 2u);
  EXPECT_EQ(run.unreadable_lines(), 3);
}

TEST_F(RunFollowerTest, ManyMetricsTakeNoMoreThanTheirRoom) {
  MakeFolder();
  RunFollower run(folder_);
  for (int i = 0; i < 500; ++i) {
    Append(absl::StrCat("{\"kind\": \"step\", \"step\": ", i, ", \"m", i, "\": 1}\n"));
  }
  run.PollToTheEnd();
  EXPECT_EQ(run.lines(), 500);
  EXPECT_LE(run.curves().size(), 130u);
}

TEST_F(RunFollowerTest, TheLastConfusionIsReadWhenItIsAnother) {
  MakeFolder();
  Append(StepLine(1, 2));
  RunFollower run(folder_);
  run.Poll();
  EXPECT_FALSE(run.confusion().has_value());
  const int64_t none = run.confusions();
  ConfusionRecord record{
      .step = 1, .rows = 2, .right = 1, .classes = 2, .occurring = 1, .each = {{.rows = 2, .right = 0}}};
  ASSERT_TRUE(record.WriteTo(folder_).ok());
  run.Poll();
  ASSERT_TRUE(run.confusion().has_value());
  EXPECT_EQ(run.confusion()->step, 1);
  const int64_t first = run.confusions();
  EXPECT_GT(first, none);
  run.Poll();
  EXPECT_EQ(run.confusions(), first);  // nothing has changed
  record.step = 20;
  ASSERT_TRUE(record.WriteTo(folder_).ok());
  run.Poll();
  EXPECT_EQ(run.confusion()->step, 20);
  std::ofstream(folder_.confusion()) << "[[[";
  run.Poll();
  EXPECT_FALSE(run.confusion().has_value());
  EXPECT_NE(run.confusion_problem().find("confusion.json: byte 0: expected an object"), std::string::npos)
      << run.confusion_problem();
  const int64_t broken = run.confusions();
  std::filesystem::remove(folder_.confusion());
  run.Poll();
  EXPECT_EQ(run.confusion_problem(), "");
  EXPECT_GT(run.confusions(), broken);
  std::filesystem::create_symlink("/etc/passwd", folder_.confusion());
  run.Poll();
  run.Poll();
  EXPECT_NE(run.confusion_problem().find("expected a file, found a link"), std::string::npos);
}

TEST_F(RunFollowerTest, SaysWhatCannotBeRead) {
  MakeFolder();
  std::filesystem::create_directory(folder_.metrics());
  RunFollower run(folder_);
  run.Poll();
  EXPECT_NE(run.problem().find("expected a file, found a folder"), std::string::npos) << run.problem();
  std::filesystem::remove(folder_.metrics());
  ASSERT_EQ(mkfifo(folder_.metrics().c_str(), 0600), 0);
  run.Poll();  // and does not wait for whoever writes to it
  EXPECT_NE(run.problem().find("expected a file"), std::string::npos);
}

TEST_F(RunFollowerTest, FollowsNoLinkOutOfTheFolder) {
  MakeFolder();
  std::ofstream(temporary_.path("elsewhere")) << StepLine(1, 2);
  std::filesystem::create_symlink(temporary_.path("elsewhere"), folder_.metrics());
  std::filesystem::create_symlink(temporary_.path("elsewhere"), folder_.record());
  RunFollower run(folder_);
  run.Poll();
  EXPECT_EQ(run.lines(), 0);
  EXPECT_NE(run.problem().find("expected a file, found a link"), std::string::npos) << run.problem();
  EXPECT_NE(run.record_problem().find("expected a file, found a link"), std::string::npos) << run.record_problem();
  std::filesystem::create_directory_symlink(folder_.path(), temporary_.path("link"));
  std::filesystem::remove(folder_.metrics());
  Append(StepLine(1, 2));
  RunFollower by_link{RunFolder(temporary_.path("link"))};  // that the folder is a link is whoever's wish who names it
  by_link.Poll();
  EXPECT_EQ(by_link.lines(), 1);
}

TEST_F(RunFollowerTest, SaysWhyARecordCannotBeRead) {
  MakeFolder();
  Append(StepLine(1, 2));
  RunFollower run(folder_);
  run.Poll();
  EXPECT_EQ(run.record_problem(), "");  // none is there: older trainings left none
  for (const char* text : {"{\"state_bytes\": -5}", "[[[[", ""}) {
    std::ofstream(folder_.record()) << text;
    run.Poll();
    EXPECT_NE(run.record_problem().find("run.json: byte "), std::string::npos) << run.record_problem();
    EXPECT_EQ(run.problem(), "");
    EXPECT_EQ(run.lines(), 1);
  }
  ASSERT_TRUE(RunRecord{.network = "n"}.WriteTo(folder_).ok());
  run.Poll();
  EXPECT_EQ(run.record_problem(), "");
}

// A training that says how it ended, and lets go of the metrics after that, was never killed, whenever one looks.
TEST_F(RunFollowerTest, ATrainingThatEndsIsNotGoneForAMoment) {
  MakeFolder();
  RunRecord record{.network = "n", .state = "done"};
  ASSERT_TRUE(record.WriteTo(folder_).ok());
  std::atomic<int> polls = 0;
  std::atomic<bool> ended = false;
  std::thread trainer([&] {
    for (int training = 0; training < 300; ++training) {
      {
        std::vector<MetricsFile::Line> kept;
        const auto file = MetricsFile::Open(folder_.metrics(), 0, &kept);
        EXPECT_TRUE(file.ok());
        record.state = "running";
        EXPECT_TRUE(record.WriteTo(folder_).ok());
        const int before = polls;
        while (polls == before) std::this_thread::yield();
        record.state = "done";
        EXPECT_TRUE(record.WriteTo(folder_).ok());
      }
      const int before = polls;  // until one look has begun and ended, nothing else happens
      while (polls < before + 2) std::this_thread::yield();
    }
    ended = true;
  });
  RunFollower run(folder_);
  int gone = 0;
  while (!ended) {
    run.Poll();
    gone += run.state() == RunState::kGone;
    ++polls;
  }
  trainer.join();
  EXPECT_EQ(gone, 0);
}

TEST_F(RunFollowerTest, KnowsHowMuchOfTheTimeDataWereWaitedFor) {
  MakeFolder();
  RunFollower run(folder_);
  Append(StepLine(1, 2));  // of a version that did not say
  run.Poll();
  EXPECT_FALSE(run.waited_share().has_value());
  EXPECT_EQ(run.Find(Kind::kWaited), nullptr);
  std::vector<MetricsFile::Line> kept;
  const auto file = MetricsFile::Open(folder_.metrics(), 1, &kept);
  ASSERT_TRUE(file.ok());
  for (const int64_t step : {2, 3}) {
    const int64_t waited_ns = step == 2 ? 250'000'000 : 0;
    ASSERT_TRUE(
        (*file)
            ->Step({.step = step, .steps = 4, .end_ns = 500'000'000, .waited_ns = waited_ns, .metrics = {{"loss", 1}}})
            .ok());
  }
  run.Poll();
  EXPECT_EQ(run.waited_share(), 0.25);
  const RunFollower::Curve* const waited = run.Find(Kind::kWaited);
  ASSERT_NE(waited, nullptr);
  ASSERT_EQ(waited->points.points().size(), 2u);
  EXPECT_EQ(waited->points.points()[0].mean, 50);
  EXPECT_EQ(waited->points.points()[1].mean, 0);
  EXPECT_EQ(run.Find(Kind::kTraining, "waited"), nullptr);
  for (const char* const no_share : {"-1", "7", "null", "1e300"}) {
    Append(absl::StrFormat("{\"kind\": \"step\", \"step\": 4, \"seconds\": 1, \"waited\": %s}\n", no_share));
    run.Poll();
    EXPECT_FALSE(run.waited_share().has_value()) << no_share;
  }
}

TEST_F(RunFollowerTest, KnowsWhoRunsAndWhoEnded) {
  MakeFolder();
  RunRecord record{.network = "n", .batch = 8, .steps = 4};
  ASSERT_TRUE(record.WriteTo(folder_).ok());
  RunFollower run(folder_, /*stalled_after_seconds=*/30);
  std::vector<MetricsFile::Line> kept;
  {
    const auto file = MetricsFile::Open(folder_.metrics(), 0, &kept);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Step({.step = 1, .steps = 4, .end_ns = 500'000'000, .metrics = {{"loss", 1}}}).ok());
    run.Poll();
    EXPECT_EQ(run.state(), RunState::kRunning);
    EXPECT_EQ(run.samples_per_second(), 16);
    EXPECT_EQ(run.seconds_left(), 1.5);
    const struct utimbuf old = {.actime = std::time(nullptr) - 60, .modtime = std::time(nullptr) - 60};
    ASSERT_EQ(utime(folder_.metrics().c_str(), &old), 0);
    run.Poll();
    EXPECT_EQ(run.state(), RunState::kStalled);
  }
  run.Poll();
  EXPECT_EQ(run.state(), RunState::kGone);
  for (const auto& [said, expected] : {std::pair<const char*, RunState>{"done", RunState::kDone},
                                       {"stopped", RunState::kStopped},
                                       {"failed", RunState::kFailed}}) {
    record.state = said;
    ASSERT_TRUE(record.WriteTo(folder_).ok());
    run.Poll();
    EXPECT_EQ(run.state(), expected);
  }
}

// A writer that appends pieces of any length, replaces the file, and cuts it: what is read in the end is what is there.
TEST_F(RunFollowerTest, WhateverTheWriterDoesTheEndIsWhatIsThere) {
  MakeFolder();
  std::mt19937 random(11);
  RunFollower run(folder_);
  std::string content;
  int64_t step = 0;
  for (int round = 0; round < 400; ++round) {
    const unsigned what = random() % 20;
    if (what == 0) {
      content.resize(random() % (content.size() + 1));
      content.resize(content.rfind('\n') == std::string::npos ? 0 : content.rfind('\n') + 1);
      Replace(content);
    } else {
      std::string more;
      for (unsigned lines = random() % 4; lines > 0; --lines) {
        ++step;
        more += StepLine(step, 1.0 / static_cast<double>(step));
      }
      const size_t cut = random() % (more.size() + 1);
      Append(more.substr(0, cut));
      if (random() % 2 == 0) run.Poll();
      Append(more.substr(cut));
      content += more;
    }
    if (random() % 3 == 0) run.Poll();
  }
  run.PollToTheEnd();
  RunFollower fresh(folder_);
  fresh.PollToTheEnd();
  EXPECT_EQ(run.lines(), std::count(content.begin(), content.end(), '\n'));
  EXPECT_EQ(run.lines(), fresh.lines());
  EXPECT_EQ(run.unreadable_lines(), 0);
  ASSERT_EQ(PointsOf(run), PointsOf(fresh));
  EXPECT_EQ(run.training_seconds(), fresh.training_seconds());
}

}  // namespace
}  // namespace snug::core::runs
