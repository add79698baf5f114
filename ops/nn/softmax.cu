// Softmax along any axis, and its gradient, by CUDA kernels.
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/rows_cuda.h"

namespace snug::core {
namespace {

// Rows that lie together. y may be x.
template <class T, class Deal>
__global__ void SoftmaxKernel(int64_t rows, int64_t width, bool log_of, const T* x, T* y) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(x + r * width, width);
    const ExpSum<A> found = SumExponentials<Deal>(row, width, [](int, auto, const auto&) {});
    const A log_sum = static_cast<A>(log(found.sum));
    const A scale = static_cast<A>(1 / found.sum);
    Deal::Each(width, [&](int n, auto i) {
      auto pack = row.At(n, i);
      for (int j = 0; j < Deal::kPack; ++j) {
        const A v = static_cast<A>(pack.values[j]) - found.largest;
        pack.values[j] = static_cast<T>(log_of ? v - log_sum : Exp(v) * scale);
      }
      StorePack<true>(pack, y + r * width + i, Deal::kPack);
    });
  }
}

// For softmax, dx = y (dy - sum(y dy)); for log_softmax, dx = dy - exp(y) sum(dy). dx may be y or dy.
template <class T, class Deal>
__global__ void SoftmaxGradKernel(int64_t rows, int64_t width, bool log_of, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> values(y + r * width, width);
    const DealtRow<T, Deal> grads(dy + r * width, width);
    const A sum = static_cast<A>(Deal::template Sum<A>(width, [&](int n, auto i) {
      const auto g = grads.At(n, i);
      if (log_of) return SumOfPack(g, [](A own) { return own; });
      const auto v = values.At(n, i);
      A of_pack = 0;
      for (int j = 0; j < Deal::kPack; ++j) of_pack += static_cast<A>(v.values[j]) * static_cast<A>(g.values[j]);
      return of_pack;
    }));
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      auto g = grads.At(n, i);
      for (int j = 0; j < Deal::kPack; ++j) {
        const A own = static_cast<A>(g.values[j]);
        const A value = static_cast<A>(v.values[j]);
        g.values[j] = static_cast<T>(log_of ? own - Exp(value) * sum : value * (own - sum));
      }
      StorePack<true>(g, dx + r * width + i, Deal::kPack);
    });
  }
}

// The same for rows whose numbers lie apart, as along channels. A thread does each row, its neighbour the next one.
template <class T>
__global__ void SoftmaxApartKernel(CudaRows rows, bool log_of, const T* x, T* y) {
  using A = Accumulator<T>;
  using Team = ThreadTeam;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const int64_t first = rows.At(row, 0);
    const auto at = [&](int64_t i) { return static_cast<A>(x[first + i * rows.inner]); };
    const A most = static_cast<A>(TeamReduce<Team, MaxOp, A>(rows.width, at));
    const double sum = TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) { return Exp(at(i) - most); });
    const A log_sum = static_cast<A>(log(sum));
    const A scale = static_cast<A>(1 / sum);
    for (int64_t i = 0; i < rows.width; ++i) {
      const A v = at(i) - most;
      y[first + i * rows.inner] = static_cast<T>(log_of ? v - log_sum : Exp(v) * scale);
    }
  }
}

template <class T>
__global__ void SoftmaxApartGradKernel(CudaRows rows, bool log_of, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  using Team = ThreadTeam;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const int64_t first = rows.At(row, 0);
    const A sum = static_cast<A>(TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) {
      const A g = static_cast<A>(dy[first + i * rows.inner]);
      return log_of ? g : static_cast<A>(y[first + i * rows.inner]) * g;
    }));
    for (int64_t i = 0; i < rows.width; ++i) {
      const int64_t j = first + i * rows.inner;
      const A v = static_cast<A>(y[j]);
      const A g = static_cast<A>(dy[j]);
      dx[j] = static_cast<T>(log_of ? g - Exp(v) * sum : v * (g - sum));
    }
  }
}

template <class T>
absl::Status Softmax(const KernelContext& k, const CudaRows& rows, bool log_of) {
  const T* x = k.input<T>(0);
  T* y = k.output<T>(0);
  if (rows.inner > 1) {
    return k.cuda()->Launch(SoftmaxApartKernel<T>, ShapeFor(rows.count()), rows, log_of, x, y);
  }
  return DealRows<T, true>(rows.outer, rows.width, IsAligned(x) && IsAligned(y), [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(SoftmaxKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows.outer, rows.width,
                            log_of, x, y);
  });
}

template <class T>
absl::Status SoftmaxGrad(const KernelContext& k, const CudaRows& rows, bool log_of) {
  const T* y = k.input<T>(0);
  const T* dy = k.input<T>(1);
  T* dx = k.output<T>(0);
  if (rows.inner > 1) {
    return k.cuda()->Launch(SoftmaxApartGradKernel<T>, ShapeFor(rows.count()), rows, log_of, y, dy, dx);
  }
  return DealRows<T, true>(
      rows.outer, rows.width, IsAligned(y) && IsAligned(dy) && IsAligned(dx), [&]<class Deal>(Deal, int64_t blocks) {
        return k.cuda()->Launch(SoftmaxGradKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows.outer,
                                rows.width, log_of, y, dy, dx);
      });
}

}  // namespace

absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return Softmax<decltype(zero)>(k, {outer, axis, inner}, log);
  });
}

absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return SoftmaxGrad<decltype(zero)>(k, {outer, axis, inner}, log);
  });
}

}  // namespace snug::core
