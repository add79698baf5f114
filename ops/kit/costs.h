// What most ops cost: so many operations for each element.
#pragma once

#include "ops/node_types.h"
#include "ops/op_def.h"

namespace snug::core {

// An OpDef::cost: `kFlops` operations for each element of an input.
template <int kFlops, int kInput = 0>
Cost FlopsPerElement(const NodeTypes& types) {
  return {.flops = static_cast<double>(kFlops) * static_cast<double>(types.input(kInput).num_elements())};
}

}  // namespace snug::core
