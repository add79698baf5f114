#include <limits>

#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"
#include "ops/math/along_axis_cuda.h"

namespace snug::core {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// Gives the first i below n of which is(i) holds. All threads of the team call it, and all get the result.
template <class Team, class Is>
__device__ int64_t FirstOf(int64_t n, const Is& is) {
  return static_cast<int64_t>(
      -TeamReduce<Team, MaxOp, double>(n, [&](int64_t i) { return is(i) ? -static_cast<double>(i) : kNone; }));
}

template <class T, class Team>
__global__ void ArgMaxKernel(CudaRows rows, const T* x, int32_t* y) {
  using A = Accumulator<T>;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const auto at = [&](int64_t i) { return static_cast<A>(x[rows.At(row, i)]); };
    const A most = static_cast<A>(TeamReduce<Team, MaxOp, A>(rows.width, at));
    const int64_t first = FirstOf<Team>(rows.width, [&](int64_t i) {
      const A v = at(i);
      return v == most || (v != v && most != most);
    });
    if (Team::First() == 0) y[row] = static_cast<int32_t>(first);
  }
}

// y may be x.
template <class T>
__global__ void SumByThreadKernel(CudaRows rows, bool reverse, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(row, rows.count()) {
    double sum = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      const int64_t j = rows.At(row, reverse ? rows.width - 1 - i : i);
      sum += static_cast<double>(static_cast<A>(x[j]));
      y[j] = static_cast<T>(static_cast<A>(sum));
    }
  }
}

// A block takes a stretch of a row at a time, one element a thread, and adds up over distances that double. y may be x.
template <class T>
__global__ void SumByBlockKernel(CudaRows rows, bool reverse, const T* x, T* y) {
  using A = Accumulator<T>;
  __shared__ double sums[kCudaThreads];
  for (int64_t row = blockIdx.x; row < rows.count(); row += gridDim.x) {
    double before = 0;
    for (int64_t begin = 0; begin < rows.width; begin += blockDim.x) {
      const int64_t i = begin + threadIdx.x;
      const int64_t j = rows.At(row, reverse ? rows.width - 1 - i : i);
      sums[threadIdx.x] = i < rows.width ? static_cast<double>(static_cast<A>(x[j])) : 0;
      for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
        __syncthreads();
        const double left = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
        __syncthreads();
        sums[threadIdx.x] += left;
      }
      __syncthreads();
      if (i < rows.width) y[j] = static_cast<T>(static_cast<A>(before + sums[threadIdx.x]));
      before += sums[blockDim.x - 1];
      __syncthreads();  // so that the next stretch may write the sums
    }
  }
}

// The entries of a row follow each other from the largest to the smallest, NaN first, and equal ones by their index.
// Each sweep finds the one that follows the last.
template <class T, class Team>
__global__ void TopKKernel(CudaRows rows, int64_t most, const T* x, T* values, int32_t* indices) {
  using A = Accumulator<T>;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const auto at = [&](int64_t i) { return static_cast<A>(x[rows.At(row, i)]); };
    A last = 0;
    int64_t index = -1;
    for (int64_t found = 0; found < most; ++found) {
      const auto follows = [&](int64_t i) {
        const A v = at(i);
        const bool same = v == last || (v != v && last != last);
        return index < 0 || v < last || (last != last && v == v) || (same && i > index);
      };
      const A next = static_cast<A>(TeamReduce<Team, MaxOp, A>(
          rows.width, [&](int64_t i) { return follows(i) ? at(i) : static_cast<A>(kNone); }));
      const int64_t first = FirstOf<Team>(rows.width, [&](int64_t i) {
        const A v = at(i);
        return follows(i) && (v == next || (v != v && next != next));
      });
      last = next;
      index = first;
      if (Team::First() == 0) {
        const int64_t to = CudaRows{rows.outer, most, rows.inner}.At(row, found);
        values[to] = x[rows.At(row, index)];
        indices[to] = static_cast<int32_t>(index);
      }
    }
  }
}

// dx is zero at first. There are n elements [outer][most][inner] of dy.
template <class T>
__global__ void TopKGradKernel(int64_t n, int64_t width, int64_t inner, CudaDivisor by_row, CudaDivisor by_inner,
                               const int32_t* indices, const T* dy, T* dx) {
  SNUG_CUDA_FOR(i, n) {
    const int64_t position = i - by_inner.Divide(i) * inner;
    dx[(by_row.Divide(i) * width + indices[i]) * inner + position] = dy[i];
  }
}

CudaRows RowsOf(const AlongAxis& view) { return {.outer = view.outer, .width = view.width, .inner = view.inner}; }

}  // namespace

absl::Status ArgMaxCuda(const KernelContext& k, const AlongAxis& view) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const CudaRows rows = RowsOf(view);
    return LaunchRows(k, rows, ArgMaxKernel<T, ThreadTeam>, ArgMaxKernel<T, BlockTeam>, rows, k.input<T>(0),
                      k.output<int32_t>(0));
  });
}

absl::Status CumulativeSumCuda(const KernelContext& k, const AlongAxis& view, bool reverse) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const CudaRows rows = RowsOf(view);
    return LaunchRows(k, rows, SumByThreadKernel<T>, SumByBlockKernel<T>, rows, reverse, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status TopKEntriesCuda(const KernelContext& k, const AlongAxis& view, int64_t most) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const CudaRows rows = RowsOf(view);
    return LaunchRows(k, rows, TopKKernel<T, ThreadTeam>, TopKKernel<T, BlockTeam>, rows, most, k.input<T>(0),
                      k.output<T>(0), k.output<int32_t>(1));
  });
}

absl::Status TopKEntriesGradCuda(const KernelContext& k, const AlongAxis& view, int64_t most) {
  SNUG_RETURN_IF_ERROR(k.cuda()->Clear(k.output<void>(0), k.output_type(0).size_bytes()));
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(1).num_elements();
    return k.cuda()->Launch(TopKGradKernel<T>, ShapeFor(n), n, view.width, view.inner,
                            CudaDivisor(most * view.inner, n), CudaDivisor(view.inner, n), k.input<int32_t>(0),
                            k.input<T>(1), k.output<T>(0));
  });
}

}  // namespace snug::core
