// Program 14 of OLLA for all stages of a graph, in slices of work: which stage is solved next does not depend on any
// clock, so what is found is one sequence.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/olla_options.h"
#include "memory/order/olla_graph.h"
#include "memory/order/olla_merge.h"
#include "memory/order/olla_stages.h"

namespace snug::memory {

class OllaOrderProgram {
 public:
  // What it tells, and asks, whoever runs it.
  struct Host {
    std::function<void(const TaskOrder& order)> found;  // of the tasks that the program was made of
    std::function<void(int64_t bound)> tighten;         // no order has a lower peak
    std::function<int64_t()> bound;                     // the highest such bound that is known
    std::function<int64_t()> peak;                      // the lowest peak that is known
  };

  // With `early_updates`, what it finds is no bound. `start` need not keep to the edges of those.
  OllaOrderProgram(const Tasks& tasks, const TaskOrder& start, bool early_updates, const OllaOptions& olla);

  // How large it is, in words.
  std::string Size() const;
  // No stage is one for the solver.
  bool Empty() const;
  // Stages that are beyond the solver, in words; empty: none.
  std::string LeftOut() const;

  // Gives each stage that is not solved `work`, the highest peak first, but all together no more than `most`. Returns
  // what was spent.
  absl::StatusOr<int64_t> Run(int64_t work, int64_t most, const Host& host);

  // No stage is left that it could solve.
  bool Finished(int64_t bound) const;

 private:
  struct Stage {
    OllaStage part;
    std::unique_ptr<OllaGraph> graph;
    TaskOrder order;
    int64_t peak = 0;
    int64_t binaries = 0;
    bool solved = false;
    bool open(int64_t bound) const { return !solved && peak > bound && binaries <= kMost; }
  };
  static const int64_t kMost;

  TaskOrder Whole() const;

  bool early_updates_;
  const OllaOptions& olla_;
  std::unique_ptr<MergedTasks> merged_;
  std::vector<Stage> stages_;
  bool announced_ = false;  // the order that it begins with
};

}  // namespace snug::memory
