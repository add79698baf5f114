// Positions at which the ordering problem falls apart: every order has the same tasks behind it there. Each stage is a
// problem of its own, and the peak is the highest of theirs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/order/olla_graph.h"
#include "memory/tasks.h"

namespace snug::memory {

struct OllaStage {
  Tasks tasks;                  // what earlier stages hand to later ones is resident
  std::vector<int32_t> origin;  // for each task, which one it was
};

// `extra` are further edges, as given to the graph. With `cut` false, one stage.
std::vector<OllaStage> SplitIntoStages(const OllaGraph& graph, const std::vector<std::pair<int32_t, int32_t>>& extra,
                                       bool cut);

}  // namespace snug::memory
