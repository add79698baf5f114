// The CUDA source of a fused chain: one kernel for all of its members; where a reduction ends it, that kernel takes
// elements for it as it would otherwise read them, and a second one adds up the parts, if there are several.
//
// A thread takes kPack neighbours of the output at a time: operands that lie like the output are read 16 bytes at once,
// others element by element, from where the strides say, which are constants in the source. Two entries: for packs, and
// for what cannot be read so (counts that are no multiple, addresses of views). Sources of chains without broadcasting
// know no sizes, so layers of different sizes share one. With a reduction sizes are constants, and elements are taken
// one by one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/lib/fused_chain.h"

namespace snug {

inline constexpr char kFusedPacked[] = "snug_fused_packed";
inline constexpr char kFusedSingle[] = "snug_fused_single";
inline constexpr char kFusedReduce[] = "snug_fused_reduce";
inline constexpr char kFusedCombine[] = "snug_fused_combine";

// Of a chain with a reduction: each output in `parts`, by a block each, or by a thread.
struct FusedReduce {
  int64_t outputs = 0, parts = 1;
  bool by_block = false;
  int64_t workspace_bytes = 0;  // for the parts
};

struct FusedSource {
  std::string name;  // "mul, add, relu": for messages
  std::string text;
  int pack = 1;  // elements that a thread of the first entry takes
  // By input: whether it is read in packs, so that its address counts.
  std::vector<bool> packed;
  std::optional<FusedReduce> reduce;
};

FusedSource WriteFusedSource(const FusedChain& chain);

// The kernels' one argument: pointers to the inputs, to the output, the number of elements (or, with a reduction, a
// pointer to the workspace), and 0; 8 bytes each.
inline constexpr int kFusedArgumentsBesideInputs = 3;

}  // namespace snug
