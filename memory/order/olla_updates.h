// Section 4.3 of OLLA: control edges that make weight updates, and the gradients' bytes with them, go early. They can
// cost bytes: where a large gradient is best computed and applied after the activations are gone, they force it before.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/tasks.h"

namespace snug::memory {

// One edge for each task that writes no bytes and frees some, if a task is found that it can run before.
std::vector<std::pair<int32_t, int32_t>> EarlyUpdateEdges(const Tasks& tasks);

}  // namespace snug::memory
