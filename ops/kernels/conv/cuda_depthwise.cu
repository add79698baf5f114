// A thread has 4 channels of a pixel and the 9 taps of each in registers (of 8 they would not fit). It goes through
// runs of neighbouring pixels, so that what it loads serves all taps of several of them, and all that a run needs of a
// row is on its way before the first of it is used.
#include <algorithm>

#include "engine/base/status.h"
#include "ops/cuda_numbers.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/cuda_depthwise.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core::ops {
namespace {

constexpr int kTaps = DepthwiseParts::kTaps;
constexpr int kRun = DepthwiseParts::kRun;  // pixels of a row that a thread does together
constexpr int kRows = 4;                    // rows that it does with the same taps

// Says which run thread i works for: neighbours are neighbouring packs of channels, then runs of a row, then groups of
// rows, then samples.
struct RunIndex {
  int64_t sample;
  int row, column, channel;
};
class DepthwiseRuns {
 public:
  DepthwiseRuns(int64_t batch, int64_t groups_of_rows, int64_t runs, int64_t packs)
      : groups_(groups_of_rows), runs_(runs), packs_(packs), count_(batch * groups_of_rows * runs * packs) {
    by_packs_ = CudaDivisor(packs, count_);
    by_runs_ = CudaDivisor(runs, count_);
    by_groups_ = CudaDivisor(groups_of_rows, count_);
  }
  SNUG_HOST_DEVICE int64_t count() const { return count_; }
  __device__ RunIndex At(int64_t i) const {
    const int64_t of_pack = by_packs_.Divide(i);
    const int64_t of_run = by_runs_.Divide(of_pack);
    const int64_t sample = by_groups_.Divide(of_run);
    return {sample, static_cast<int>(of_run - sample * groups_) * kRows,
            static_cast<int>(of_pack - of_run * runs_) * kRun,
            static_cast<int>(i - of_pack * packs_) * DepthwiseParts::kChannels};
  }

 private:
  int64_t groups_, runs_, packs_;
  int64_t count_;
  CudaDivisor by_packs_, by_runs_, by_groups_;
};

// The taps of a thread's channels: weights are [channels, 9].
template <class T, int kPack>
struct Taps {
  float values[kTaps][kPack];
  __device__ Taps(const T* w, int channel) {
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        values[tap][j] = static_cast<float>(w[(static_cast<int64_t>(channel) + j) * kTaps + tap]);
      }
    }
  }
};

// Loads kCount packs of neighbouring pixels of a row from pixel `column` on; 0 where there is none.
template <class T, int kPack, int kCount>
__device__ void LoadRun(const T* row, int column, int width, int channels, CudaPack<T, kPack> (&run)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int at = column + i;
    if (at >= 0 && at < width) {
      run[i] = LoadPack<true, kPack>(row + static_cast<int64_t>(at) * channels, kPack);
    } else {
      for (int j = 0; j < kPack; ++j) run[i].values[j] = T(0.0F);
    }
  }
}

// The gradient of x where the stride is 2. Pixels are counted with the padding before them: of those in even rows and
// columns the taps 0 and 2 come from two outputs each way, of those in odd ones tap 1 from one. A thread has kRun
// squares of four pixels, which read the same outputs.
template <class T>
__global__ void __launch_bounds__(kCudaThreads, 2)
    DepthwiseGradInputKernel(DepthwiseRuns runs, DepthwiseSizes s, const T* dy, const T* w, T* dx) {
  constexpr int kPack = DepthwiseParts::kChannels;
  const int channels = static_cast<int>(s.channels);
  const int rows = (s.in_height - 1 + s.pad_height) / 2 + 1;
  SNUG_CUDA_FOR(i, runs.count()) {
    const RunIndex at = runs.At(i);
    const Taps<T, kPack> taps(w, at.channel);
    const T* grad = dy + at.sample * s.out_height * s.out_width * channels + at.channel;
    T* result = dx + at.sample * s.in_height * s.in_width * channels + at.channel;
    const int end = std::min(at.row + kRows, rows);
#pragma unroll 1
    for (int row = at.row; row < end; ++row) {
      // Outputs of this row and of the one before, from the column before the run on.
      CudaPack<T, kPack> here[kRun + 1], before[kRun + 1];
      const T* line = grad + static_cast<int64_t>(row) * s.out_width * channels;
      LoadRun<T, kPack, kRun + 1>(line, at.column - 1, row < s.out_height ? s.out_width : 0, channels, here);
      LoadRun<T, kPack, kRun + 1>(line - static_cast<int64_t>(s.out_width) * channels, at.column - 1,
                                  row > 0 && row <= s.out_height ? s.out_width : 0, channels, before);
#pragma unroll
      for (int q = 0; q < kRun; ++q) {
#pragma unroll
        for (int square = 0; square < 4; ++square) {
          const bool odd_row = square / 2 == 1;
          const bool odd_column = square % 2 == 1;
          const int h = 2 * row + square / 2 - s.pad_height;
          const int v = 2 * (at.column + q) + square % 2 - s.pad_width;
          if (h < 0 || h >= s.in_height || v < 0 || v >= s.in_width) continue;
          float numbers[kPack];
#pragma unroll
          for (int j = 0; j < kPack; ++j) {
            const auto term = [&](const CudaPack<T, kPack>& of, int tap) {
              return static_cast<float>(of.values[j]) * taps.values[tap][j];
            };
            const int kh = odd_row ? 1 : 0;
            float sum = term(here[q + 1], kh * 3 + (odd_column ? 1 : 0));
            if (!odd_column) sum += term(here[q], kh * 3 + 2);
            if (!odd_row) {
              sum += term(before[q + 1], 6 + (odd_column ? 1 : 0));
              if (!odd_column) sum += term(before[q], 8);
            }
            numbers[j] = sum;
          }
          StorePack<true>(RoundPack<T>(numbers), result + (static_cast<int64_t>(h) * s.in_width + v) * channels, kPack);
        }
      }
    }
  }
}

// Writes the sums of a part's runs: [parts, taps, channels].
template <class T>
__global__ void __launch_bounds__(kCudaThreads, 2)
    DepthwiseGradWeightKernel(DepthwiseParts parts, DepthwiseSizes s, CudaDivisor by_runs_of_row, CudaDivisor by_height,
                              int runs_of_row, const T* x, const T* dy, double* sums) {
  constexpr int kPack = DepthwiseParts::kChannels;
  constexpr int kReach = kRun + 2;
  const int channels = static_cast<int>(s.channels);
  const int down = static_cast<int>(threadIdx.x) / parts.across;
  const int across = static_cast<int>(threadIdx.x) - down * parts.across;
  const int channel = (static_cast<int>(blockIdx.x) * parts.across + across) * kPack;
  const bool works = down < parts.down && channel < channels;
  float own[kTaps][kPack] = {};
  if (works) {
    for (int64_t run = static_cast<int64_t>(blockIdx.y) * parts.down + down; run < parts.runs;
         run += static_cast<int64_t>(gridDim.y) * parts.down) {
      const int64_t line = by_runs_of_row.Divide(run);
      const int64_t sample = by_height.Divide(line);
      const int row = static_cast<int>(line - sample * s.out_height);
      const int column = static_cast<int>(run - line * runs_of_row) * kRun;
      CudaPack<T, kPack> grads[kRun];
      LoadRun<T, kPack, kRun>(dy + line * s.out_width * channels + channel, column, s.out_width, channels, grads);
      const T* image = x + sample * s.in_height * s.in_width * channels + channel;
#pragma unroll
      for (int kh = 0; kh < 3; ++kh) {
        const int in_row = row - s.pad_height + kh;
        if (in_row < 0 || in_row >= s.in_height) continue;
        CudaPack<T, kPack> reach[kReach];
        LoadRun<T, kPack, kReach>(image + static_cast<int64_t>(in_row) * s.in_width * channels, column - s.pad_width,
                                  s.in_width, channels, reach);
#pragma unroll
        for (int q = 0; q < kRun; ++q) {
#pragma unroll
          for (int kw = 0; kw < 3; ++kw) {
#pragma unroll
            for (int j = 0; j < kPack; ++j) {
              own[kh * 3 + kw][j] +=
                  static_cast<float>(reach[q + kw].values[j]) * static_cast<float>(grads[q].values[j]);
            }
          }
        }
      }
    }
  }
  __shared__ float shared[kCudaThreads][kPack];
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    __syncthreads();
    for (int j = 0; j < kPack; ++j) shared[threadIdx.x][j] = own[tap][j];
    __syncthreads();
    if (down == 0 && works) {
      double totals[kPack] = {};
      for (int other = 0; other < parts.down; ++other) {
        for (int j = 0; j < kPack; ++j) {
          totals[j] += static_cast<double>(shared[other * parts.across + across][j]);
        }
      }
      double* to = sums + (static_cast<int64_t>(blockIdx.y) * kTaps + tap) * channels + channel;
      for (int j = 0; j < kPack; ++j) to[j] = totals[j];
    }
  }
}

// Adds the parts in their order, a column [tap, channel] by the 8 warps of a block in turn: dw is [channels, taps].
template <class T>
__global__ void DepthwiseSumPartsKernel(int64_t parts, int64_t channels, const double* sums, T* dw) {
  constexpr int kWarps = kCudaThreads / 32;
  const int64_t columns = kTaps * channels;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  double own = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t part = warp; part < parts; part += kWarps) own += sums[part * columns + column];
  }
  __shared__ double of_warps[kWarps][32];
  of_warps[warp][lane] = own;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  double total = of_warps[0][lane];
  for (int other = 1; other < kWarps; ++other) total += of_warps[other][lane];
  dw[column % channels * kTaps + column / channels] = static_cast<T>(total);
}

template <class Fn>
absl::Status DispatchServed(DType dtype, const Fn& fn) {
  return dtype == DType::kBFloat16 ? fn(BFloat16(0.0F)) : fn(0.0F);
}

}  // namespace

absl::Status DepthwiseGradInputCuda(const KernelContext& k, const DepthwiseSizes& s) {
  return DispatchServed(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int rows = (s.in_height - 1 + s.pad_height) / 2 + 1;
    const int columns = (s.in_width - 1 + s.pad_width) / 2 + 1;
    const DepthwiseRuns runs(s.batch, cuda::CountBlocks(rows, kRows), cuda::CountBlocks(columns, kRun),
                             s.channels / DepthwiseParts::kChannels);
    return k.cuda()->Launch(DepthwiseGradInputKernel<T>, ShapeFor(runs.count()), runs, s, k.input<T>(0), k.input<T>(1),
                            k.output<T>(0));
  });
}

absl::Status DepthwiseGradWeightCuda(const KernelContext& k, const DepthwiseSizes& s) {
  return DispatchServed(k.output_type(0).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    const DepthwiseParts parts(s);
    const int64_t runs_of_row = cuda::CountBlocks(s.out_width, kRun);
    auto* sums = k.workspace<double>();
    SNUG_RETURN_IF_ERROR(k.cuda()->Launch(
        DepthwiseGradWeightKernel<T>, {.blocks = parts.tiles, .blocks_y = parts.parts, .threads = kCudaThreads}, parts,
        s, CudaDivisor(runs_of_row, parts.runs), CudaDivisor(s.out_height, parts.runs), static_cast<int>(runs_of_row),
        k.input<T>(0), k.input<T>(1), sums));
    return k.cuda()->Launch(DepthwiseSumPartsKernel<T>,
                            {.blocks = cuda::CountBlocks(kTaps * s.channels, 32), .threads = kCudaThreads}, parts.parts,
                            s.channels, sums, k.output<T>(0));
  });
}

}  // namespace snug::core::ops
