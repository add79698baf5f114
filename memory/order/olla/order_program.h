// Solves program 14 of OLLA for all stages of a graph, in slices of work. Which stage is solved next does not depend on
// a clock, so the findings are always the same sequence.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "memory/olla_options.h"
#include "memory/order/olla/graph.h"
#include "memory/order/olla/reductions.h"

namespace snug::core::memory {

class OllaOrderProgram {
 public:
  // How the program talks to whoever runs it.
  struct Host {
    std::function<void(const TaskOrder& order)> found;  // called with an order of the tasks that the program was made
                                                        // of
    std::function<void(int64_t bound)> tighten;         // called with a bound: no order has a lower peak
    std::function<int64_t()> bound;                     // returns the highest such bound that is known
    std::function<int64_t()> peak;                      // returns the lowest peak that is known
  };

  // With `early_updates`, what it finds is no bound, and `start` need not keep to the edges of these updates.
  OllaOrderProgram(const Tasks& tasks, const TaskOrder& start, bool early_updates, const OllaOptions& olla);

  // Says how large the program is.
  std::string Size() const;
  // Tells whether there is no stage for the solver.
  bool Empty() const;
  // Says which stages are beyond the solver; empty when none is.
  std::string LeftOut() const;

  // Gives `work` to each stage that is not solved, the highest peak first, but at most `most` to all together. Returns
  // what was spent.
  absl::StatusOr<int64_t> Run(int64_t work, int64_t most, const Host& host);

  // Tells whether it has no stage left that it could solve.
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
  bool announced_ = false;  // whether the order that it begins with was passed to Host::found
};

}  // namespace snug::core::memory
