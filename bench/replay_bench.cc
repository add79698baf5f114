// What the compiled replay adds to a Step: Steps that do nothing, on one stream, and on two that wait for each other at
// every Step.
//   replay_bench [--steps=N] [--rounds=R]
// Prints the best and the median of R rounds in nanoseconds per Step, wall time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/executors/bound_steps.h"
#include "engine/run/executors/executor.h"

namespace snug::core {
namespace {

absl::Status Nothing(const KernelContext&) { return absl::OkStatus(); }

// Each Step overwrites what the one before wrote; they go to the streams in turn.
Executable Chain(int steps, int streams) {
  Executable executable;
  const auto nothing = std::make_shared<const KernelRow>(KernelRow{.name = "nothing", .run = Nothing});
  std::vector<std::vector<Access>> accesses;
  std::vector<int32_t> stream_of;
  for (int i = 0; i < steps; ++i) {
    Step step;
    step.kernel = nothing;
    step.accesses = {{{0, 0, 64}, true}};
    accesses.push_back(step.accesses);
    stream_of.push_back(i % streams);
    executable.steps.push_back(std::move(step));
  }
  executable.schedule = ScheduleStreams(accesses, std::move(stream_of), streams);
  return executable;
}

void Report(const char* name, ExecutorKind engine, int streams, int steps, int rounds) {
  const Executable executable = Chain(steps, streams);
  const std::unique_ptr<Executor> executor = MakeExecutor(engine, executable, {}, nullptr).value();
  std::vector<double> times;
  for (int r = 0; r <= rounds; ++r) {  // the first warms up
    Executor::Failure failure;
    const auto begin = std::chrono::steady_clock::now();
    SNUG_CHECK_OK(executor->Run(&failure));
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    if (r > 0) times.push_back(ns / steps);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-44s best %7.1f ns   median %7.1f ns per Step\n", name, times.front(), times[times.size() / 2]);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  int steps = 1000, rounds = 200;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--steps=", 8) == 0) {
      steps = std::atoi(argv[i] + 8);
    } else if (std::strncmp(argv[i], "--rounds=", 9) == 0) {
      rounds = std::atoi(argv[i] + 9);
    } else {
      std::fprintf(stderr, "usage: replay_bench [--steps=N] [--rounds=R]\n");
      return 2;
    }
  }
  if (steps < 1 || rounds < 1) {
    std::fprintf(stderr, "replay_bench: --steps and --rounds are at least 1\n");
    return 2;
  }
  using snug::core::ExecutorKind;
  snug::core::Report("serial", ExecutorKind::kSerial, 1, steps, rounds);
  snug::core::Report("replay, one stream", ExecutorKind::kReplay, 1, steps, rounds);
  snug::core::Report("replay, two streams that wait at every Step", ExecutorKind::kReplay, 2, steps, rounds);
  snug::core::Report("dynamic engine, one stream", ExecutorKind::kDynamic, 1, steps, rounds);
  snug::core::Report("dynamic engine, two streams", ExecutorKind::kDynamic, 2, steps, rounds);
  return 0;
}
