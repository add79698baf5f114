#include "ops/kernels/conv/winograd/weight_cut.h"

#include <algorithm>
#include <limits>

#include "ops/kernels/matmul/parts.h"

namespace snug::core::winograd {
namespace {

// A block of the result has so many input channels. In steps, where filters have twice as many sums, it has half of
// them, so that its sums stay in the second-level cache.
constexpr int64_t kMostInChannels = 64, kMostInChannelsInSteps = 32;
// With more tiles in a group products are no faster, and its transformed data take more memory.
constexpr int64_t kMostTilesOfGroup = 64;
// Tiles are cut into parts where blocks are few.
constexpr int64_t kLeastPart = 128;  // tiles
constexpr int64_t kUnits = 16;
// Cells have fewer blocks where the sums that workers keep would else be more floats (16 MB).
constexpr int64_t kMostSums = 4 << 20;
// Multiply-adds in the time that one value of a factor takes to be transformed.
constexpr int64_t kProductsPerTransformed = 10;

}  // namespace

GradWeightCut::GradWeightCut(int threads, const WinogradSizes& s)
    : Tiling(s),
      in_block(EqualPart(s.in_channels, s.kind == WinogradKind::kInSteps ? kMostInChannelsInSteps : kMostInChannels,
                         kWinogradChannels)),
      in_blocks(Parts(s.in_channels, in_block)),
      blocks(in_blocks * out_blocks),
      parts(std::clamp<int64_t>(tiles / kLeastPart, 1, Parts(kUnits, blocks))),
      group(EqualPart(Parts(tiles, parts), kMostTilesOfGroup, 1)),
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
      const int64_t cells = Parts(in_blocks, in) * Parts(out_blocks, out);
      const bool kept_by_workers = parts == 1 && group < tiles && in * out > 1;
      if (kept_by_workers && std::min<int64_t>(threads, cells) * in * out * sums_floats() > kMostSums) continue;
      const int64_t in_channels = in * in_block, out_channels = out * kOutBlock;
      const int64_t cost =
          Parts(cells * parts, threads) * (products * in_channels * out_channels +
                                           kProductsPerTransformed * (points * in_channels + sums * out_channels));
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
  const int64_t in_cell = (in - unit.in.begin) * cut.cell_out + (out - unit.out.begin);
  const int64_t number = cut.parts > 1 ? (out * cut.in_blocks + in) * cut.parts + unit.part
                                       : worker * cut.sums_of_worker() + in_cell % cut.sums_of_worker();
  return sums + number * cut.sums_floats();
}

}  // namespace snug::core::winograd
