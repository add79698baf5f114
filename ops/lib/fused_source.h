// The CUDA source of a fused chain: one kernel for all of its members.
//
// A thread takes kPack neighbours of the output at a time: operands that lie like the output are read 16 bytes at once,
// others element by element, from where the strides say, which are constants in the source. Two entries: for packs, and
// for what cannot be read so (counts that are no multiple, addresses of views). Sources of chains without broadcasting
// know no sizes, so layers of different sizes share one.
#pragma once

#include <string>

#include "ops/lib/fused_chain.h"

namespace snug {

inline constexpr char kFusedPacked[] = "snug_fused_packed";
inline constexpr char kFusedSingle[] = "snug_fused_single";

struct FusedSource {
  std::string name;  // "mul, add, relu": for messages
  std::string text;
  int pack = 1;  // elements that a thread of the first entry takes
  // By input: whether it is read in packs, so that its address counts.
  std::vector<bool> packed;
};

FusedSource WriteFusedSource(const FusedChain& chain);

// The kernel's one argument: pointers to the inputs, to the output, the number of elements, and 0; 8 bytes each.
inline constexpr int kFusedArgumentsBesideInputs = 3;

}  // namespace snug
