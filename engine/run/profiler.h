// Where the time of steps goes: by kind of op, by node, by stream. And what the user holds of the memory: bytes that no
// plan and no allocator can use for anything else.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/compile/memory_report.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executor.h"

namespace snug {

class Profiler {
 public:
  Profiler(const Compiled& compiled, const OpRegistry& registry);

  // One step, by the times that Executor::SetTimes asks for.
  void AddStep(absl::Span<const StepTime> times);

  // Ops and nodes, slowest first: calls, ms per step, share of all kernels' time, GFLOP/s, GB/s (of the bytes that must
  // move). Then the streams: busy, waiting for other streams, idle. Then what the user holds.
  std::string Table(size_t most_nodes = 15) const;
  // The same as the value of a key: {"steps", "seconds", "ops", "nodes", "streams", "held"}, times per step. Nodes in
  // the order in which they run, all of them.
  void WriteJson(Json& json) const;

 private:
  struct Row {
    std::string name, op;  // op: of a node
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;  // of one step
    int32_t stream = -1;                       // of a node: where it ran last
  };
  struct Stream {
    double busy = 0, waiting = 0, idle = 0;  // seconds of one step
  };
  std::vector<Row> Nodes() const;  // in Order
  std::vector<Row> Ops() const;    // slowest first
  std::vector<Stream> Streams() const;
  double Seconds() const;  // of a step, from its first Step's turn to its last one's end

  const std::vector<HeldValue> held_;
  std::vector<Row> sums_;        // by Step, of all steps
  std::vector<Stream> streams_;  // of all steps; idle is left open
  double seconds_ = 0;           // of all steps
  int64_t steps_ = 0;
};

}  // namespace snug
