// The verifier of plans under waits, against an oracle that knows nothing but bytes: it runs the tasks in order on an
// array of owners, and wants every two tasks that touch the same bytes, one of them writing, to be ordered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "memory/share/blocks.h"
#include "memory/share/nnc.h"
#include "memory/share/pool.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

struct Scenario {
  Tasks tasks;
  TaskOrder order;
  StreamSchedule schedule;
  Plan plan;

  absl::Status Verify() const { return VerifyUnderWaits(tasks, order, schedule, plan); }
};

// --- the oracle ---

std::vector<std::vector<bool>> Closure(const Scenario& run) {
  const size_t n = run.order.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n, false));
  for (const auto& stream : run.schedule.streams) {
    for (size_t i = 1; i < stream.size(); ++i) {
      before[static_cast<size_t>(stream[i - 1])][static_cast<size_t>(stream[i])] = true;
    }
  }
  for (const auto& [a, b] : run.schedule.waits) before[static_cast<size_t>(a)][static_cast<size_t>(b)] = true;
  for (size_t via = 0; via < n; ++via) {
    for (size_t a = 0; a < n; ++a) {
      if (!before[a][via]) continue;
      for (size_t b = 0; b < n; ++b) before[a][b] = before[a][b] || before[via][b];
    }
  }
  return before;
}

struct Access {
  size_t value;
  bool writes;
};

std::vector<std::vector<Access>> AccessesOf(const Tasks& tasks) {
  std::vector<std::vector<Access>> accesses(tasks.names.size());
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    for (const int32_t reader : tasks.values[v].readers) accesses[static_cast<size_t>(reader)].push_back({v, false});
    if (tasks.values[v].producer >= 0) accesses[static_cast<size_t>(tasks.values[v].producer)].push_back({v, true});
  }
  return accesses;
}

bool Overlap(const Scenario& run, size_t v, size_t w) {
  const int64_t a = run.plan.offsets[v];
  const int64_t b = run.plan.offsets[w];
  return a < b + run.tasks.values[w].size_bytes && b < a + run.tasks.values[v].size_bytes;
}

bool MayLieOver(const Scenario& run, size_t output, size_t input) {
  for (const TaskInPlace& pair : run.tasks.in_place) {
    if (static_cast<size_t>(pair.output) == output && static_cast<size_t>(pair.input) == input) {
      return run.plan.offsets[output] == run.plan.offsets[input] &&
             run.tasks.values[output].size_bytes <= run.tasks.values[input].size_bytes;
    }
  }
  return false;
}

// A task's own accesses: no two outputs on the same bytes, none on an input but in place.
bool TaskIsSound(const Scenario& run, const std::vector<Access>& accesses) {
  for (const Access& a : accesses) {
    for (const Access& b : accesses) {
      if (a.value == b.value || !a.writes || !Overlap(run, a.value, b.value)) continue;
      if (b.writes || !MayLieOver(run, a.value, b.value)) return false;
    }
  }
  return true;
}

// One after the other: does everyone read what was written for him?
bool SerialRunIsSound(const Scenario& run, const std::vector<std::vector<Access>>& accesses) {
  std::vector<size_t> owner(static_cast<size_t>(run.plan.arena_bytes), run.tasks.values.size());
  const auto write = [&](size_t v) {
    const auto begin = owner.begin() + static_cast<std::ptrdiff_t>(run.plan.offsets[v]);
    std::fill(begin, begin + static_cast<std::ptrdiff_t>(run.tasks.values[v].size_bytes), v);
  };
  const auto intact = [&](size_t v) {
    const auto begin = owner.begin() + static_cast<std::ptrdiff_t>(run.plan.offsets[v]);
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(run.tasks.values[v].size_bytes),
                       [&](size_t o) { return o == v; });
  };
  for (size_t v = 0; v < run.tasks.values.size(); ++v) {
    if (run.tasks.values[v].producer < 0) write(v);
  }
  for (size_t v = 0; v < run.tasks.values.size(); ++v) {
    if (run.tasks.values[v].producer < 0 && !intact(v)) return false;
  }
  for (const int32_t task : run.order) {
    for (const Access& access : accesses[static_cast<size_t>(task)]) {
      if (!access.writes && !intact(access.value)) return false;
    }
    for (const Access& access : accesses[static_cast<size_t>(task)]) {
      if (access.writes) write(access.value);
    }
  }
  for (size_t v = 0; v < run.tasks.values.size(); ++v) {
    if ((run.tasks.values[v].fetched || run.tasks.values[v].resident) && !intact(v)) return false;
  }
  return true;
}

bool RunsSoundly(const Scenario& run) {
  for (size_t v = 0; v < run.tasks.values.size(); ++v) {
    const int64_t offset = run.plan.offsets[v];
    if (offset < 0 || offset % run.tasks.values[v].alignment != 0) return false;
    if (offset + run.tasks.values[v].size_bytes > run.plan.arena_bytes) return false;
  }
  const auto before = Closure(run);
  const auto accesses = AccessesOf(run.tasks);
  std::vector<size_t> position(run.order.size());
  for (size_t at = 0; at < run.order.size(); ++at) position[static_cast<size_t>(run.order[at])] = at;
  for (size_t t = 0; t < accesses.size(); ++t) {
    if (before[t][t] || !TaskIsSound(run, accesses[t])) return false;
    for (size_t u = 0; u < accesses.size(); ++u) {
      if (position[t] >= position[u] || before[t][u]) continue;
      for (const Access& a : accesses[t]) {
        for (const Access& b : accesses[u]) {
          if ((a.writes || b.writes) && Overlap(run, a.value, b.value)) return false;
        }
      }
    }
  }
  for (const auto& [a, b] : run.tasks.edges) {
    if (!before[static_cast<size_t>(a)][static_cast<size_t>(b)]) return false;
  }
  return SerialRunIsSound(run, accesses);
}

// --- valid runs ---

// Waits for all that conflicts across streams, without those that others imply.
void AddWaits(Scenario& run) {
  const auto accesses = AccessesOf(run.tasks);
  std::map<int32_t, size_t> stream_of;
  for (size_t s = 0; s < run.schedule.streams.size(); ++s) {
    for (const int32_t task : run.schedule.streams[s]) stream_of[task] = s;
  }
  std::set<std::pair<int32_t, int32_t>> waits(run.tasks.edges.begin(), run.tasks.edges.end());
  for (size_t i = 0; i < run.order.size(); ++i) {
    for (size_t j = i + 1; j < run.order.size(); ++j) {
      for (const Access& a : accesses[static_cast<size_t>(run.order[i])]) {
        for (const Access& b : accesses[static_cast<size_t>(run.order[j])]) {
          if (!(a.writes || b.writes) || !Overlap(run, a.value, b.value)) continue;
          if (stream_of[run.order[i]] != stream_of[run.order[j]]) waits.emplace(run.order[i], run.order[j]);
        }
      }
    }
  }
  run.schedule.waits.assign(waits.begin(), waits.end());
  for (size_t i = run.schedule.waits.size(); i-- > 0;) {
    const auto wait = run.schedule.waits[i];
    run.schedule.waits.erase(run.schedule.waits.begin() + static_cast<std::ptrdiff_t>(i));
    if (!Closure(run)[static_cast<size_t>(wait.first)][static_cast<size_t>(wait.second)]) {
      run.schedule.waits.insert(run.schedule.waits.begin() + static_cast<std::ptrdiff_t>(i), wait);
    }
  }
}

Plan PlanInOrder(const Tasks& tasks, const TaskOrder& order, uint32_t planner) {
  const Problem problem = LifetimesOf(tasks, order);
  if (planner % 4 == 0) return PlanNone(problem);
  const auto place = planner % 4 == 1 ? PlaceBoth : planner % 4 == 2 ? PlaceNnc : PlaceInPlace;
  const absl::StatusOr<Placement> placement = place(problem, {});
  EXPECT_TRUE(placement.ok());
  return placement->plan;
}

Scenario RandomRun(std::mt19937& random) {
  Scenario run{.tasks = RandomTasks(random, 3 + static_cast<int>(random() % 12))};
  run.order = ProgramOrder(run.tasks);
  for (TaskValue& value : run.tasks.values) value.fetched = random() % 8 == 0;
  for (int i = 0; i < 2; ++i) {
    run.tasks.values.push_back({.name = "given", .size_bytes = 64, .resident = random() % 2 == 0});
    run.tasks.values.back().readers = {static_cast<int32_t>(random() % run.order.size())};
  }
  run.schedule.streams.resize(1 + random() % 3);
  for (const int32_t task : run.order) {
    run.schedule.streams[random() % run.schedule.streams.size()].push_back(task);
  }
  run.plan = PlanInOrder(run.tasks, run.order, random());
  AddWaits(run);
  return run;
}

// --- faults ---

bool ShiftAValue(Scenario& run, std::mt19937& random) {
  const size_t v = random() % run.plan.offsets.size();
  run.plan.offsets[v] += (random() % 2 == 0 ? 64 : -64) * static_cast<int64_t>(1 + random() % 3);
  return true;
}

bool DropAWait(Scenario& run, std::mt19937& random) {
  if (run.schedule.waits.empty()) return false;
  const auto at = static_cast<std::ptrdiff_t>(random() % run.schedule.waits.size());
  run.schedule.waits.erase(run.schedule.waits.begin() + at);
  return true;
}

bool SwapTwoSteps(Scenario& run, std::mt19937& random) {
  std::vector<int32_t>& stream = run.schedule.streams[random() % run.schedule.streams.size()];
  if (stream.size() < 2) return false;
  const size_t at = random() % (stream.size() - 1);
  std::swap(stream[at], stream[at + 1]);
  return true;
}

// The plan is one for a value that is dead before its last reader runs.
bool ForgetALastReader(Scenario& run, std::mt19937& random) {
  Tasks shorter = run.tasks;
  std::vector<int32_t>& readers = shorter.values[random() % shorter.values.size()].readers;
  if (readers.empty()) return false;
  readers.pop_back();
  run.plan = PlanInOrder(shorter, run.order, 1 + random() % 2);
  run.schedule.waits.clear();
  AddWaits(run);  // every conflict is ordered: only what the bytes hold is wrong
  return true;
}

TEST(VerifierUnderWaits, AcceptsEveryValidRun) {
  std::mt19937 random(8);
  for (int round = 0; round < 1500; ++round) {
    const Scenario run = RandomRun(random);
    ASSERT_TRUE(RunsSoundly(run)) << "round " << round;
    const absl::Status status = run.Verify();
    ASSERT_TRUE(status.ok()) << status.message() << " round " << round;
  }
}

TEST(VerifierUnderWaits, RejectsEveryPlantedFaultAndNothingElse) {
  using Plant = bool (*)(Scenario&, std::mt19937&);
  const std::pair<const char*, Plant> plants[] = {{"shift a value", ShiftAValue},
                                                  {"drop a wait", DropAWait},
                                                  {"swap two steps", SwapTwoSteps},
                                                  {"forget a last reader", ForgetALastReader}};
  for (const auto& [what, plant] : plants) {
    std::mt19937 random(9);
    int faults = 0;
    int harmless = 0;
    for (int round = 0; round < 1500; ++round) {
      Scenario run = RandomRun(random);
      if (!plant(run, random)) continue;
      const bool sound = RunsSoundly(run);
      ASSERT_EQ(run.Verify().ok(), sound) << what << ", round " << round << ": " << run.Verify().message();
      faults += !sound;
      harmless += sound;
    }
    EXPECT_GT(faults, 150) << what;
    // Every wait of a valid run was needed; the other plants are faults only now and then.
    if (plant != DropAWait) {
      EXPECT_GT(harmless, 20) << what;
    }
  }
}

// t0 writes a; t1 reads it and writes b; t2 writes c over a's bytes.
Scenario Sharers() {
  return {.tasks = {.names = {"t0", "t1", "t2"},
                    .values = {{.name = "a", .size_bytes = 64, .producer = 0, .readers = {1}},
                               {.name = "b", .size_bytes = 64, .producer = 1},
                               {.name = "c", .size_bytes = 64, .producer = 2}}},
          .order = {0, 1, 2},
          .schedule = {.streams = {{0, 2}, {1}}, .waits = {{0, 1}, {1, 2}}},
          .plan = {.offsets = {0, 64, 0}, .arena_bytes = 128}};
}

TEST(VerifierUnderWaits, TheOnlyWaitBetweenTwoSharers) {
  Scenario run = Sharers();
  EXPECT_TRUE(run.Verify().ok());
  run.schedule.waits.pop_back();
  EXPECT_THAT(std::string(run.Verify().message()), HasSubstr("\"t2\" may write the second before \"t1\" is done"));
}

TEST(VerifierUnderWaits, SaysWhatIsWrongWithASchedule) {
  const auto message = [](const Scenario& run) { return std::string(run.Verify().message()); };
  Scenario run = Sharers();
  run.schedule.waits.emplace_back(2, 1);
  EXPECT_THAT(message(run), HasSubstr("circle"));
  run = Sharers();
  run.schedule.streams[0].pop_back();
  EXPECT_THAT(message(run), HasSubstr("\"t2\" runs in no stream"));
  run = Sharers();
  run.schedule.streams[1].push_back(0);
  EXPECT_THAT(message(run), HasSubstr("\"t0\" runs twice"));
  run = Sharers();
  run.schedule.waits[0] = {0, 7};
  EXPECT_THAT(message(run), HasSubstr("no such task"));
  run = Sharers();
  run.schedule.waits[0] = {0, 2};
  EXPECT_THAT(message(run), HasSubstr("\"t1\" may run before \"t0\" is done"));
}

TEST(VerifierUnderWaits, InPlaceOnlyAsAllowed) {
  Scenario run = Sharers();
  run.plan = {.offsets = {0, 0, 64}, .arena_bytes = 128};
  EXPECT_FALSE(run.Verify().ok());
  run.tasks.in_place = {{1, 0}};
  EXPECT_TRUE(run.Verify().ok());
  run.tasks.values[1].size_bytes = 128;  // larger than what it is written over
  EXPECT_FALSE(run.Verify().ok());
}

}  // namespace
}  // namespace snug::core::memory
