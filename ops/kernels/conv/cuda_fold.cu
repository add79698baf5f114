#include <algorithm>
#include <bit>

#include "ops/kernels/conv/cuda_fold.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"

namespace snug::core::ops {
namespace {

using Bits = uint16_t;  // a number
constexpr int kPack = kCudaPack<Bits>;
using Pack = CudaPack<Bits, kPack>;

// What FoldDataKernel divides by.
struct FoldDivisors {
  CudaDivisor packs_in_pitch, pitch, packs_in_pixel, run, folded_height;

  explicit FoldDivisors(const ConvFold& fold)
      : packs_in_pitch(fold.block_pitch() / kPack, kFoldBlockNumbers),
        pitch(fold.block_pitch(), kFoldBlockNumbers),
        packs_in_pixel(fold.folded_channels / kPack, int64_t{1} << 31),
        run(fold.run(), int64_t{1} << 31),
        folded_height(fold.folded_height, int64_t{1} << 31) {}
};

// Writes a pack to a block's memory, at once: nvcc takes a struct apart.
__device__ void Hold(const Pack& pack, Bits* at) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<uint4*>(at) = std::bit_cast<uint4>(pack);
#else
  *reinterpret_cast<Pack*>(at) = pack;
#endif
}

// A block makes up to `block_columns` pixels of one row. It holds the rows of x that these see, with zeros in place of
// padding, and puts packs of channels together from there, kStep neighbours at a time: a pixel's channels are runs of
// x's numbers, and all runs begin at multiples of kStep. `in_packs` says that x is read 16 bytes at a time.
template <int kStep>
__global__ void FoldDataKernel(ConvFold fold, FoldDivisors by, bool in_packs, const Bits* x, Bits* folded) {
  __shared__ Pack held[kFoldBlockNumbers / kPack];
  Bits* const rows = held->values;
  const auto row_of_all = static_cast<uint32_t>(blockIdx.x);
  const uint32_t sample = by.folded_height.DivideShort(row_of_all);
  const auto first_row =
      static_cast<int32_t>(row_of_all - sample * static_cast<uint32_t>(fold.folded_height)) * fold.row_stride -
      fold.pad_top;
  const int32_t first_column = static_cast<int32_t>(blockIdx.y) * fold.block_columns;
  const int32_t columns = std::min(fold.block_columns, fold.folded_width - first_column);
  const int32_t pixel_step = fold.column_stride * fold.channels;
  const int32_t first = (first_column * fold.column_stride - fold.pad_left) * fold.channels;
  const int32_t begin = first & ~(kPack - 1);  // also of negative numbers
  const int32_t width = fold.width * fold.channels;
  const int32_t pitch = fold.block_pitch();
  const Bits* const of_sample = x + static_cast<int64_t>(sample) * fold.height * width;

  const auto threads = static_cast<int32_t>(blockDim.x);
  if (in_packs) {
    for (auto i = static_cast<int32_t>(threadIdx.x) * kPack; i < fold.row_stride * pitch; i += threads * kPack) {
      const auto r = static_cast<int32_t>(by.packs_in_pitch.DivideShort(static_cast<uint32_t>(i / kPack)));
      const int32_t row = first_row + r, at = begin + i - r * pitch;
      Pack pack = {};
      if (row >= 0 && row < fold.height && at >= 0 && at < width) {
        pack = LoadWhole<Pack>(of_sample + static_cast<int64_t>(row) * width + at);
      }
      Hold(pack, rows + i);
    }
  } else {
    for (auto i = static_cast<int32_t>(threadIdx.x); i < fold.row_stride * pitch; i += threads) {
      const auto r = static_cast<int32_t>(by.pitch.DivideShort(static_cast<uint32_t>(i)));
      const int32_t row = first_row + r, at = begin + i - r * pitch;
      const bool in_x = row >= 0 && row < fold.height && at >= 0 && at < width;
      rows[i] = in_x ? of_sample[static_cast<int64_t>(row) * width + at] : Bits{0};
    }
  }
  __syncthreads();

  const int32_t packs = fold.folded_channels / kPack, run = fold.run();
  Bits* const result =
      folded + (static_cast<int64_t>(row_of_all) * fold.folded_width + first_column) * fold.folded_channels;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < columns * packs; i += threads) {
    const auto pixel = static_cast<int32_t>(by.packs_in_pixel.DivideShort(static_cast<uint32_t>(i)));
    const int32_t channel = (i - pixel * packs) * kPack;
    auto r = static_cast<int32_t>(by.run.DivideShort(static_cast<uint32_t>(channel)));
    int32_t in_run = channel - r * run;
    const Bits* from = rows + r * pitch + (first - begin) + pixel * pixel_step;
    Pack pack = {};
#pragma unroll
    for (int j = 0; j < kPack; j += kStep) {
      if (r < fold.row_stride) {
        const auto step = LoadWhole<CudaPack<Bits, kStep>>(from + in_run);
        for (int one = 0; one < kStep; ++one) pack.values[j + one] = step.values[one];
      }
      in_run += kStep;
      if (in_run == run) {
        in_run = 0;
        from += pitch;
        ++r;
      }
    }
    StoreWhole(pack, result + static_cast<int64_t>(i) * kPack);
  }
}

// Where a number of the kernel lies, in a filter.
struct WeightPlace {
  int32_t row_stride, column_stride, channel_stride, filter_stride;

  WeightPlace(const ConvFold& fold, bool channels_last)
      : row_stride(fold.kernel_columns * (channels_last ? fold.channels : 1)),
        column_stride(channels_last ? fold.channels : 1),
        channel_stride(channels_last ? 1 : fold.kernel_rows * fold.kernel_columns),
        filter_stride(fold.kernel_rows * fold.kernel_columns * fold.channels) {}
  SNUG_HOST_DEVICE int64_t Offset(int32_t filter, int32_t row, int32_t column, int32_t channel) const {
    return static_cast<int64_t>(filter) * filter_stride + row * row_stride + column * column_stride +
           channel * channel_stride;
  }
};

// A thread makes a number of the folded kernel, of n.
__global__ void FoldWeightsKernel(ConvFold fold, WeightPlace place, int32_t n, const Bits* w, Bits* folded) {
  SNUG_CUDA_FOR(i, n) {
    const auto index = static_cast<int32_t>(i);
    const int32_t taps = index / fold.folded_channels, filter = taps / fold.taps;
    const ConvFold::Tap tap = fold.TapOf(taps - filter * fold.taps, index - taps * fold.folded_channels);
    folded[i] = tap.in_kernel ? w[place.Offset(filter, tap.row, tap.column, tap.channel)] : Bits{0};
  }
}

// A thread takes a number of the kernel's gradient, of n.
__global__ void UnfoldWeightsKernel(ConvFold fold, WeightPlace place, int32_t n, const Bits* folded, Bits* dw) {
  SNUG_CUDA_FOR(i, n) {
    const auto index = static_cast<int32_t>(i);
    const int32_t rows = index / fold.kernel_columns, channels = rows / fold.kernel_rows;
    const int32_t filter = channels / fold.channels, channel = channels - filter * fold.channels;
    const int32_t row = rows - channels * fold.kernel_rows, column = index - rows * fold.kernel_columns;
    const ConvFold::Place in_folded = fold.PlaceOf(row, column, channel);
    dw[place.Offset(filter, row, column, channel)] =
        folded[(static_cast<int64_t>(filter) * fold.taps + in_folded.tap) * fold.folded_channels + in_folded.channel];
  }
}

int32_t WeightsOf(const ConvFold& fold) {
  return fold.filters * fold.channels * fold.kernel_rows * fold.kernel_columns;  // no more than the folded kernel has
}

}  // namespace

absl::Status FoldData(const cuda::LaunchContext& cuda, const ConvFold& fold, const void* x, void* folded) {
  const cuda::LaunchShape shape = {.blocks = int64_t{fold.batch} * fold.folded_height,
                                   .blocks_y = cuda::CountBlocks(fold.folded_width, fold.block_columns),
                                   .threads = kCudaThreads};
  const bool in_packs = fold.width * fold.channels % kPack == 0 && IsAligned(x);
  // Where runs begin, pixel by pixel and row by row.
  const auto all_are_multiples = [&fold](int step) {
    return fold.column_stride * fold.channels % step == 0 && fold.pad_left * fold.channels % step == 0 &&
           fold.run() % step == 0;
  };
  auto* const kernel = all_are_multiples(kPack) ? FoldDataKernel<kPack>
                       : all_are_multiples(2)   ? FoldDataKernel<2>
                                                : FoldDataKernel<1>;
  return cuda.Launch(kernel, shape, fold, FoldDivisors(fold), in_packs, static_cast<const Bits*>(x),
                     static_cast<Bits*>(folded));
}

absl::Status FoldWeights(const cuda::LaunchContext& cuda, const ConvFold& fold, bool channels_last, const void* w,
                         void* folded) {
  const auto n = static_cast<int32_t>(fold.weight_numbers());
  return cuda.Launch(FoldWeightsKernel, ShapeFor(n), fold, WeightPlace(fold, channels_last), n,
                     static_cast<const Bits*>(w), static_cast<Bits*>(folded));
}

absl::Status UnfoldWeights(const cuda::LaunchContext& cuda, const ConvFold& fold, bool channels_last,
                           const void* folded, void* dw) {
  const int32_t n = WeightsOf(fold);
  return cuda.Launch(UnfoldWeightsKernel, ShapeFor(n), fold, WeightPlace(fold, channels_last), n,
                     static_cast<const Bits*>(folded), static_cast<Bits*>(dw));
}

}  // namespace snug::core::ops
