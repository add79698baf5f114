// Chains of elementwise ops by chance: of all that a fused node may have, with broadcast inputs, casts and options.
#pragma once

#include <cstdint>
#include <string>

#include "ops/lib/fused_chain.h"

namespace snug::test {

struct RandomChain {
  FusedChain chain;
  const char* op = "fused";  // or "fused_reduce"
  NodeTypes types;           // of the node
  std::string ToString() const;
};

RandomChain MakeRandomChain(uint64_t seed);

}  // namespace snug::test
