// The watchdog names what is stuck, and what waits for it; it keeps quiet otherwise.
#include "engine/run/observe/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// What reports go to, and a kernel that does not return before it got enough of them.
struct Reports {
  std::mutex mu;
  std::condition_variable came;
  std::vector<std::string> texts;
  size_t enough = 1;

  void Add(const std::string& text) {
    const std::lock_guard<std::mutex> lock(mu);
    texts.push_back(text);
    came.notify_all();
  }
};

absl::Status BlocksUntilReported(const KernelContext& context) {
  Reports& reports = *context.prepared<Reports*>();
  std::unique_lock<std::mutex> lock(reports.mu);
  const bool came =
      reports.came.wait_for(lock, std::chrono::seconds(60), [&] { return reports.texts.size() >= reports.enough; });
  return came ? absl::OkStatus() : absl::InternalError("no report came");
}

Compiled CompileMlp(int streams) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
              {.batch = 4, .threads = 1, .keep_inputs = true, .memory = {.streams = streams}});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

// Whatever the machine is busy with, no Step but one that a test makes stuck takes long.
absl::Status DoesNothing(const KernelContext&) { return absl::OkStatus(); }

Compiled CompileMlpOfNothing(int streams) {
  Compiled compiled = CompileMlp(streams);
  for (Step& step : compiled.executable.steps) step.kernel = test::KernelOf(DoesNothing);
  return compiled;
}

std::string NodeName(const Compiled& compiled, int32_t step) {
  return compiled.graph.node(compiled.executable.steps[static_cast<size_t>(step)].node).name;
}

std::unique_ptr<Session> MakeWatched(Compiled compiled, ExecutorKind engine, double seconds, Reports& reports) {
  auto session = Session::Create(
      std::move(compiled),
      {.seed = 1, .engine = engine, .watchdog = {.seconds = seconds, .report = [&reports](const std::string& text) {
                                                   reports.Add(text);
                                                 }}});
  EXPECT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
  return *std::move(session);
}

class AnyEngine : public testing::TestWithParam<ExecutorInfo> {};

TEST_P(AnyEngine, NamesTheStepThatIsStuckAndReportsAgainAfterTwiceAsLong) {
  constexpr double kSeconds = 0.2;
  Reports reports;
  reports.enough = 3;
  Compiled compiled = CompileMlpOfNothing(2);
  const auto step = static_cast<int32_t>(compiled.executable.steps.size()) / 2;
  compiled.executable.steps[static_cast<size_t>(step)].kernel = test::KernelOf(BlocksUntilReported);
  compiled.executable.steps[static_cast<size_t>(step)].prepared = std::make_shared<Reports*>(&reports);
  const Node& node = compiled.graph.node(compiled.executable.steps[static_cast<size_t>(step)].node);
  const std::string expected = "running \"" + node.name + "\" (" + node.op + "), " + node.loc.ToString() + "\n";
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), GetParam().kind, kSeconds, reports);
  const int64_t begin = MonotonicNanoseconds();
  const absl::Status status = session->Run();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GE(static_cast<double>(MonotonicNanoseconds() - begin) * 1e-9, kSeconds * 4);
  const std::lock_guard<std::mutex> lock(reports.mu);
  for (const std::string& text : reports.texts) {
    EXPECT_THAT(text, HasSubstr("run 1 of \"mlp\""));
    EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_THAT(text, ContainsRegex("mlp\\.pbtxt:[0-9]+:[0-9]+"));
  }
}

INSTANTIATE_TEST_SUITE_P(Watchdog, AnyEngine, testing::ValuesIn(Executors()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Watchdog, SaysWhatOtherStreamsWaitFor) {
  Reports reports;
  Compiled compiled = CompileMlpOfNothing(2);
  const auto [a, b] = compiled.executable.schedule.waits[0];
  compiled.executable.steps[static_cast<size_t>(a)].kernel = test::KernelOf(BlocksUntilReported);
  compiled.executable.steps[static_cast<size_t>(a)].prepared = std::make_shared<Reports*>(&reports);
  const std::string stuck = NodeName(compiled, a), waiting = NodeName(compiled, b);
  const int32_t stream = compiled.executable.schedule.stream_of[static_cast<size_t>(a)];
  const std::unique_ptr<Session> session = MakeWatched(std::move(compiled), ExecutorKind::kReplay, 0.2, reports);
  EXPECT_TRUE(session->Run().ok());
  const std::lock_guard<std::mutex> lock(reports.mu);
  EXPECT_THAT(reports.texts[0], HasSubstr("running \"" + stuck + "\""));
  EXPECT_THAT(reports.texts[0], HasSubstr("waiting before \"" + waiting + "\""));
  EXPECT_THAT(reports.texts[0], ContainsRegex(", for \"" + stuck + "\" [^\n]* of stream " + std::to_string(stream)));
}

// The machine may stop a thread for as long as a stuck step would take, but not every time.
TEST(Watchdog, SaysNothingWhileStepsFinishNorBetweenRuns) {
  bool quiet = false;
  for (int attempt = 0; attempt < 5 && !quiet; ++attempt) {
    Reports reports;
    const std::unique_ptr<Session> session = MakeWatched(CompileMlpOfNothing(2), ExecutorKind::kReplay, 0.4, reports);
    const int64_t begin = MonotonicNanoseconds();
    while (static_cast<double>(MonotonicNanoseconds() - begin) * 1e-9 < 0.8) ASSERT_TRUE(session->Run().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    const std::lock_guard<std::mutex> lock(reports.mu);
    quiet = reports.texts.empty();
  }
  EXPECT_TRUE(quiet);
}

}  // namespace
}  // namespace snug::core
