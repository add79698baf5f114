// Splits the ordering problem at positions where every order has the same tasks behind it. Each stage is a problem of
// its own, and the peak is the highest of theirs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/order/olla/graph.h"
#include "memory/tasks.h"

namespace snug::core::memory {

struct OllaStage {
  Tasks tasks;                  // what earlier stages leave for later ones is resident
  std::vector<int32_t> origin;  // the original number of each task
};

// `extra` are further edges, as the graph got them. With `cut` false there is one stage.
std::vector<OllaStage> SplitIntoStages(const OllaGraph& graph, const std::vector<std::pair<int32_t, int32_t>>& extra,
                                       bool cut);

}  // namespace snug::core::memory
