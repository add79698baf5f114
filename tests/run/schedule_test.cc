// The waits between streams: none is missing, none is too many; and whoever runs the Steps keeps to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "engine/run/executors/executor.h"
#include "tests/run/schedule_util.h"
#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using test::RandomSteps;

TEST(Schedule, EveryConflictIsOrderedAndNoWaitCanBeLeftOut) {
  int64_t all_waits = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(seed);
    const RandomSteps steps = test::MakeRandomSteps(seed);
    const Schedule schedule = ScheduleStreams(steps.accesses, steps.stream_of, steps.streams);
    const auto pairs = test::ConflictingPairs(steps.accesses);
    ASSERT_TRUE(test::AllOrdered(pairs, test::Reach(schedule, schedule.waits)));
    all_waits += static_cast<int64_t>(schedule.waits.size());
    for (size_t left_out = 0; left_out < schedule.waits.size(); ++left_out) {
      auto waits = schedule.waits;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(left_out));
      ASSERT_FALSE(test::AllOrdered(pairs, test::Reach(schedule, waits)))
          << schedule.waits[left_out].first << " -> " << schedule.waits[left_out].second;
    }
  }
  EXPECT_GT(all_waits, 10'000);
}

TEST(Schedule, TasksGoWhereTheyCanBeginFirst) {
  // A long chain a0-a1-a2 and two short tasks that need nothing: those go to the other stream.
  memory::Tasks tasks;
  tasks.names = {"a0", "a1", "a2", "b0", "b1"};
  tasks.cost = {3, 3, 3, 2, 2};
  tasks.values.push_back({.name = "x", .size_bytes = 64, .producer = 0, .readers = {1}});
  tasks.values.push_back({.name = "y", .size_bytes = 64, .producer = 1, .readers = {2}});
  EXPECT_EQ(AssignStreams(tasks, {0, 1, 2, 3, 4}, 2), (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(AssignStreams(tasks, {3, 0, 1, 4, 2}, 2), (std::vector<int32_t>{0, 1, 1, 0, 1}));
  EXPECT_EQ(AssignStreams(tasks, {0, 1, 2, 3, 4}, 1), (std::vector<int32_t>{0, 0, 0, 0, 0}));
}

class EveryEngine : public testing::TestWithParam<ExecutorInfo> {};

void CheckOrder(ExecutorKind engine, uint64_t seeds) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    const RandomSteps steps = test::MakeRandomSteps(seed);
    const auto noted = test::MakeNoted(steps.accesses, ScheduleStreams(steps.accesses, steps.stream_of, steps.streams));
    auto executor = MakeExecutor(engine, noted->executable, {}, nullptr);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    const auto pairs = test::ConflictingPairs(steps.accesses);
    for (int round = 0; round < 2; ++round) ASSERT_NO_FATAL_FAILURE(test::RunAndCheckOrder(**executor, *noted, pairs));
  }
}

TEST_P(EveryEngine, RunsConflictingStepsInOrder) { CheckOrder(GetParam().kind, 300); }

TEST_P(EveryEngine, CampaignRunsConflictingStepsInOrder) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a long one: set SNUG_CAMPAIGN";
  CheckOrder(GetParam().kind, 10'000);
}

TEST_P(EveryEngine, AFailingStepStopsWhatNeedsItAndTheNextRunIsWhole) {
  // Six Steps in a row over the same bytes, on two streams in turn; the fourth changes a Variable.
  RandomSteps steps{.streams = 2};
  for (int i = 0; i < 6; ++i) {
    steps.accesses.push_back({{{0, 0, 8}, true}});
    steps.stream_of.push_back(i % 2);
  }
  for (const size_t failing : {size_t{2}, size_t{4}}) {
    const auto noted = test::MakeNoted(steps.accesses, ScheduleStreams(steps.accesses, steps.stream_of, steps.streams));
    noted->executable.steps[3].mutates = true;
    noted->executable.steps[failing].kernel = test::KernelOf(Fails);
    auto executor = MakeExecutor(GetParam().kind, noted->executable, {}, nullptr);
    ASSERT_TRUE(executor.ok()) << executor.status().message();
    for (int round = 0; round < 3; ++round) {
      const int64_t from = noted->clock;
      Executor::Failure failure;
      EXPECT_EQ((*executor)->Run(&failure).message(), "planted");
      EXPECT_EQ(failure.step, failing);
      EXPECT_EQ(failure.variables_changed, failing > 3);
      for (size_t i = 0; i < 6; ++i) EXPECT_EQ(noted->notes[i]->begin >= from, i < failing) << i;
      for (const Executor::At& at : (*executor)->Running()) EXPECT_EQ(at.step, -1);
    }
  }
}

// Where Steps meet that run at the same time: each waits in its kernel until the other has begun.
struct Meeting {
  std::mutex mu;
  std::condition_variable came;
  int expected = 0, here = 0;
};

absl::Status Meets(const KernelContext& context) {
  Meeting& meeting = *context.prepared<Meeting*>();
  std::unique_lock<std::mutex> lock(meeting.mu);
  ++meeting.here;
  meeting.came.notify_all();
  const bool met =
      meeting.came.wait_for(lock, std::chrono::seconds(60), [&] { return meeting.here >= meeting.expected; });
  return met ? absl::OkStatus() : absl::InternalError("nobody else came");
}

TEST_P(EveryEngine, IndependentStepsRunAtTheSameTime) {
  const bool serial = !GetParam().side_by_side;
  Meeting meeting{.expected = serial ? 1 : 2};
  Executable executable;
  for (int64_t i = 0; i < 2; ++i) {
    executable.steps.push_back({.kernel = test::KernelOf(Meets), .accesses = {{{1, 64 * i, 64 * i + 64}, true}}});
    executable.steps.back().prepared = std::make_shared<Meeting*>(&meeting);
  }
  executable.schedule = ScheduleStreams({executable.steps[0].accesses, executable.steps[1].accesses}, {0, 1}, 2);
  auto executor = MakeExecutor(GetParam().kind, executable, {}, nullptr);
  ASSERT_TRUE(executor.ok()) << executor.status().message();
  std::vector<StepTime> times(2);
  (*executor)->SetTimes(times.data());
  Executor::Failure failure;
  ASSERT_TRUE((*executor)->Run(&failure).ok());
  if (serial) {
    EXPECT_GE(times[1].begin_ns, times[0].end_ns);
  } else {
    EXPECT_LE(times[1].begin_ns, times[0].end_ns);
    EXPECT_LE(times[0].begin_ns, times[1].end_ns);
    EXPECT_NE(times[0].stream, times[1].stream);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedule, EveryEngine, testing::ValuesIn(Executors()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace snug::core
