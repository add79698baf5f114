#include "ops/kernels/conv/winograd/weight_cut.h"

#include <algorithm>
#include <limits>

#include "ops/kernels/matmul/parts.h"

namespace snug::core::winograd {
namespace {

// A block of the result has so many input channels. In steps, where filters have twice as many sums, it has half of
// them: then the sums of a block have room in the second-level cache.
constexpr int64_t kMostInChannels = 64, kMostInChannelsInSteps = 32;
// Where blocks are few, tiles are cut into parts of at least so many, for as many threads.
constexpr int64_t kLeastPart = 128, kUsualThreads = 16;
// What a worker has of a cell, the transformed gradients and sums that are kept, is at most so many floats (2 MB),
// unless a cell is a block.
constexpr int64_t kMostOfCell = 1 << 19;
// Multiply-adds in the time that one value of a factor takes to be transformed.
constexpr int64_t kProductsPerTransformed = 10;

}  // namespace

GradWeightCut::GradWeightCut(int threads, const WinogradSizes& s)
    : Tiling(s),
      in_channels(s.in_channels),
      in_block(EqualPart(s.in_channels, s.kind == WinogradKind::kInSteps ? kMostInChannelsInSteps : kMostInChannels,
                         kWinogradChannels)),
      in_blocks(Parts(s.in_channels, in_block)),
      blocks(in_blocks * out_blocks),
      parts(std::clamp<int64_t>(tiles / kLeastPart, 1, Parts(kUsualThreads, blocks))),
      group(EqualPart(Parts(tiles, parts), kMostTilesOfBlock, 2)),
      data_stride(StrideOfTiles(in_block)),
      data_point(group * data_stride + kSkew),
      grad_point(group * kOutBlock + kSkew),
      sums_point(in_block * kOutBlock + kSkew) {
  ChooseCells(threads);
  workers = std::min<int64_t>(threads, units());
}

// The best cells are those for which the busiest worker multiplies and transforms the least.
void GradWeightCut::ChooseCells(int threads) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t down = 1; down <= in_blocks; ++down) {
    for (int64_t across = 1; across <= out_blocks; ++across) {
      const int64_t in = Parts(in_blocks, down), out = Parts(out_blocks, across);
      const bool keeps = parts == 1 && group < tiles;
      const int64_t of_cell = out * sums * grad_point + (keeps ? in * out * sums_floats() : 0);
      if (in * out > 1 && of_cell > kMostOfCell) continue;
      const int64_t cells = Parts(in_blocks, in) * Parts(out_blocks, out);
      const int64_t rounds = Parts(cells * parts, threads);
      const int64_t cell_in_channels = in * in_block, cell_out_channels = out * kOutBlock;
      const int64_t transformed = points * cell_in_channels + sums * cell_out_channels;
      const int64_t cost =
          rounds * (products * cell_in_channels * cell_out_channels + kProductsPerTransformed * transformed);
      if (cost >= least) continue;
      least = cost;
      cell_in = in;
      cell_out = out;
    }
  }
}

GradWeightUnit::GradWeightUnit(const GradWeightCut& cut, int64_t number) : part(number % cut.parts) {
  const int64_t cell = number / cut.parts;
  const int64_t first_in = cell / cut.cells_across() * cut.cell_in;
  const int64_t first_out = cell % cut.cells_across() * cut.cell_out;
  in = {first_in, std::min(cut.in_blocks, first_in + cut.cell_in)};
  out = {first_out, std::min(cut.out_blocks, first_out + cut.cell_out)};
  tiles = {cut.tiles * part / cut.parts, cut.tiles * (part + 1) / cut.parts};
}

float* GradWeightMemory::SumsOf(const GradWeightUnit& unit, int64_t in, int64_t out) const {
  int64_t number = worker * cut.sums_of_worker();
  if (cut.parts > 1) {
    number = (out * cut.in_blocks + in) * cut.parts + unit.part;
  } else if (cut.group < cut.tiles) {
    number += (in - unit.in.begin) * cut.cell_out + out - unit.out.begin;
  }
  return sums + number * cut.sums_floats();
}

}  // namespace snug::core::winograd
