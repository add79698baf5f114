// Reductions on a CUDA device. Like the processor's (kernels/reduce/reduce.h) they are cut into parts by shapes alone
// and added in a fixed order, so the bits are always the same. It is for .cu files.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/reduce/reduce.h"
#include "ops/kit/cuda_axes.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_reduce_parts.h"
#include "ops/kit/cuda_reduce_steps.h"

namespace snug::core {

// ReducePlan as kernels walk it.
struct CudaReducePlan {
  // NOLINTNEXTLINE(google-explicit-constructor): what a launch passes to a kernel
  CudaReducePlan(const ReducePlan& plan) : kept_x(plan.kept_x), kept_y(plan.kept_y), reduced_x(plan.reduced_x) {}
  CudaAxes kept_x, kept_y, reduced_x;
};

// Gives one number for each output and part to store(output, part, total). A block computes it, or a thread.
template <class Op, class T, class Map, class Store>
__global__ void ReduceByBlockKernel(CudaReducePlan plan, int64_t reduced, int64_t parts, const T* x, Map map,
                                    Store store) {
  using A = Accumulator<T>;
  const int64_t output = blockIdx.x;
  const int64_t part = blockIdx.y;
  const T* base = x + plan.kept_x.Offset(output);
  const double own =
      ReduceInSteps<Op, A>(reduced * part / parts + threadIdx.x, reduced * (part + 1) / parts, blockDim.x,
                           [&](int64_t i) { return map(static_cast<A>(base[plan.reduced_x.Offset(i)])); });
  const double total = BlockReduce<Op>(own);
  if (threadIdx.x == 0) store(plan, output, part, total);
}

template <class Op, class T, class Map, class Store>
__global__ void ReduceByThreadKernel(CudaReducePlan plan, int64_t outputs, int64_t reduced, int64_t parts, const T* x,
                                     Map map, Store store) {
  using A = Accumulator<T>;
  const int64_t part = blockIdx.y;
  SNUG_CUDA_FOR(output, outputs) {
    const T* base = x + plan.kept_x.Offset(output);
    store(plan, output, part,
          ReduceInSteps<Op, A>(reduced * part / parts, reduced * (part + 1) / parts, 1,
                               [&](int64_t i) { return map(static_cast<A>(base[plan.reduced_x.Offset(i)])); }));
  }
}

template <class T>
struct StoreResult {
  T* y;
  double factor;
  __device__ void operator()(const CudaReducePlan& plan, int64_t output, int64_t, double total) const {
    y[plan.kept_y.Offset(output)] = static_cast<T>(static_cast<Accumulator<T>>(total * factor));
  }
};

struct StorePartial {
  double* partials;  // [parts, outputs]
  int64_t outputs;
  __device__ void operator()(const CudaReducePlan&, int64_t output, int64_t part, double total) const {
    partials[part * outputs + output] = total;
  }
};

template <class Op, class Store>
__global__ void CombinePartsKernel(CudaReducePlan plan, int64_t outputs, int64_t parts, const double* partials,
                                   Store store) {
  SNUG_CUDA_FOR(output, outputs) {
    double total = partials[output];
    for (int64_t part = 1; part < parts; ++part) total = Op::Combine(total, partials[part * outputs + output]);
    store(plan, output, 0, total);
  }
}

struct Unchanged {
  template <class A>
  SNUG_HOST_DEVICE A operator()(A x) const {
    return x;
  }
};

// Computes y = factor * (map(x) reduced). The workspace has CudaReduceWorkspace(plan) bytes.
template <class Op, class T, class Map = Unchanged>
absl::Status ReduceOnCuda(const KernelContext& k, const ReducePlan& plan, const T* x, T* y, double factor = 1,
                          const Map& map = {}) {
  const int64_t outputs = plan.kept_x.count();
  const int64_t reduced = plan.reduced_x.count();
  const CudaReduceParts split(plan);
  const StoreResult<T> result = {y, factor};
  const StorePartial partial = {k.workspace<double>(), outputs};
  const auto launch = [&](const auto& store) {
    using Store = std::decay_t<decltype(store)>;
    if (split.by_block) {
      return k.cuda()->Launch(ReduceByBlockKernel<Op, T, Map, Store>, {.blocks = outputs, .blocks_y = split.parts},
                              plan, reduced, split.parts, x, map, store);
    }
    cuda::LaunchShape shape = ShapeFor(outputs);
    shape.blocks_y = split.parts;
    return k.cuda()->Launch(ReduceByThreadKernel<Op, T, Map, Store>, shape, plan, outputs, reduced, split.parts, x, map,
                            store);
  };
  if (split.parts == 1) return launch(result);
  SNUG_RETURN_IF_ERROR(launch(partial));
  return k.cuda()->Launch(CombinePartsKernel<Op, StoreResult<T>>, ShapeFor(outputs), plan, outputs, split.parts,
                          partial.partials, result);
}

}  // namespace snug::core
