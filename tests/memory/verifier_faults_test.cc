// Faults planted into valid plans, for lifetimes and for partial orders; a brute-force check says whether each is one.
// (Plans under waits: verifier_waits_test.cc.)
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "memory/share/blocks.h"
#include "memory/share/nnc.h"
#include "memory/share/pool.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

template <typename B>
bool InSpace(const std::vector<B>& buffers, const Plan& plan, size_t i, size_t j) {
  return buffers[i].size_bytes > 0 && buffers[j].size_bytes > 0 &&
         plan.offsets[i] < plan.offsets[j] + buffers[j].size_bytes &&
         plan.offsets[j] < plan.offsets[i] + buffers[i].size_bytes;
}

// Every pair at every position.
bool IsSound(const Problem& problem, const Plan& plan) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& a = problem.buffers[i];
    const int64_t offset = plan.offsets[i];
    if (offset < 0 || offset % a.alignment != 0 || offset + a.size_bytes > plan.arena_bytes) return false;
    if (a.fixed_offset >= 0 && offset != a.fixed_offset) return false;
    for (size_t j = 0; j < problem.buffers.size(); ++j) {
      const Buffer& b = problem.buffers[j];
      if (i == j || !InSpace(problem.buffers, plan, i, j)) continue;
      const auto may_be_over = [&](size_t output, size_t input) {
        return std::any_of(problem.in_place.begin(), problem.in_place.end(), [&](const InPlace& pair) {
          return static_cast<size_t>(pair.output) == output && static_cast<size_t>(pair.input) == input &&
                 plan.offsets[output] == plan.offsets[input] &&
                 problem.buffers[output].size_bytes <= problem.buffers[input].size_bytes;
        });
      };
      for (int32_t at = a.first; at <= a.last; ++at) {
        if (!LiveAt(a, at) || !LiveAt(b, at)) continue;
        const bool handed_over = (at == a.first && at == b.last && may_be_over(i, j)) ||
                                 (at == b.first && at == a.last && may_be_over(j, i));
        if (!handed_over) return false;
      }
    }
  }
  return true;
}

struct Planned {
  Problem problem;
  Plan plan;
};

Plan PlanFor(const Problem& problem, uint32_t planner) {
  if (planner % 4 == 0) return PlanNone(problem);
  const auto place = planner % 4 == 1 ? PlaceBoth : planner % 4 == 2 ? PlaceNnc : PlaceColoring;
  const absl::StatusOr<Placement> placement = place(problem, {});
  EXPECT_TRUE(placement.ok());
  return placement->plan;
}

// With gaps, buffers of no bytes, and offsets fixed where the plan has them anyway.
Planned RandomPlanned(std::mt19937& random) {
  Planned planned{.problem = RandomProblem(random, 3 + static_cast<int>(random() % 12))};
  for (Buffer& buffer : planned.problem.buffers) {
    if (random() % 10 == 0) buffer.size_bytes = 0;
    const int32_t inner = buffer.last - buffer.first - 1;
    if (inner < 1 || random() % 2 == 0) continue;
    const int32_t first = buffer.first + 1 + static_cast<int32_t>(random() % static_cast<uint32_t>(inner));
    const auto longest = static_cast<uint32_t>(buffer.last - first);
    buffer.gaps = {{first, first + static_cast<int32_t>(random() % longest)}};
  }
  std::vector<InPlace>& pairs = planned.problem.in_place;
  pairs.erase(std::remove_if(pairs.begin(), pairs.end(),
                             [&](const InPlace& pair) {
                               return planned.problem.buffers[static_cast<size_t>(pair.input)].size_bytes <
                                      planned.problem.buffers[static_cast<size_t>(pair.output)].size_bytes;
                             }),
              pairs.end());
  planned.plan = PlanFor(planned.problem, random());
  for (size_t i = 0; i < planned.problem.buffers.size(); ++i) {
    if (random() % 6 == 0) planned.problem.buffers[i].fixed_offset = planned.plan.offsets[i];
  }
  return planned;
}

bool ShiftABuffer(Planned& planned, std::mt19937& random) {
  const size_t i = random() % planned.plan.offsets.size();
  planned.plan.offsets[i] += (random() % 2 == 0 ? 64 : -64) * static_cast<int64_t>(1 + random() % 3);
  return true;
}

bool ShiftOntoAnother(Planned& planned, std::mt19937& random) {
  const size_t i = random() % planned.plan.offsets.size();
  planned.plan.offsets[i] = planned.plan.offsets[random() % planned.plan.offsets.size()];
  return true;
}

// The plan takes a buffer for dead earlier than it is.
bool ShortenALifetime(Planned& planned, std::mt19937& random) {
  Problem shorter = planned.problem;
  Buffer& buffer = shorter.buffers[random() % shorter.buffers.size()];
  if (buffer.last == buffer.first) return false;
  buffer.last = buffer.first;
  buffer.gaps.clear();
  for (Buffer& b : planned.problem.buffers) b.fixed_offset = -1;
  for (Buffer& b : shorter.buffers) b.fixed_offset = -1;
  planned.plan = PlanFor(shorter, 1 + random() % 3);
  return true;
}

bool TakeAwayAGap(Planned& planned, std::mt19937& random) {
  Buffer& buffer = planned.problem.buffers[random() % planned.problem.buffers.size()];
  if (buffer.gaps.empty()) return false;
  buffer.gaps.clear();
  return true;
}

bool ForbidInPlace(Planned& planned, std::mt19937& random) {
  if (planned.problem.in_place.empty()) return false;
  const auto at = static_cast<std::ptrdiff_t>(random() % planned.problem.in_place.size());
  planned.problem.in_place.erase(planned.problem.in_place.begin() + at);
  return true;
}

bool FixAnOffsetElsewhere(Planned& planned, std::mt19937& random) {
  const size_t i = random() % planned.plan.offsets.size();
  planned.problem.buffers[i].fixed_offset = planned.plan.offsets[i] + 64;
  return true;
}

TEST(VerifierFaults, LifetimesRejectEveryPlantedFaultAndNothingElse) {
  struct Plant {
    const char* what;
    bool (*plant)(Planned&, std::mt19937&);
    int rounds, faults;  // of so many at least so many are faults
  };
  const Plant plants[] = {
      {"shift a buffer", ShiftABuffer, 3000, 1000},        {"shift onto another", ShiftOntoAnother, 3000, 800},
      {"shorten a lifetime", ShortenALifetime, 3000, 300}, {"take away a gap", TakeAwayAGap, 6000, 50},
      {"forbid in place", ForbidInPlace, 6000, 200},       {"fix an offset elsewhere", FixAnOffsetElsewhere, 500, 500}};
  for (const Plant& plant : plants) {
    std::mt19937 random(10);
    int faults = 0;
    for (int round = 0; round < plant.rounds; ++round) {
      Planned planned = RandomPlanned(random);
      ASSERT_TRUE(IsSound(planned.problem, planned.plan)) << "round " << round;
      ASSERT_TRUE(Verify(planned.problem, planned.plan).ok()) << Verify(planned.problem, planned.plan).message();
      if (!plant.plant(planned, random)) continue;
      const bool sound = IsSound(planned.problem, planned.plan);
      ASSERT_EQ(Verify(planned.problem, planned.plan).ok(), sound) << plant.what << ", round " << round;
      faults += !sound;
    }
    EXPECT_GE(faults, plant.faults) << plant.what;
  }
}

TEST(VerifierFaults, AnotherOutputOnWhatASmallerOneLeavesOfTheInput) {
  // Both are written while the input is still being read: only the one that may lie over it does so rightly.
  const Problem problem{.buffers = {{.name = "input", .size_bytes = 128, .first = 0, .last = 1},
                                    {.name = "over it", .size_bytes = 64, .first = 1, .last = 2},
                                    {.name = "other", .size_bytes = 64, .first = 1, .last = 2},
                                    {.name = "later", .size_bytes = 64, .first = 2, .last = 2}},
                        .in_place = {{1, 0}}};
  EXPECT_FALSE(Verify(problem, {.offsets = {0, 0, 64, 128}, .arena_bytes = 192}).ok());
  EXPECT_TRUE(Verify(problem, {.offsets = {0, 0, 128, 64}, .arena_bytes = 192}).ok());
}

// --- partial orders ---

bool IsSound(const PartialProblem& problem, const Plan& plan) {
  const auto n = static_cast<size_t>(problem.tasks);
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (const auto& [a, b] : problem.edges) before[static_cast<size_t>(a)][static_cast<size_t>(b)] = true;
  for (size_t via = 0; via < n; ++via) {
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) before[a][b] = before[a][b] || (before[a][via] && before[via][b]);
    }
  }
  const auto done_before = [&](const PartialBuffer& a, const PartialBuffer& b) {
    bool done = true;
    for (const int32_t tail : a.tails) {
      for (const int32_t head : b.heads) done = done && before[static_cast<size_t>(tail)][static_cast<size_t>(head)];
    }
    return done;
  };
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PartialBuffer& a = problem.buffers[i];
    const int64_t offset = plan.offsets[i];
    if (offset < 0 || offset % a.alignment != 0 || offset + a.size_bytes > plan.arena_bytes) return false;
    for (size_t j = 0; j < i; ++j) {
      const PartialBuffer& b = problem.buffers[j];
      if (!InSpace(problem.buffers, plan, i, j)) continue;
      if (a.kind != b.kind || (!done_before(a, b) && !done_before(b, a))) return false;
    }
  }
  return true;
}

PartialProblem RandomPartial(std::mt19937& random) {
  const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  PartialProblem problem{.tasks = 4 + below(14)};
  for (int32_t t = 1; t < problem.tasks; ++t) {
    for (int k = 1 + below(2); k > 0; --k) problem.edges.emplace_back(t - 1 - below(std::min(t, 3)), t);
  }
  for (int i = 0; i < 10; ++i) {
    const int32_t head = below(problem.tasks);
    PartialBuffer buffer{
        .size_bytes = 64 * (1 + below(6)),
        .heads = {head},
        .tails = {head},
    };
    buffer.kind = below(12) == 0;
    for (const auto& [a, b] : problem.edges) {
      if (a == head && below(2) == 0) buffer.tails.push_back(b);
    }
    problem.buffers.push_back(buffer);
  }
  return problem;
}

TEST(VerifierFaults, PartialOrdersRejectEveryPlantedFaultAndNothingElse) {
  const char* const plants[] = {"shift", "onto another", "drop an edge", "use later", "another kind"};
  for (size_t plant = 0; plant < std::size(plants); ++plant) {
    std::mt19937 random(11);
    int faults = 0;
    for (int round = 0; round < 2000; ++round) {
      PartialProblem problem = RandomPartial(random);
      absl::StatusOr<Plan> plan = PlaceNncPartial(problem, NncRule::kLater);
      ASSERT_TRUE(plan.ok() && VerifyPartial(problem, *plan).ok() && IsSound(problem, *plan)) << "round " << round;
      const size_t i = random() % problem.buffers.size();
      if (plant == 0) plan->offsets[i] += random() % 2 == 0 ? 64 : -64;
      if (plant == 1) plan->offsets[i] = plan->offsets[random() % problem.buffers.size()];
      if (plant == 2)
        problem.edges.erase(problem.edges.begin() + static_cast<std::ptrdiff_t>(random() % problem.edges.size()));
      if (plant == 3) problem.buffers[i].tails.push_back(problem.tasks - 1);
      if (plant == 4) problem.buffers[i].kind = 2;
      const bool sound = IsSound(problem, *plan);
      ASSERT_EQ(VerifyPartial(problem, *plan).ok(), sound) << plants[plant] << ", round " << round;
      faults += !sound;
    }
    EXPECT_GT(faults, 200) << plants[plant];
  }
}

}  // namespace
}  // namespace snug::core::memory
