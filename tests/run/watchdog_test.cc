// The watchdog names what is stuck, and what waits for it; it keeps quiet otherwise. Its limit is counted by a clock
// that only the test moves, so that nothing here depends on how fast anything runs.
#include "engine/run/observe/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kSeconds = 0.01;  // the limit

// The clock and the reports of a watchdog. Both it and a kernel under its eyes use them.
class Watch {
 public:
  WatchdogOptions Options() {
    return {.seconds = kSeconds,
            .report =
                [this](const std::string& text) {
                  const std::lock_guard<std::mutex> lock(mu_);
                  reports_.push_back(text);
                },
            .now =
                [this] {
                  ++reads_;
                  return WatchdogOptions::Clock::time_point(std::chrono::nanoseconds(nanoseconds_.load()));
                }};
  }

  std::vector<std::string> Reports() {
    const std::lock_guard<std::mutex> lock(mu_);
    return reports_;
  }

  // The clock, in limits.
  double Now() const { return static_cast<double>(nanoseconds_) * 1e-9 / kSeconds; }
  void MoveTo(double limits) { nanoseconds_ = std::llround(limits * kSeconds * 1e9); }
  void Advance(double limits) { nanoseconds_ += std::llround(limits * kSeconds * 1e9); }

  // Returns when a look has ended that began after the call: in each, the clock is read once or twice.
  void WaitForALook() const {
    const int64_t before = reads_;
    while (reads_ < before + 4) std::this_thread::yield();
  }

 private:
  std::atomic<int64_t> nanoseconds_ = 0;
  std::atomic<int64_t> reads_ = 0;
  std::mutex mu_;  // guards reports_
  std::vector<std::string> reports_;
};

// A network whose kernels do nothing, which a test replaces where it wants to.
Compiled CompileMlpOfNothing(int streams) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
              {.batch = 4, .threads = 1, .keep_inputs = true, .memory = {.streams = streams}});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  for (Step& step : compiled->executable.steps) {
    step.kernel = test::KernelOf([](const KernelContext&) { return absl::OkStatus(); });
  }
  return *std::move(compiled);
}

const Node& NodeOf(const Compiled& compiled, int32_t step) {
  return compiled.graph.node(compiled.executable.steps[static_cast<size_t>(step)].node);
}

std::unique_ptr<Session> MakeWatched(Compiled compiled, ExecutorKind engine, Watch& watch) {
  auto session = Session::Create(std::move(compiled), {.seed = 1, .engine = engine, .watchdog = watch.Options()});
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  return *std::move(session);
}

class AnyEngine : public testing::TestWithParam<ExecutorInfo> {};

// On two streams other Steps may end meanwhile, and the watchdog then counts anew: so no report comes too soon.
TEST_P(AnyEngine, NamesTheStepThatIsStuckAndReportsAgainAfterTwiceAsLong) {
  Watch watch;
  std::vector<double> seen;  // by report: how long the Step had been stuck, at least
  Compiled compiled = CompileMlpOfNothing(2);
  const auto step = static_cast<int32_t>(compiled.executable.steps.size()) / 2;
  compiled.executable.steps[static_cast<size_t>(step)].kernel = test::KernelOf([&](const KernelContext&) {
    for (int look = 0; look < 10'000; ++look) {
      watch.WaitForALook();
      while (seen.size() < watch.Reports().size()) seen.push_back(watch.Now());
      if (seen.size() >= 3) return absl::OkStatus();
      watch.Advance(0.25);
    }
    return absl::InternalError("no report came");
  });
  const Node& node = NodeOf(compiled, step);
  const std::string expected = "running \"" + node.name + "\" (" + node.op + "), " + node.loc.ToString() + "\n";
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), GetParam().kind, watch);
  const absl::Status status = session->Run();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GE(seen[0], 1);
  EXPECT_GE(seen[1], 2);
  EXPECT_GE(seen[2], 4);
  for (const std::string& text : watch.Reports()) {
    EXPECT_THAT(text, HasSubstr("run 1 of \"mlp\""));
    EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_THAT(text, ContainsRegex("mlp\\.pbtxt:[0-9]+:[0-9]+"));
  }
}

TEST_P(AnyEngine, ReportsWhenTheLimitIsOverAndNotBefore) {
  Watch watch;
  std::vector<size_t> reports;
  Compiled compiled = CompileMlpOfNothing(1);
  Step& stuck = compiled.executable.steps[compiled.executable.steps.size() / 2];
  stuck.kernel = test::KernelOf([&](const KernelContext&) {
    watch.WaitForALook();
    for (const double now : {0.99, 1.01, 1.99, 2.01, 3.99, 4.01}) {
      watch.MoveTo(now);
      watch.WaitForALook();
      reports.push_back(watch.Reports().size());
    }
    return absl::OkStatus();
  });
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), GetParam().kind, watch);
  EXPECT_TRUE(session->Run().ok());
  EXPECT_THAT(reports, ElementsAre(0, 1, 1, 2, 2, 3));
}

TEST_P(AnyEngine, SaysNothingWhileStepsFinishNorBetweenRuns) {
  Watch watch;
  Compiled compiled = CompileMlpOfNothing(1);
  for (Step& step : compiled.executable.steps) {
    step.kernel = test::KernelOf([&](const KernelContext&) {
      watch.WaitForALook();
      watch.Advance(0.9);
      watch.WaitForALook();
      return absl::OkStatus();
    });
  }
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), GetParam().kind, watch);
  for (int run = 0; run < 2; ++run) {
    EXPECT_TRUE(session->Run().ok());
    for (int look = 0; look < 2; ++look) {
      watch.Advance(10);
      watch.WaitForALook();
    }
  }
  EXPECT_GT(watch.Now(), 40);
  EXPECT_THAT(watch.Reports(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Watchdog, AnyEngine, testing::ValuesIn(Executors()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Watchdog, SaysWhatOtherStreamsWaitFor) {
  Watch watch;
  Compiled compiled = CompileMlpOfNothing(2);
  const auto [a, b] = compiled.executable.schedule.waits[0];
  const std::string stuck = NodeOf(compiled, a).name, waiting = NodeOf(compiled, b).name;
  const int32_t stream = compiled.executable.schedule.stream_of[static_cast<size_t>(a)];
  const auto other = static_cast<size_t>(compiled.executable.schedule.stream_of[static_cast<size_t>(b)]);
  Session* watched = nullptr;
  compiled.executable.steps[static_cast<size_t>(a)].kernel =
      test::KernelOf([&, last = b](const KernelContext&) -> absl::Status {
        while (watched->executor().Running()[other] != Executor::At{last, true}) std::this_thread::yield();
        watch.WaitForALook();
        watch.Advance(1.01);
        watch.WaitForALook();
        return absl::OkStatus();
      });
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), ExecutorKind::kReplay, watch);
  watched = session.get();
  EXPECT_TRUE(session->Run().ok());
  const std::vector<std::string> reports = watch.Reports();
  ASSERT_EQ(reports.size(), 1);
  EXPECT_THAT(reports[0], HasSubstr("running \"" + stuck + "\""));
  EXPECT_THAT(reports[0], HasSubstr("waiting before \"" + waiting + "\""));
  EXPECT_THAT(reports[0], ContainsRegex(", for \"" + stuck + "\" [^\n]* of stream " + std::to_string(stream)));
}

}  // namespace
}  // namespace snug::core
