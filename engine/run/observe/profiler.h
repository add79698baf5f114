// Tells where the time of steps goes: by kind of op, by node, and by stream. Also tells how many bytes a step moves,
// and which bytes the user holds, which no plan or allocator can use for anything else.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/compile/memory/memory_report.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executors/executor.h"
#include "engine/run/observe/traffic.h"

namespace snug::core {

class Profiler {
 public:
  Profiler(const Compiled& compiled, const OpRegistry& registry);

  // Adds one step, by the times that Executor::SetTimes asks for.
  void AddStep(absl::Span<const StepTime> times);

  // Returns ops and nodes, the slowest first: calls, ms per step, share of all kernels' time, GFLOP/s, GB/s (of the
  // bytes that must move). Then come the streams (busy, waiting for other streams, idle), the bytes that a step moves,
  // and what the user holds.
  std::string Table(size_t most_nodes = 15) const;
  // Writes the same as the value of a key: {"steps", "seconds", "ops", "nodes", "streams", "moved_bytes",
  // "least_bytes", "held"}, with times per step and all nodes in the order in which they run.
  void WriteJson(Json& json) const;
  // Returns the seconds of each Step, in the sequence of the Order; on average over the steps.
  std::vector<double> StepSeconds() const;

 private:
  struct Timing {
    std::string name, op, kernel;  // the latter two are those of a node
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;  // for one step
    int32_t stream = -1;                       // for a node: where it ran last
  };
  struct Stream {
    double busy = 0, waiting = 0, idle = 0;  // seconds of one step
  };
  std::vector<Timing> Nodes() const;  // in the sequence of the Order
  std::vector<Timing> Ops() const;    // the slowest first
  std::vector<Stream> Streams() const;
  double Seconds() const;  // of a step, from its first Step's turn to its last Step's end

  const std::vector<HeldValue> held_;
  const Traffic traffic_;
  std::vector<Timing> sums_;     // by Step, over all steps
  std::vector<Stream> streams_;  // over all steps; idle is computed at the end
  double seconds_ = 0;           // over all steps
  int64_t steps_ = 0;
};

}  // namespace snug::core
