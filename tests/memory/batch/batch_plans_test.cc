#include "memory/batch/batch_plans.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

// A random step whose sizes follow the batch: lines, steps, nothing up to a batch, and workspaces that come and go.
class RandomFamily {
 public:
  explicit RandomFamily(std::mt19937& random) : tasks_(RandomTasks(random, 3 + static_cast<int>(random() % 12))) {
    const auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<uint32_t>(limit)); };
    for (size_t v = 0; v < tasks_.values.size(); ++v) {
      const bool grows = below(3) != 0;
      rules_.push_back({.fixed = grows ? below(3) * 100 : below(4000), .slope = grows ? 1 + below(300) : 0});
      if (below(6) == 0) rules_.back().step = 2 + below(5);
      if (below(8) == 0) rules_.back().from = 2 + below(10);
    }
    // An output that is written in place is as large as its input, as tensors of one type are.
    for (const TaskInPlace& pair : tasks_.in_place) {
      rules_[static_cast<size_t>(pair.output)] = rules_[static_cast<size_t>(pair.input)];
    }
    std::erase_if(tasks_.in_place, [&](const TaskInPlace& pair) {
      return rules_[static_cast<size_t>(pair.output)] != rules_[static_cast<size_t>(pair.input)];
    });
    for (int32_t task = 0; task < tasks_.size(); ++task) {
      if (below(3) != 0) continue;
      workspaces_.push_back(
          {.task = task, .rule = {.fixed = 1, .slope = below(200), .step = 1 + below(4), .from = below(9)}});
    }
    other_bytes_ = below(2) * below(100'000);
    changes_at_ = below(2) == 0 ? 0 : 3 + below(20);
  }

  absl::StatusOr<BatchStep> At(int64_t batch) const {
    BatchStep step{.tasks = tasks_, .other_bytes = other_bytes_};
    for (size_t v = 0; v < rules_.size(); ++v) step.tasks.values[v].size_bytes = rules_[v].At(batch);
    for (const Workspace& workspace : workspaces_) {
      // A kernel that needs none has none.
      const int64_t bytes = workspace.rule.At(batch);
      if (bytes == 0) continue;
      step.tasks.values.push_back(
          {.name = absl::StrCat("workspace of ", workspace.task), .size_bytes = bytes, .producer = workspace.task});
    }
    if (changes_at_ > 0 && batch >= changes_at_) {
      step.tasks.names.push_back("one more");
      step.tasks.cost.push_back(1);
      step.tasks.values.push_back(
          {.name = "one more", .size_bytes = 64 * batch, .producer = step.tasks.size() - 1, .fetched = true});
    }
    step.given = ProgramOrder(step.tasks);
    return step;
  }

  int64_t changes_at() const { return changes_at_; }

 private:
  struct Rule {
    int64_t fixed = 0, slope = 0, step = 1, from = 0;
    bool operator==(const Rule&) const = default;
    int64_t At(int64_t batch) const { return batch < from ? 0 : fixed + (batch + step - 1) / step * step * slope; }
  };
  struct Workspace {
    int32_t task;
    Rule rule;
  };

  Tasks tasks_;
  std::vector<Rule> rules_;
  std::vector<Workspace> workspaces_;
  int64_t other_bytes_ = 0, changes_at_ = 0;
};

// Every two buffers that are live at once lie apart, but for what is written in place: pair by pair, by other code than
// the verifier's.
bool AllApart(const Problem& problem, const Plan& plan) {
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const InPlace& pair : problem.in_place) pairs.emplace(pair.output, pair.input);
  const auto n = static_cast<int32_t>(problem.buffers.size());
  for (int32_t a = 0; a < n; ++a) {
    for (int32_t b = 0; b < n; ++b) {
      const Buffer& one = problem.buffers[static_cast<size_t>(a)];
      const Buffer& other = problem.buffers[static_cast<size_t>(b)];
      const int64_t at = plan.offsets[static_cast<size_t>(a)], other_at = plan.offsets[static_cast<size_t>(b)];
      const bool together = one.first <= other.last && other.first <= one.last;
      const bool overlap = at < other_at + other.size_bytes && other_at < at + one.size_bytes;
      const bool in_place = at == other_at && (pairs.contains({a, b}) || pairs.contains({b, a}));
      if (a != b && together && overlap && !in_place) return false;
    }
  }
  return true;
}

TEST(BatchPlans, OfRandomStepsServeEveryBatchAndCostNoMoreThanTheyMay) {
  std::mt19937 random(11);
  constexpr int64_t kLast = 40;
  int several = 0, one = 0, changed = 0;
  for (int round = 0; round < 60; ++round) {
    const RandomFamily family(random);
    const StepOfBatch step_of = [&](int64_t batch) { return family.At(batch); };
    const bool every = round % 2 == 0;
    const BatchPlansOptions options{.planner = {.work_limit = 20'000}, .most_excess = 0.02, .every_batch = every};
    const absl::StatusOr<std::vector<RangePlan>> ranges = PlanForBatches(1, kLast, step_of, options);
    ASSERT_TRUE(ranges.ok()) << ranges.status().message();
    int64_t next = 1;
    for (const RangePlan& range : *ranges) {
      ASSERT_EQ(range.first, next);
      ASSERT_EQ(range.begins_by.empty(), range.first == 1);
      ASSERT_EQ(range.tried.front().batch, range.first);
      ASSERT_EQ(range.tried.back().batch, range.last);
      const BytesLine line = range.Line();
      for (const TriedBatch& tried : range.tried) {
        ASSERT_LE(tried.bytes, line.fixed + line.per_sample * tried.batch);
        ASSERT_GE(tried.bytes, line.fixed + line.per_sample * tried.batch - line.most_below);
        ASSERT_LE(tried.excess(), 0.02) << "round " << round << " " << tried.batch;
      }
      for (int64_t batch = range.first; batch <= range.last; ++batch) {
        const BatchStep step = *family.At(batch);
        const absl::StatusOr<TaskPlan> plan = range.PlanFor(step.tasks);
        // Where not every batch was tried, one may have a value that no other has.
        if (!every && !plan.ok()) {
          ASSERT_TRUE(absl::StrContains(plan.status().message(), "is new")) << plan.status().message();
          continue;
        }
        ASSERT_TRUE(plan.ok()) << "round " << round << " batch " << batch << ": " << plan.status().message();
        ASSERT_TRUE(CheckOrder(step.tasks, plan->order).ok());
        const Problem problem = LifetimesOf(step.tasks, plan->order);
        ASSERT_TRUE(Verify(problem, plan->placement.plan).ok());
        ASSERT_TRUE(AllApart(problem, plan->placement.plan));
        ASSERT_GE(plan->placement.plan.arena_bytes, plan->placement.report.lower_bound);
      }
      next = range.last + 1;
    }
    ASSERT_EQ(next, kLast + 1);
    (ranges->size() > 1 ? several : one) += 1;
    if (family.changes_at() == 0) continue;
    ++changed;
    const bool found = std::any_of(ranges->begin(), ranges->end(), [&](const RangePlan& range) {
      return range.first == family.changes_at() && absl::StrContains(range.begins_by, "task");
    });
    ASSERT_TRUE(found) << "round " << round;
  }
  EXPECT_GT(several, 5);
  EXPECT_GT(one, 0);
  EXPECT_GT(changed, 10);
}

// In the middle two large values meet: one that grows with the batch, one that does not.
absl::StatusOr<BatchStep> TwoShapes(int64_t batch) {
  BatchStep step{.tasks = {.names = {"a", "b", "c"},
                           .values = {{.name = "x", .size_bytes = 640 * batch, .producer = 0, .readers = {1}},
                                      {.name = "w", .size_bytes = 6400, .producer = 1, .readers = {2}},
                                      {.name = "y", .size_bytes = 64 * batch, .producer = 2, .fetched = true}}},
                 .given = {0, 1, 2}};
  return step;
}

TEST(BatchPlans, BytesAreALineWhereOnePileIsTheHighest) {
  const absl::StatusOr<std::vector<RangePlan>> ranges = PlanForBatches(1, 64, TwoShapes, {});
  ASSERT_TRUE(ranges.ok()) << ranges.status().message();
  ASSERT_EQ(ranges->size(), 1u);
  const BytesLine line = ranges->front().Line();
  EXPECT_EQ(line.fixed, 6400);
  EXPECT_EQ(line.per_sample, 640);
  EXPECT_EQ(line.most_below, 0);
  EXPECT_EQ(ranges->front().WorstExcess(), 0);
  EXPECT_TRUE(ranges->front().begins_by.empty());
}

TEST(BatchPlans, TheLineOfBytesDoesNotLieBelowWhatWasTried) {
  RangePlan range{.first = 1, .last = 8, .frame = BatchFrame(TwoShapes(1)->tasks)};
  // 10 bytes over 3 batches are 3 and a third for each.
  for (const auto& [batch, bytes] : std::vector<std::pair<int64_t, int64_t>>{{1, 100}, {2, 102}, {4, 110}}) {
    range.tried.push_back({.batch = batch, .bytes = bytes});
  }
  const BytesLine line = range.Line();
  EXPECT_EQ(line.per_sample, 4);
  EXPECT_EQ(line.fixed, 96);
  EXPECT_EQ(line.most_below, 2);
  for (const TriedBatch& one : range.tried) {
    EXPECT_LE(one.bytes, line.fixed + line.per_sample * one.batch);
    EXPECT_GE(one.bytes, line.fixed + line.per_sample * one.batch - line.most_below);
  }
  // With one batch there is no slope.
  range.tried.resize(1);
  EXPECT_EQ(range.Line().per_sample, 0);
  EXPECT_EQ(range.Line().fixed, 100);
}

TEST(BatchPlans, AStepThatDiffersIsRefusedAndTheErrorSaysHow) {
  const absl::StatusOr<std::vector<RangePlan>> ranges = PlanForBatches(2, 3, TwoShapes, {});
  ASSERT_TRUE(ranges.ok());
  const auto error = [&](const Tasks& tasks) { return std::string(ranges->front().PlanFor(tasks).status().message()); };
  Tasks tasks = TwoShapes(4)->tasks;
  EXPECT_EQ(error(tasks), "");
  const Tasks same = tasks;
  tasks.names.push_back("d");
  EXPECT_TRUE(absl::StrContains(error(tasks), "task 3 is \"d\" in place of none, of 4 in place of 3")) << error(tasks);
  tasks = same;
  tasks.values[1].readers.clear();
  tasks.values[1].fetched = true;
  EXPECT_TRUE(absl::StrContains(error(tasks), "value \"w\" is used otherwise")) << error(tasks);
  tasks = same;
  tasks.values.push_back({.name = "workspace", .size_bytes = 1, .producer = 1});
  EXPECT_TRUE(absl::StrContains(error(tasks), "value \"workspace\" is new")) << error(tasks);
  tasks.values.back().size_bytes = 0;  // without bytes it can lie anywhere
  EXPECT_EQ(error(tasks), "");
  tasks = same;
  tasks.in_place.push_back({2, 1});
  EXPECT_TRUE(absl::StrContains(error(tasks), "written over each other")) << error(tasks);
  tasks = same;
  tasks.edges.emplace_back(0, 2);
  EXPECT_TRUE(absl::StrContains(error(tasks), "tasks wait for others")) << error(tasks);
  tasks = same;
  tasks.values[0].size_bytes = int64_t{1} << 60;
  EXPECT_TRUE(absl::StrContains(error(tasks), "more than any machine has")) << error(tasks);
}

TEST(BatchPlans, ErrorsNameTheBatch) {
  EXPECT_FALSE(PlanForBatches(0, 4, TwoShapes, {}).ok());
  EXPECT_FALSE(PlanForBatches(8, 4, TwoShapes, {}).ok());
  const StepOfBatch until_five = [](int64_t batch) -> absl::StatusOr<BatchStep> {
    if (batch > 5) return absl::InvalidArgumentError("too many");
    return TwoShapes(batch);
  };
  EXPECT_TRUE(PlanForBatches(1, 5, until_five, {}).ok());
  EXPECT_EQ(PlanForBatches(1, 64, until_five, {}).status().message(), "batch 8: too many");
}

TEST(BatchPlans, AskForNoMoreBatchesThanTheyNeed) {
  std::set<int64_t> asked;
  const StepOfBatch step_of = [&](int64_t batch) {
    EXPECT_TRUE(asked.insert(batch).second) << batch << " was asked for twice";
    return TwoShapes(batch);
  };
  ASSERT_TRUE(PlanForBatches(1, 1 << 20, step_of, {}).ok());
  EXPECT_EQ(asked.size(), 21u);
  asked.clear();
  ASSERT_TRUE(PlanForBatches(3, 9, step_of, {.every_batch = true}).ok());
  EXPECT_EQ(asked, (std::set<int64_t>{3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace snug::core::memory
