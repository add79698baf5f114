// The reductions of the model file, and the gradient of the largest, by CUDA kernels.
#include "ops/kernels/reduce/cuda.h"
#include "ops/kit/cuda_reduce.h"
#include "ops/kit/cuda_rows.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// A team works for each output: it counts how many elements are largest, then writes their gradient.
template <class T, class Team>
__global__ void MaxGradKernel(CudaReducePlan plan, int64_t outputs, int64_t reduced, const T* x, const T* y,
                              const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t output = Team::FirstRow(); output < outputs; output += Team::RowStep()) {
    const int64_t base = plan.kept_x.Offset(output);
    const int64_t at = plan.kept_y.Offset(output);
    const A largest = static_cast<A>(y[at]);
    const double count = TeamReduce<Team, SumOp, A>(reduced, [&](int64_t i) {
      return static_cast<A>(x[base + plan.reduced_x.Offset(i)]) == largest ? A(1) : A(0);
    });
    const A share = static_cast<A>(dy[at]) / static_cast<A>(count);
    for (int64_t i = Team::First(); i < reduced; i += Team::Step()) {
      const int64_t j = base + plan.reduced_x.Offset(i);
      dx[j] = static_cast<T>(static_cast<A>(x[j]) == largest ? share : A(0));
    }
  }
}

}  // namespace

template <class Op>
absl::Status ReduceCuda(const KernelContext& k, const ReducePlan& plan, double factor) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return ReduceOnCuda<Op>(k, plan, k.input<T>(0), k.output<T>(0), factor);
  });
}
template absl::Status ReduceCuda<SumOp>(const KernelContext&, const ReducePlan&, double);
template absl::Status ReduceCuda<MaxOp>(const KernelContext&, const ReducePlan&, double);

absl::Status SumPortCuda(const KernelContext& k, const ReducePlan& plan, int x, int y) {
  return DispatchFloating(k.output_type(y).dtype, [&](auto zero) {
    using T = decltype(zero);
    return ReduceOnCuda<SumOp>(k, plan, k.input<T>(x), k.output<T>(y), 1);
  });
}

absl::Status ReduceMaxGradCuda(const KernelContext& k, const ReducePlan& plan) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t outputs = plan.kept_x.count();
    const int64_t reduced = plan.reduced_x.count();
    if (plan.inner_kept) {
      return k.cuda()->Launch(MaxGradKernel<T, ThreadTeam>, ShapeFor(outputs), plan, outputs, reduced, k.input<T>(0),
                              k.input<T>(1), k.input<T>(2), k.output<T>(0));
    }
    return LaunchRows(k, {.outer = outputs, .width = reduced}, MaxGradKernel<T, ThreadTeam>,
                      MaxGradKernel<T, BlockTeam>, plan, outputs, reduced, k.input<T>(0), k.input<T>(1), k.input<T>(2),
                      k.output<T>(0));
  });
}

}  // namespace snug::core
