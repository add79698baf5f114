// Random programs give the very same numbers on every engine.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "tests/engine/engines.h"

namespace snug::core {
namespace {

void Spin(int64_t nanoseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(nanoseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Tasks that read some variables (duplicates allowed), spin, and write one: the mean of what was read, with a one.
struct TagProgram {
  static constexpr int kVariables = 100, kTasks = 10000;
  struct Step {
    std::vector<int> reads;
    int write;
    int64_t spin_ns;
  };
  std::vector<Step> steps;

  explicit TagProgram(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int i = 0; i < kTasks; ++i) {
      Step step = {.reads = std::vector<int>(static_cast<size_t>(2 + pick(18))), .write = pick(kVariables)};
      for (int& read : step.reads) read = pick(kVariables);
      step.spin_ns = 1000 * (1 + pick(9));
      steps.push_back(std::move(step));
    }
  }

  std::vector<double> Run(Engine& engine, bool spin) const {
    std::vector<double> values(kVariables);
    std::iota(values.begin(), values.end(), 1.0);
    std::vector<Tag> tags;
    for (int i = 0; i < kVariables; ++i) tags.push_back(engine.NewTag());
    for (const Step& step : steps) {
      std::vector<Region> reads;
      for (const int read : step.reads) reads.emplace_back(tags[static_cast<size_t>(read)]);
      const Region write = tags[static_cast<size_t>(step.write)];
      EXPECT_TRUE(engine
                      .Push({.reads = reads, .writes = {write}, .priority = step.write % 3},
                            [&values, &step, spin] {
                              double sum = 0;
                              for (const int read : step.reads) sum += values[static_cast<size_t>(read)];
                              if (spin) Spin(step.spin_ns);
                              values[static_cast<size_t>(step.write)] =
                                  sum / static_cast<double>(step.reads.size() + 1);
                              return absl::OkStatus();
                            })
                      .ok());
    }
    EXPECT_TRUE(engine.WaitAll().ok());
    return values;
  }
};

// Tasks that take a checksum of some byte ranges of one arena, and rewrite another with bytes made from it.
struct RegionProgram {
  static constexpr int64_t kBytes = 4096;
  static constexpr int kTasks = 3000;
  struct Step {
    std::vector<Region> reads, writes;
  };
  std::vector<Step> steps;

  explicit RegionProgram(unsigned seed) {
    std::mt19937 random(seed);
    const auto region = [&] {
      const auto begin = static_cast<int64_t>(random() % kBytes);
      return Region{0, begin, std::min(kBytes, begin + static_cast<int64_t>(random() % 200))};
    };
    for (int i = 0; i < kTasks; ++i) {
      Step step;
      for (unsigned k = random() % 4; k > 0; --k) step.reads.push_back(region());
      for (unsigned k = 1 + random() % 2; k > 0; --k) step.writes.push_back(region());
      steps.push_back(std::move(step));
    }
  }

  std::vector<uint8_t> Run(Engine& engine) const {
    std::vector<uint8_t> arena(kBytes);
    for (size_t i = 0; i < arena.size(); ++i) arena[i] = static_cast<uint8_t>(i * 37);
    for (const Step& step : steps) {
      EXPECT_TRUE(engine
                      .Push({.reads = step.reads, .writes = step.writes},
                            [&arena, &step] {
                              uint32_t sum = 1;
                              const auto visit = [&](const std::vector<Region>& regions, const auto& f) {
                                for (const Region& r : regions) {
                                  for (int64_t i = r.begin; i < r.end; ++i) f(arena[static_cast<size_t>(i)]);
                                }
                              };
                              const auto add = [&](uint8_t byte) { sum = sum * 31 + byte; };
                              visit(step.reads, add);
                              visit(step.writes, add);
                              visit(step.writes, [&](uint8_t& byte) {
                                sum = sum * 1664525U + 1013904223U;
                                byte = static_cast<uint8_t>(sum >> 24);
                              });
                              return absl::OkStatus();
                            })
                      .ok());
    }
    EXPECT_TRUE(engine.WaitAll().ok());
    return arena;
  }
};

void Compare(unsigned first_seed, unsigned last_seed) {
  for (unsigned seed = first_seed; seed <= last_seed; ++seed) {
    SerialEngine serial;
    const TagProgram tags(seed);
    const RegionProgram regions(seed);
    const std::vector<double> values = tags.Run(serial, /*spin=*/false);
    const std::vector<uint8_t> bytes = regions.Run(serial);
    for (const int workers : {1, 2, 4, 16}) {
      const auto engine = MakeEngine(workers);
      ASSERT_EQ(tags.Run(*engine, /*spin=*/true), values) << "seed " << seed << ", " << workers << " workers";
      ASSERT_EQ(regions.Run(*engine), bytes) << "seed " << seed << ", " << workers << " workers";
    }
  }
}

TEST(RandomPrograms, EqualTheSerialEngine) { Compare(1, 5); }

TEST(CampaignRandomPrograms, EqualTheSerialEngine) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
  Compare(6, 1000);
}

}  // namespace
}  // namespace snug::core
