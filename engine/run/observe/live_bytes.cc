#include "engine/run/observe/live_bytes.h"

#include <algorithm>

#include "engine/compile/memory/memory_report.h"

namespace snug::core {

LiveBytes::LiveBytes(const memory::Tasks& tasks, const MemoryPlan& plan) {
  std::vector<int32_t> step_of(plan.step.order.size());  // indexed by task
  for (size_t i = 0; i < plan.step.order.size(); ++i) {
    step_of[static_cast<size_t>(plan.step.order[i])] = static_cast<int32_t>(i);
  }
  const std::vector<char> written_over = WrittenOver(plan.step);
  for (size_t i = 0; i < tasks.values.size(); ++i) {
    const memory::TaskValue& value = tasks.values[i];
    Life life{.bytes = value.size_bytes,
              .from_start = value.resident || value.producer < 0,
              .to_end = value.resident || value.fetched,
              .written_over = written_over[i] != 0};
    if (value.producer >= 0) life.producer = step_of[static_cast<size_t>(value.producer)];
    for (const int32_t reader : value.readers) life.readers.push_back(step_of[static_cast<size_t>(reader)]);
    lives_.push_back(std::move(life));
  }
}

std::vector<LiveBytes::Sample> LiveBytes::During(absl::Span<const StepTime> times) const {
  if (times.empty()) return {};
  int64_t start = times[0].turn_ns, end = times[0].end_ns;
  for (const StepTime& time : times) {
    start = std::min(start, time.turn_ns);
    end = std::max(end, time.end_ns);
  }
  const auto time_of = [&](int32_t step) -> const StepTime& { return times[static_cast<size_t>(step)]; };
  std::vector<Sample> changes;
  for (const Life& life : lives_) {
    const int64_t born = life.from_start ? start : time_of(life.producer).begin_ns;
    int64_t gone = life.producer < 0 ? born : time_of(life.producer).end_ns;
    if (life.to_end) {
      gone = end;
    } else if (life.written_over) {
      gone = time_of(*std::max_element(life.readers.begin(), life.readers.end())).begin_ns;
    } else {
      for (const int32_t reader : life.readers) gone = std::max(gone, time_of(reader).end_ns);
    }
    changes.push_back({born, life.bytes});
    changes.push_back({gone, -life.bytes});
  }
  std::sort(changes.begin(), changes.end(), [](const Sample& a, const Sample& b) { return a.ns < b.ns; });
  std::vector<Sample> samples;
  int64_t bytes = 0;
  for (const Sample& change : changes) {
    bytes += change.bytes;
    if (!samples.empty() && samples.back().ns == change.ns) {
      samples.back().bytes = bytes;
    } else {
      samples.push_back({change.ns, bytes});
    }
  }
  return samples;
}

}  // namespace snug::core
