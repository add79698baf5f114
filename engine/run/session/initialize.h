// Makes the first contents of Variables. They only depend on (seed, the Variable's random id, element), so they are the
// same on every machine, whatever else the network holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/graph/graph.h"

namespace snug::core {

// Writes variable.type.size_bytes() bytes.
void Initialize(const Variable& variable, uint64_t seed, std::byte* data);

}  // namespace snug::core
