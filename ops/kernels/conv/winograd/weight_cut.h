// How the gradient of the filters by Winograd's filtering is cut into work (weight.cc), and where a worker has memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/winograd/products.h"
#include "ops/kernels/conv/winograd/tiles.h"
#include "ops/kernels/conv/winograd/winograd.h"
#include "ops/kernels/matmul/parts.h"

namespace snug::core::winograd {

// The work is cut into units: cells of some blocks of input channels by some blocks of output channels, and parts of
// the tiles. A unit's tiles are transformed group by group: for all its blocks of output channels, and for one block of
// input channels after the other, whose products with all of those follow. So each thread transforms what it
// multiplies, a tile only once for each cell, and sums stay in registers over all tiles of a group. Parts and groups
// follow from the sizes, so bits do not depend on the threads, for which cells are chosen.
struct GradWeightCut : Tiling {
  GradWeightCut(int threads, const WinogradSizes& s);

  int64_t cells_down() const { return Parts(in_blocks, cell_in); }
  int64_t cells_across() const { return Parts(out_blocks, cell_out); }
  int64_t units() const { return cells_down() * cells_across() * parts; }

  int64_t grads_floats() const { return cell_out * sums * grad_point; }  // of a cell
  int64_t factor_floats() const { return grads_floats() + points * data_point; }
  int64_t sums_floats() const { return products * sums_point; }  // of a block
  // A block's sums become gradients as soon as it has all of its tiles. Until then those of several groups are kept,
  // for all blocks of a cell, and those of parts for whoever adds them up.
  int64_t sums_of_worker() const { return group < tiles ? cell_in * cell_out : 1; }
  int64_t bytes() const {
    const int64_t kept = parts > 1 ? blocks * parts : workers * sums_of_worker();
    return (workers * factor_floats() + kept * sums_floats()) * kFloat;
  }
  Channels ChannelsOf(int64_t block) const {
    return {block * in_block, std::min(in_block, in_channels - block * in_block)};
  }

  int64_t in_channels;
  int64_t in_block, in_blocks;
  int64_t blocks;  // of the result
  int64_t parts;   // of the tiles
  // Tiles that are transformed together, at most: an even number, so that points do not share a set of a cache.
  int64_t group;
  int64_t cell_in = 1, cell_out = 1;  // blocks of a cell
  int64_t workers;                    // threads that have work
  int64_t data_stride;                // from a tile's transformed data to the next one's
  int64_t data_point, grad_point, sums_point;

 private:
  void ChooseCells(int threads);
};

struct GradWeightUnit {
  GradWeightUnit(const GradWeightCut& cut, int64_t number);

  Range in, out;  // blocks
  int64_t part;
  Range tiles;
};

// What a worker has of the workspace.
struct GradWeightMemory {
  GradWeightMemory(const GradWeightCut& cut, int64_t worker, float* workspace)
      : cut(cut),
        worker(worker),
        grads(workspace + worker * cut.factor_floats()),
        data(grads + cut.grads_floats()),
        sums(workspace + cut.workers * cut.factor_floats()) {}

  float* GradsOf(const GradWeightUnit& unit, int64_t out) const {
    return grads + (out - unit.out.begin) * cut.sums * cut.grad_point;
  }
  float* SumsOf(const GradWeightUnit& unit, int64_t in, int64_t out) const;

  const GradWeightCut& cut;
  const int64_t worker;
  float *const grads, *const data;
  float* const sums;  // of all workers
};

}  // namespace snug::core::winograd
