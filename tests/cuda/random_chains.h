// Makes random chains of elementwise ops, with all that a fused node may have: broadcast inputs, casts and options.
#pragma once

#include <cstdint>
#include <string>

#include "ops/fused_chain.h"

namespace snug::core::test {

struct RandomChain {
  FusedChain chain;
  const char* op = "fused";  // or "fused_reduce"
  NodeTypes types;           // the types of the node
  std::string ToString() const;
};

RandomChain MakeRandomChain(uint64_t seed);

}  // namespace snug::core::test
