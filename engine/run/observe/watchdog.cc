#include "engine/run/observe/watchdog.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

namespace snug::core {
namespace {

double SecondsBetween(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Returns `"fc1" (dense), models/mlp.pbtxt:5:9`.
std::string NameOf(const Compiled& compiled, int32_t step) {
  const Node& node = compiled.graph.node(compiled.executable.steps[static_cast<size_t>(step)].node);
  const std::string place = node.loc.ToString();
  return absl::StrCat("\"", node.name, "\" (", node.op, place.empty() ? ")" : "), ", place);
}

// Names the unfinished Steps of other streams that `step` waits for.
std::string WaitsOf(const Compiled& compiled, int32_t step, const std::vector<Executor::At>& at) {
  const Schedule& schedule = compiled.executable.schedule;
  std::string text;
  for (const auto& [a, b] : schedule.waits) {
    if (b != step) continue;
    const int32_t stream = schedule.stream_of[static_cast<size_t>(a)];
    const int32_t there = at[static_cast<size_t>(stream)].step;  // a stream runs its Steps by rising numbers
    if (there < 0 || there > a) continue;
    absl::StrAppend(&text, text.empty() ? ", for " : " and ", NameOf(compiled, a), " of stream ", stream);
  }
  return text;
}

}  // namespace

Watchdog::Watchdog(WatchdogOptions options)
    : options_(std::move(options)), next_seconds_(options_.seconds), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::Watch() {
  constexpr double kLooks = 10, kLeast = 1e-3, kMost = 0.25;  // how often it looks before the first report; bounds of
                                                              // the seconds between two looks
  const std::chrono::duration<double> pause(std::clamp(options_.seconds / kLooks, kLeast, kMost));
  Sight seen;
  std::unique_lock<std::mutex> lock(mu_);
  while (!wake_.wait_for(lock, pause, [this] { return stop_; })) {
    lock.unlock();
    const Clock::time_point now = options_.now();
    Program* const program = running_.load(std::memory_order_acquire);
    if (program == nullptr) {
      seen = {};
    } else {
      Look(*program, now, seen);
    }
    lock.lock();
  }
}

// This thread may itself be kept waiting between any two lines. So the time that a Step is said to have taken begins
// with a clock that was read after the Step was seen, and ends with one that was read before it was seen again: it is
// never more than the Step took.
void Watchdog::Look(Program& program, Clock::time_point now, Sight& seen) {
  const int64_t run = runs_.load(std::memory_order_relaxed);
  std::vector<Executor::At> at = program.executor().Running();
  if (run != seen.run || at != seen.at) {
    const bool same_run = run == seen.run;
    const Clock::time_point first_seen = options_.now();
    seen.since.resize(at.size(), first_seen);
    for (size_t s = 0; s < at.size(); ++s) {
      if (!same_run || !(at[s] == seen.at[s])) seen.since[s] = first_seen;
    }
    seen.run = run;
    seen.at = std::move(at);
    seen.moved = first_seen;
    next_seconds_ = options_.seconds;
    return;
  }
  if (SecondsBetween(seen.moved, now) < next_seconds_) return;
  next_seconds_ *= 2;
  const std::string report = Report(program, now, seen);
  if (options_.report != nullptr) {
    options_.report(report);
  } else {
    std::fputs(report.c_str(), stderr);
  }
}

std::string Watchdog::Report(const Program& program, Clock::time_point now, const Sight& seen) const {
  const Compiled& compiled = program.compiled();
  std::string text = absl::StrFormat("watchdog: run %d of \"%s\": no op has finished for %.3g s\n", seen.run,
                                     compiled.graph.name, SecondsBetween(seen.moved, now));
  for (size_t s = 0; s < seen.at.size(); ++s) {
    const auto [step, waiting] = seen.at[s];
    absl::StrAppendFormat(&text, "  stream %d: for %.3g s ", s, SecondsBetween(seen.since[s], now));
    if (step < 0) {
      absl::StrAppend(&text, waiting ? "waiting for the device, which has the whole step" : "nothing to run");
    } else if (waiting) {
      absl::StrAppend(&text, "waiting before ", NameOf(compiled, step), WaitsOf(compiled, step, seen.at));
    } else {
      absl::StrAppend(&text, "running ", NameOf(compiled, step));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace snug::core
