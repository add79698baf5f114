// The simulation and the allocator that it foretells give the same figures.
#include "memory/allocator/simulate.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

using Action = AllocatorEvent::Action;

std::vector<AllocatorEvent> RandomEvents(uint32_t seed, int count, int streams) {
  std::mt19937 random(seed);
  std::vector<AllocatorEvent> events;
  std::vector<int32_t> live, spare;
  int32_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    if (live.empty() || random() % 100 < (live.size() < 200 ? 60u : 40u)) {
      if (spare.empty()) spare.push_back(blocks++);
      live.push_back(spare.back());
      spare.pop_back();
      const auto bytes = static_cast<int64_t>(random() % (1u << (random() % 20)));
      events.push_back({Action::kAllocate, live.back(), bytes, static_cast<int32_t>(random()) & (streams - 1)});
    } else {
      std::swap(live[random() % live.size()], live.back());
      events.push_back({Action::kFree, live.back()});
      spare.push_back(live.back());
      live.pop_back();
    }
  }
  return events;
}

AllocatorStatistics Replay(const std::vector<AllocatorEvent>& events, Allocator* allocator) {
  std::vector<void*> blocks(events.size());
  for (const AllocatorEvent& event : events) {
    void*& block = blocks[static_cast<size_t>(event.block)];
    if (event.action == Action::kFree) {
      EXPECT_TRUE(allocator->Free(block).ok());
    } else {
      block = Take(allocator, event.bytes, {.stream = event.stream});
    }
  }
  return allocator->statistics();
}

class AllocatorSimulation : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Allocator, AllocatorSimulation,
                         ::testing::Values("auto_growth", "prealloc", "buddy", "system"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AllocatorSimulation, FiguresAreThoseOfHostMemory) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const AllocatorOptions options{.allocator = GetParam(),
                                   .initial_mb = 2,
                                   .reallocate_mb = 1,
                                   .buddy_initial_mb = 1,
                                   .buddy_max_pool_mb = seed % 2};
    const std::vector<AllocatorEvent> events = RandomEvents(seed, 5000, seed % 4 == 0 ? 4 : 1);
    HostSource source(256);
    const auto allocator = MakeAllocator(options, &source);
    const AllocatorStatistics real = Replay(events, allocator.get());
    const absl::StatusOr<AllocatorStatistics> foretold = Simulate(events, options, {Place::Cpu()});
    ASSERT_TRUE(foretold.ok()) << foretold.status();
    EXPECT_GT(foretold->peak_reserved_bytes, 0);
    EXPECT_EQ(foretold->peak_reserved_bytes, real.peak_reserved_bytes);
    EXPECT_EQ(foretold->reserved_bytes, real.reserved_bytes);
    EXPECT_EQ(foretold->peak_used_bytes, real.peak_used_bytes);
    EXPECT_EQ(foretold->used_at_reserved_peak, real.used_at_reserved_peak);
    EXPECT_EQ(foretold->block_bytes, real.block_bytes);
    EXPECT_EQ(foretold->system_allocations, real.system_allocations);
  }
}

// The peak is also the least limit under which the program runs, where idle chunks are not needed elsewhere.
TEST(AllocatorSimulate, SystemPeakIsTheLeastLimitThatWorks) {
  const std::vector<AllocatorEvent> events = RandomEvents(3, 3000, 1);
  AllocatorOptions options{.allocator = "system", .retry_ms = 0};
  const auto free = Simulate(events, options, {Place::Cpu()});
  ASSERT_TRUE(free.ok());
  options.memory_limit = free->peak_reserved_bytes;
  EXPECT_TRUE(Simulate(events, options, {Place::Cpu()}).ok());
  options.memory_limit -= 1;
  EXPECT_EQ(Simulate(events, options, {Place::Cpu()}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(AllocatorSimulate, RunsOutOfMemoryWhereTheProgramWould) {
  const std::vector<AllocatorEvent> events = {{Action::kAllocate, 0, 600, 0, "a"},
                                              {Action::kFree, 0},
                                              {Action::kAllocate, 1, 500, 0, "b"},
                                              {Action::kAllocate, 0, 600, 0, "c"}};
  const absl::Status status = Simulate(events, {}, {Place::Cuda(0), 1024}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message().substr(0, 58), "out of memory on cuda:0: asked for 600 bytes for \"c\"\n  the") << status;
  EXPECT_TRUE(Simulate(events, {}, {Place::Cuda(0), 2048}).ok());
}

TEST(AllocatorSimulate, TouchesNoMemory) {
  constexpr int64_t kTB = 1'000'000'000'000;
  const std::vector<AllocatorEvent> events = {{Action::kAllocate, 0, 100 * kTB}, {Action::kAllocate, 1, 100 * kTB}};
  for (const char* name : {"auto_growth", "buddy", "system"}) {
    const auto s = Simulate(events, {.allocator = name}, {Place::Cpu()});
    ASSERT_TRUE(s.ok());
    EXPECT_GE(s->peak_reserved_bytes, 200 * kTB);
  }
}

TEST(AllocatorSimulate, WrongSequencesAreErrors) {
  EXPECT_EQ(Simulate({{Action::kFree, 0}}, {}, {}).status(),
            absl::InvalidArgumentError("event 0: block 0 is not in use"));
  EXPECT_EQ(Simulate({{Action::kAllocate, 0, 8}, {Action::kAllocate, 0, 8}}, {}, {}).status(),
            absl::InvalidArgumentError("event 1: block 0 is in use"));
  EXPECT_EQ(Simulate({{Action::kAllocate, -1, 8}}, {}, {}).status(), absl::InvalidArgumentError("event 0: block -1"));
}

}  // namespace
}  // namespace snug::core::memory
