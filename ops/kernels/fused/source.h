// Writes the CUDA source of a fused chain: one kernel for all of its members. Where a reduction ends the chain, that
// kernel computes the elements instead of reading them, and a second one adds up the parts, if there are several.
//
// A thread takes kPack neighbours of the output (with a reduction: of its elements) at a time. Operands that lie like
// the output are read 16 bytes at once, others element by element, from where the strides say, which are constants in
// the source. There are two entries: one for packs, and one for what cannot be read so (a count that is no multiple,
// the address of a view). Sources of chains without broadcasting contain no sizes, so layers of different sizes share
// one. With a reduction sizes are constants.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/fused_chain.h"

namespace snug::core {

inline constexpr char kFusedPacked[] = "snug_fused_packed";
inline constexpr char kFusedSingle[] = "snug_fused_single";
inline constexpr char kFusedCombine[] = "snug_fused_combine";

// How a chain with a reduction is launched (CudaReduceSpread).
struct FusedReduce {
  int64_t blocks = 0, parts = 1;  // along x and y
  int64_t combine_blocks = 0;     // of the kernel that combines parts
  int64_t workspace_bytes = 0;    // holds the parts
};

struct FusedSource {
  std::string name;  // for messages: "mul, add, relu"
  std::string text;
  int pack = 1;  // how many elements a thread of the first entry takes
  // Indexed by input: whether it is read in packs, so that its address has to be aligned.
  std::vector<bool> packed;
  std::optional<FusedReduce> reduce;
};

FusedSource WriteFusedSource(const FusedChain& chain);

// The words in the kernels' one argument besides the pointers to inputs: a pointer to the output, the number of
// elements (with a reduction, a pointer to the workspace), and 0. Each has 8 bytes.
inline constexpr int kFusedArgumentsBesideInputs = 3;

}  // namespace snug::core
