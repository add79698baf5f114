// What makes OLLA's programs smaller before the solver sees them: tasks that run in one go, stages, and updates that
// run early. Each is in a .cc file of its own.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/order/olla/graph.h"
#include "memory/order/reduce.h"
#include "memory/tasks.h"

namespace snug::core::memory {

// Joins tasks that may as well run in one go (reduce.h). OLLA's programs then have far fewer binaries, and the least
// peak of all orders stays the same.
struct MergedTasks {
  Tasks tasks;  // what a group needs while it runs, beyond its outputs, is a value that nobody reads
  ReducedNet reduced;

  // Turns an order of the merged tasks into one of the original tasks.
  TaskOrder Expand(const TaskOrder& order) const { return reduced.Expand(order); }
  // Turns an order of the original tasks into one of the merged tasks: each group stands where its last member does, as
  // far as that is legal.
  TaskOrder Collapse(const TaskOrder& order) const;
};

MergedTasks Merge(const Tasks& tasks);

// Splits the ordering problem at positions where every order has the same tasks behind it. Each stage is a problem of
// its own, and the peak is the highest of theirs.
struct OllaStage {
  Tasks tasks;                  // what earlier stages leave for later ones is resident
  std::vector<int32_t> origin;  // the original number of each task
};

// `extra` are further edges, as the graph got them. With `cut` false there is one stage.
std::vector<OllaStage> SplitIntoStages(const OllaGraph& graph, const std::vector<std::pair<int32_t, int32_t>>& extra,
                                       bool cut);

// Section 4.3 of OLLA: control edges that make weight updates run early, so that the gradients' bytes go early. They
// can also cost bytes: a large gradient may be best computed and applied after the activations are gone, and they force
// it before.
//
// Returns one edge for each task that writes no bytes and frees some, if there is a task that it can run before.
std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const Tasks& tasks);

}  // namespace snug::core::memory
