// Random Steps that touch bytes, brute-force answers about what orders them, and Steps that note when they ran.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/executable.h"
#include "engine/compile/schedule/streams.h"
#include "engine/run/executors/executor.h"
#include "ops/kernel_context.h"
#include "tests/testing/kernel_of.h"

namespace snug::core::test {

struct RandomSteps {
  std::vector<std::vector<Access>> accesses;  // by Step
  std::vector<int32_t> stream_of;
  int streams = 1;
};

// Steps with a few random byte ranges of two small arenas, so that ranges overlap in part, nest and touch.
inline RandomSteps MakeRandomSteps(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](uint64_t n) { return static_cast<int64_t>(random() % n); };
  RandomSteps made{.streams = static_cast<int>(1 + below(4))};
  const int64_t steps = 1 + below(30), bytes = 4 + below(60);
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<Access>& accesses = made.accesses.emplace_back();
    for (int64_t a = below(4); a >= 0; --a) {
      const int64_t begin = below(static_cast<uint64_t>(bytes)), length = below(8);  // 0: touches nothing
      accesses.push_back({{static_cast<int32_t>(below(2)), begin, begin + length}, below(3) == 0});
    }
    made.stream_of.push_back(static_cast<int32_t>(below(static_cast<uint64_t>(made.streams))));
  }
  return made;
}

inline bool Conflict(const std::vector<Access>& a, const std::vector<Access>& b) {
  for (const Access& x : a) {
    for (const Access& y : b) {
      if (Conflicts(x, y)) return true;
    }
  }
  return false;
}

// Pairs (a, b), a before b in the Order, that conflict.
inline std::vector<std::pair<int32_t, int32_t>> ConflictingPairs(const std::vector<std::vector<Access>>& accesses) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (size_t b = 0; b < accesses.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (Conflict(accesses[a], accesses[b])) pairs.emplace_back(static_cast<int32_t>(a), static_cast<int32_t>(b));
    }
  }
  return pairs;
}

// reach[b][a]: a is surely done before b begins, by the streams' sequences and these waits.
inline std::vector<std::vector<char>> Reach(const Schedule& schedule,
                                            const std::vector<std::pair<int32_t, int32_t>>& waits) {
  const size_t n = schedule.stream_of.size();
  std::vector<std::vector<int32_t>> before(n);
  for (const std::vector<int32_t>& stream : schedule.streams) {
    for (size_t i = 1; i < stream.size(); ++i) before[static_cast<size_t>(stream[i])].push_back(stream[i - 1]);
  }
  for (const auto& [a, b] : waits) before[static_cast<size_t>(b)].push_back(a);
  std::vector<std::vector<char>> reach(n, std::vector<char>(n, 0));
  for (size_t b = 0; b < n; ++b) {  // streams and waits follow the Order, so predecessors come first
    for (const int32_t a : before[b]) {
      reach[b][static_cast<size_t>(a)] = 1;
      for (size_t i = 0; i < n; ++i) reach[b][i] |= reach[static_cast<size_t>(a)][i];
    }
  }
  return reach;
}

inline bool AllOrdered(const std::vector<std::pair<int32_t, int32_t>>& pairs,
                       const std::vector<std::vector<char>>& reach) {
  for (const auto& [a, b] : pairs) {
    if (!reach[static_cast<size_t>(b)][static_cast<size_t>(a)]) return false;
  }
  return true;
}

// Kernels that note when they ran.
struct Note {
  std::atomic<int64_t>* clock;
  std::atomic<int64_t> begin{-1}, end{-1};
};

inline absl::Status NoteTimes(const KernelContext& context) {
  Note& note = *context.prepared<std::shared_ptr<Note>>();
  note.begin = (*note.clock)++;
  note.end = (*note.clock)++;
  return absl::OkStatus();
}

struct Noted {
  Executable executable;
  std::vector<std::shared_ptr<Note>> notes;
  std::atomic<int64_t> clock{0};
};

// Steps that access these bytes, by this schedule, and do nothing but note when.
inline std::unique_ptr<Noted> MakeNoted(const std::vector<std::vector<Access>>& accesses, Schedule schedule) {
  auto noted = std::make_unique<Noted>();
  for (const std::vector<Access>& of_step : accesses) {
    auto note = std::make_shared<Note>();
    note->clock = &noted->clock;
    noted->notes.push_back(note);
    Step step;
    step.kernel = KernelOf(NoteTimes);
    step.prepared = std::make_shared<std::shared_ptr<Note>>(note);
    step.accesses = of_step;
    noted->executable.steps.push_back(std::move(step));
  }
  noted->executable.schedule = std::move(schedule);
  return noted;
}

// One run of `noted`, by its executor: every Step, and each of the `pairs` one after the other.
inline void RunAndCheckOrder(Executor& executor, const Noted& noted,
                             const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  const int64_t from = noted.clock;
  Executor::Failure failure;
  ASSERT_TRUE(executor.Run(&failure).ok());
  for (const auto& note : noted.notes) ASSERT_GE(note->begin, from);
  for (const auto& [a, b] : pairs) {
    ASSERT_LT(noted.notes[static_cast<size_t>(a)]->end, noted.notes[static_cast<size_t>(b)]->begin)
        << a << " before " << b;
  }
}

}  // namespace snug::core::test
