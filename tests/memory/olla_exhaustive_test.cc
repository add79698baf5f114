// OLLA's order against exhaustive search on graphs as large as both can take: in the campaign.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "memory/ilp/solver.h"
#include "memory/order/olla/orders.h"
#include "tests/memory/order_random_tasks.h"

namespace snug::core::memory {
namespace {

TEST(CampaignOllaExhaustive, FindsTheLeastPeakOfTwelveTasks) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN";
  if (IlpSolvers().empty()) GTEST_SKIP() << "NOT TESTED: this build has no solver of integer linear programs";
  int largest = 0;
  for (uint32_t seed = 5000; seed < 5200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    Tasks tasks = RandomOrderingTasks(random, 12);
    while (tasks.size() < 9) tasks = RandomOrderingTasks(random, 12);  // smaller ones are elsewhere
    largest = std::max(largest, tasks.size());
    PlannerOptions options{.work_limit = 50'000'000};  // far more than these take
    options.olla.mode = OllaOptions::Mode::kSplit;
    const absl::StatusOr<Ordering> ordering = OrderOlla(tasks, options);
    ASSERT_TRUE(ordering.ok()) << ordering.status();
    ASSERT_TRUE(CheckOrder(tasks, ordering->order).ok());
    EXPECT_EQ(PeakOf(tasks, ordering->order), LeastPeak(tasks));
    EXPECT_EQ(ordering->report.lower_bound, ordering->peak);
    EXPECT_TRUE(ordering->report.proven);
  }
  EXPECT_EQ(largest, 12);
}

}  // namespace
}  // namespace snug::core::memory
