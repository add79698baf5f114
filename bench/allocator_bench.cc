// Dynamic allocation: a million allocations and frees by each allocator and by malloc. Prints nanoseconds of CPU per
// operation, the peak of the bytes reserved, and fragmentation as OLLA measures it.
//
//   allocator_bench [operations]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "memory/allocator/allocator.h"
#include "memory/allocator/host_source.h"
#include "memory/allocator/simulate.h"

namespace snug::core::memory {
namespace {

using Action = AllocatorEvent::Action;

// Up to `most` blocks at once, their sizes spread evenly over the powers of two below 2^`bits`.
std::vector<AllocatorEvent> RandomTrace(int operations, size_t most, int bits) {
  std::mt19937 random(1);
  std::vector<AllocatorEvent> events;
  std::vector<int32_t> live, spare;
  for (int i = 0; i < operations; ++i) {
    const uint32_t growing = live.size() < most ? 60 : 40;
    if (live.empty() || random() % 100 < growing) {
      if (spare.empty()) spare.push_back(static_cast<int32_t>(live.size()));
      const auto bytes = static_cast<int64_t>(1 + random() % (1u << (random() % static_cast<uint32_t>(bits) + 1)));
      events.push_back({Action::kAllocate, spare.back(), bytes});
      live.push_back(spare.back());
      spare.pop_back();
    } else {
      std::swap(live[random() % live.size()], live.back());
      events.push_back({Action::kFree, live.back()});
      spare.push_back(live.back());
      live.pop_back();
    }
  }
  return events;
}

// Steps of training a network of 50 layers: activations on the way forward, gradients on the way back, workspaces.
std::vector<AllocatorEvent> TrainingTrace(int operations) {
  constexpr int kLayers = 50;
  std::mt19937 random(1);
  std::vector<int64_t> bytes(kLayers);
  for (int64_t& size : bytes) size = static_cast<int64_t>(1 + random() % 16) << 16;
  std::vector<AllocatorEvent> events;
  constexpr int32_t kWorkspace = 2 * kLayers;
  while (static_cast<int>(events.size()) < operations) {
    for (int32_t i = 0; i < kLayers; ++i) {
      const int64_t size = bytes[static_cast<size_t>(i)];
      events.push_back({Action::kAllocate, kWorkspace, size / 3});
      events.push_back({Action::kAllocate, i, size});
      events.push_back({Action::kFree, kWorkspace});
    }
    for (int32_t i = kLayers; i-- > 0;) {
      events.push_back({Action::kAllocate, kLayers + i, bytes[static_cast<size_t>(i)]});
      if (i + 1 < kLayers) events.push_back({Action::kFree, kLayers + i + 1});
      events.push_back({Action::kFree, i});
    }
    events.push_back({Action::kFree, kLayers});
  }
  return events;
}

struct Result {
  double nanoseconds = 0;  // per operation
  AllocatorStatistics statistics;
};

template <typename Allocate, typename Free>
double Nanoseconds(const std::vector<AllocatorEvent>& events, const Allocate& allocate, const Free& free) {
  std::vector<void*> blocks(events.size());
  const std::clock_t start = std::clock();
  for (const AllocatorEvent& event : events) {
    void*& block = blocks[static_cast<size_t>(event.block)];
    if (event.action == Action::kAllocate) {
      block = allocate(event.bytes);
    } else {
      free(block);
      block = nullptr;
    }
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  for (void* block : blocks) {
    if (block != nullptr) free(block);
  }
  return seconds * 1e9 / static_cast<double>(events.size());
}

Result RunAllocator(const std::string& name, const std::vector<AllocatorEvent>& events) {
  HostSource source(256);
  auto allocator = Allocator::Create({.allocator = name, .initial_mb = 1024}, &source);
  SNUG_CHECK_OK(allocator.status());
  Result result;
  result.nanoseconds = Nanoseconds(
      events,
      [&](int64_t bytes) {
        const absl::StatusOr<void*> block = (*allocator)->Allocate(bytes);
        SNUG_CHECK_OK(block.status());
        return *block;
      },
      [&](void* block) { SNUG_CHECK_OK((*allocator)->Free(block)); });
  result.statistics = (*allocator)->statistics();
  return result;
}

double RunMalloc(const std::vector<AllocatorEvent>& events) {
  return Nanoseconds(
      events, [](int64_t bytes) { return std::malloc(static_cast<size_t>(bytes)); },
      [](void* block) { std::free(block); });
}

void Print(const char* title, const std::vector<AllocatorEvent>& events) {
  constexpr int kRuns = 3;  // the best of them
  std::printf("\n%s, %zu operations\n\n", title, events.size());
  std::printf(
      "| allocator | ns per operation | peak used MB | peak reserved MB | fragmentation | system allocations |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const char* name : {"auto_growth", "prealloc", "buddy", "system"}) {
    Result best = RunAllocator(name, events);
    for (int i = 1; i < kRuns; ++i)
      best.nanoseconds = std::min(best.nanoseconds, RunAllocator(name, events).nanoseconds);
    const AllocatorStatistics& s = best.statistics;
    std::printf("| %s | %.0f | %.1f | %.1f | %.1f %% | %lld |\n", name, best.nanoseconds,
                static_cast<double>(s.peak_used_bytes) / 1e6, static_cast<double>(s.peak_reserved_bytes) / 1e6,
                100 * s.Fragmentation(), static_cast<long long>(s.system_allocations));
  }
  double malloc_ns = RunMalloc(events);
  for (int i = 1; i < kRuns; ++i) malloc_ns = std::min(malloc_ns, RunMalloc(events));
  std::printf("| malloc | %.0f | | | | |\n", malloc_ns);
}

}  // namespace
}  // namespace snug::core::memory

int main(int argc, char** argv) {
  const int operations = argc > 1 ? std::atoi(argv[1]) : 1'000'000;
  using namespace snug::core::memory;
  Print("Random, at most 200 blocks below 1 MB", RandomTrace(operations, 200, 20));
  Print("Random, at most 20,000 blocks below 16 KB", RandomTrace(operations, 20'000, 14));
  Print("Training, 50 layers", TrainingTrace(operations));
}
