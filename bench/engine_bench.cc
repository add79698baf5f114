// What a task costs in the dependency engine: push N tasks that do nothing, wait for all; and push one, wait for it.
//   engine_bench [--tasks=N] [--workers=W] [--rounds=R]
// Prints the best and the median of R rounds in nanoseconds per task, wall time; and what it takes to hand a cache line
// from one core to the other, of which each task that another worker runs needs several.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/dependency/dynamic_engine.h"

namespace snug::core {
namespace {

struct Access {
  std::vector<Region> reads, writes;
};

double Nanoseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

void Report(const char* name, int rounds, int64_t tasks, const std::function<void()>& round) {
  round();  // warms pools and caches
  std::vector<double> times;
  for (int r = 0; r < rounds; ++r) times.push_back(Nanoseconds(round) / static_cast<double>(tasks));
  std::sort(times.begin(), times.end());
  std::printf("%-28s best %7.1f ns   median %7.1f ns per task\n", name, times.front(), times[times.size() / 2]);
}

// Two threads hand a number back and forth: each of its steps is one move of the line from core to core.
void HandOver(int64_t moves) {
  std::atomic<int64_t> turn = 0;
  const auto play = [&](int64_t mine) {
    for (int64_t next = mine; next < moves; next += 2) {
      while (turn.load(std::memory_order_acquire) != next) {
      }
      turn.store(next + 1, std::memory_order_release);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
}

void Run(int64_t tasks, int workers, int rounds) {
  Report("a line from core to core", rounds, tasks, [&] { HandOver(tasks); });
  auto engine = DynamicEngine::Create({.devices = {{.device = {}, .workers = workers}}}).value();
  std::vector<Region> tags;
  for (int i = 0; i < 100; ++i) tags.emplace_back(engine->NewTag());

  const auto push_all = [&](const std::vector<Access>& accesses) {
    for (int64_t i = 0; i < tasks; ++i) {
      const Access& a = accesses[static_cast<size_t>(i) % accesses.size()];
      SNUG_CHECK_OK(engine->Push({.reads = a.reads, .writes = a.writes}, [] { return absl::OkStatus(); }));
    }
    SNUG_CHECK_OK(engine->WaitAll());
  };

  const std::vector<Access> chain = {{{}, {tags[0]}}};
  Report("chain, one write", rounds, tasks, [&] { push_all(chain); });
  std::vector<Access> long_chain;  // task i reads what the three before it wrote
  for (size_t i = 0; i < 100; ++i) {
    long_chain.push_back({{tags[(i + 99) % 100], tags[(i + 98) % 100], tags[(i + 97) % 100]}, {tags[i]}});
  }
  Report("chain, three reads, a write", rounds, tasks, [&] { push_all(long_chain); });

  std::mt19937 random(1);
  std::vector<Access> graph(4096);
  for (Access& a : graph) {
    for (unsigned reads = random() % 4; reads > 0; --reads) a.reads.push_back(tags[random() % 100]);
    a.writes = {tags[random() % 100]};
  }
  Report("random graph, 100 tags", rounds, tasks, [&] { push_all(graph); });

  std::vector<Access> independent;
  for (size_t i = 0; i < 100; ++i) independent.push_back({{}, {tags[i]}});
  Report("independent writes", rounds, tasks, [&] { push_all(independent); });

  std::vector<Access> regions(4096);
  for (Access& a : regions) {
    const auto region = [&] {
      const int64_t begin = static_cast<int64_t>(random() % 100) * 64;
      return Region{0, begin, begin + 64 + static_cast<int64_t>(random() % 4) * 64};
    };
    for (unsigned reads = random() % 4; reads > 0; --reads) a.reads.push_back(region());
    a.writes = {region()};
  }
  Report("random overlapping regions", rounds, tasks, [&] { push_all(regions); });

  const int64_t waits = std::max<int64_t>(tasks / 100, 1);
  Report("push and wait", rounds, waits, [&] {
    for (int64_t i = 0; i < waits; ++i) {
      SNUG_CHECK_OK(engine->Push({.writes = chain[0].writes}, [] { return absl::OkStatus(); }));
      SNUG_CHECK_OK(engine->Wait(tags[0]));
    }
  });
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  int64_t tasks = 200000;
  int workers = 2, rounds = 7;
  for (int i = 1; i < argc; ++i) {
    const auto number = [&](const char* flag) {
      const size_t length = std::strlen(flag);
      return std::strncmp(argv[i], flag, length) == 0 ? std::atoll(argv[i] + length) : 0;
    };
    if (const auto n = number("--tasks="); n > 0) {
      tasks = n;
    } else if (const auto w = number("--workers="); w > 0) {
      workers = static_cast<int>(w);
    } else if (const auto r = number("--rounds="); r > 0) {
      rounds = static_cast<int>(r);
    } else {
      std::fprintf(stderr, "usage: engine_bench [--tasks=N] [--workers=W] [--rounds=R]\n");
      return 2;
    }
  }
  snug::core::Run(tasks, workers, rounds);
  return 0;
}
