// Time per Step of a session: attach, run some steps, read the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/run/session.h"

namespace snug {

class Profiler {
 public:
  // Observes the session's executor until destroyed; the session must outlive it.
  Profiler(Session& session, const OpRegistry& registry);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Call right before each Session::Run.
  void BeginStep();

  // Per op and per node, slowest first: calls, ms per step, share, GFLOP/s, GB/s (of the bytes that must move).
  std::string Table(size_t most_nodes = 15) const;

 private:
  struct Row {
    std::string name;
    int calls = 0;
    double seconds = 0, flops = 0, bytes = 0;  // of one training step
  };
  std::string Format(std::vector<Row> rows, size_t most) const;

  Session& session_;
  std::vector<Row> steps_;  // by Step
  std::vector<std::string> ops_;
  int64_t runs_ = 0;
  int64_t last_ns_ = 0;
};

}  // namespace snug
