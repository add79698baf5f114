// Says how a reduction is spread over a CUDA device, by types and shapes alone: the order in which numbers are combined
// follows from it (reduce_walk.h), and kernels, those who plan their workspace and fused kernels agree on it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/base/dtype.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda/threads.h"

namespace snug::core {

// Elements are taken 16 bytes at a time, unless the innermost run of those that are reduced, or kept, is no multiple of
// that. (A single run needs not be one.)
struct CudaReduceSpread {
  static constexpr int kBlockBits = std::countr_zero(static_cast<unsigned>(kCudaThreads));
  static constexpr int64_t kEnoughThreads = 1 << 18;  // to keep a device busy, each with 4 packs in flight
  static constexpr int64_t kEnoughBlocks = 1 << 10;
  static constexpr int64_t kFewSteps = 4;  // of a thread; more where there are enough threads
  static constexpr int64_t kManySteps = 16;

  CudaReduceSpread(const ReducePlan& plan, DType dtype) : columns(plan.inner_kept) {
    outputs = plan.kept_x.count();
    const int64_t reduced = plan.reduced_x.count();
    const int64_t run = std::max<int64_t>(columns ? plan.kept_x.inner_dim() : plan.reduced_x.inner_dim(), 1);
    const int whole = static_cast<int>(16 / SizeOf(dtype));
    const bool single_run = !columns && outputs == 1 && plan.reduced_x.rank <= 1;
    pack = run % whole == 0 || single_run ? whole : 1;
    like_outputs = outputs == 1 || (plan.kept_y.rank == 1 && plan.kept_y.strides[0] == 1);

    if (columns) across_bits = std::min(BitsFor(run / pack), BitsFor(pack == 1 ? 32 : 64 / pack));
    const int64_t steps = columns ? reduced : reduced / pack;
    const int64_t packs = columns ? outputs / pack : outputs;
    // Threads of a team that have packs side by side read whole lines of memory.
    const int least = columns ? 0 : std::min(BitsFor(steps), pack == 1 ? 4 : 3);
    int down = std::clamp(BitsFor((steps + kFewSteps - 1) / kFewSteps), least, kBlockBits - across_bits);
    while (down > least && steps >> down < kManySteps && packs << (down - 1) >= kEnoughThreads) --down;
    team_bits = across_bits + down;

    const int64_t in_block = int64_t{1} << (kBlockBits - down);  // packs
    blocks = (packs + in_block - 1) / in_block;
    const int64_t useful = kEnoughBlocks / std::max<int64_t>(blocks, 1);
    const int64_t wanted = std::max<int64_t>(std::min((steps >> down) / (2 * kFewSteps), useful), 1);
    steps_in_part = std::max<int64_t>((steps + wanted - 1) / wanted, 1);
    parts = static_cast<int>(std::max<int64_t>((steps + steps_in_part - 1) / steps_in_part, 1));
    combine_bits = std::min(BitsFor((parts + kFewSteps - 1) / kFewSteps), kBlockBits);
  }
  // The same where a team has to know all of its outputs.
  CudaReduceSpread InOnePart() const {
    CudaReduceSpread one = *this;
    one.steps_in_part *= parts;
    one.parts = 1;
    return one;
  }
  // Each part of each output needs a double.
  int64_t WorkspaceBytes() const { return parts == 1 ? 0 : parts * outputs * static_cast<int64_t>(sizeof(double)); }
  // Blocks of the kernel that combines parts.
  int64_t combine_blocks() const { return ((outputs << combine_bits) + kCudaThreads - 1) >> kBlockBits; }

  bool columns;       // the innermost axis is kept
  int pack;           // elements that a thread takes at once
  bool like_outputs;  // results lie one after the other, in the order of the outputs
  int across_bits = 0, team_bits, combine_bits;
  int64_t outputs, blocks;
  int64_t steps_in_part;
  int parts;

 private:
  // Returns the logarithm of the least power of two that is not below n.
  static int BitsFor(int64_t n) { return n <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(n) - 1); }
};

}  // namespace snug::core
