#include "ops/control/control_cuda.h"
#include "ops/control/row_mask.h"
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"

namespace snug::core {
namespace {

// Rows as units of bytes: the largest that they are made of. y may be a or b.
template <class Unit>
__global__ void ChooseRowsKernel(int64_t units, CudaDivisor by_row, const uint8_t* mask, const Unit* a, const Unit* b,
                                 Unit* y) {
  SNUG_CUDA_FOR(i, units) {
    const Unit* from = mask[by_row.Divide(i)] != 0 ? a : b;
    y[i] = from == nullptr ? Unit(0) : from[i];
  }
}

template <class T>
__global__ void CompareKernel(int64_t n, int64_t value, bool greater, const T* x, uint8_t* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = greater ? x[i] > value : x[i] == value; }
}

template <class T, class Round>
__global__ void InCountKernel(int64_t n, const T* count, const Round* round, uint8_t* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = count[i] > *round; }
}

// y: [rounds, counts].
template <class T>
__global__ void RoundsInCountKernel(int64_t n, CudaDivisor by_place, int64_t counts, int64_t rounds, bool backwards,
                                    const T* count, uint8_t* y) {
  SNUG_CUDA_FOR(i, n) {
    const int64_t place = by_place.Divide(i);
    const int64_t round = backwards ? rounds - 1 - place : place;
    y[i] = count[i - place * counts] > round;
  }
}

template <class T>
__global__ void StillHoldsKernel(int64_t n, const T* condition, const uint8_t* before, uint8_t* y) {
  SNUG_CUDA_FOR(i, n) { y[i] = condition[i] != T(0) && (before == nullptr || before[i] != 0); }
}

template <class Unit>
bool IsMadeOf(int64_t row_bytes, const void* a, const void* b, const void* y) {
  const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  return (static_cast<uintptr_t>(row_bytes) | address(a) | address(b) | address(y)) % sizeof(Unit) == 0;
}

}  // namespace

absl::Status ChooseRowsCuda(const KernelContext& k, const void* a, const void* b) {
  const int64_t bytes = k.output_type(0).size_bytes();
  const int64_t row_bytes = BytesForEach(k.input_type(0), k.output_type(0));
  void* y = k.output<void>(0);
  const auto run = [&](auto zero) {
    using Unit = decltype(zero);
    const auto size = static_cast<int64_t>(sizeof(Unit));
    const int64_t units = bytes / size;
    return k.cuda()->Launch(ChooseRowsKernel<Unit>, ShapeFor(units), units, CudaDivisor(row_bytes / size, units),
                            k.input<uint8_t>(0), static_cast<const Unit*>(a), static_cast<const Unit*>(b),
                            static_cast<Unit*>(y));
  };
  if (IsMadeOf<uint64_t>(row_bytes, a, b, y)) return run(uint64_t{0});
  if (IsMadeOf<uint32_t>(row_bytes, a, b, y)) return run(uint32_t{0});
  return run(uint8_t{0});
}

absl::Status CompareCuda(const KernelContext& k, int64_t value, bool greater) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    return k.cuda()->Launch(CompareKernel<T>, ShapeFor(n), n, value, greater, k.input<T>(0), k.output<uint8_t>(0));
  });
}

absl::Status InCountCuda(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return DispatchInteger(k.input_type(1).dtype, [&](auto round) {
      using Round = decltype(round);
      const int64_t n = k.output_type(0).num_elements();
      return k.cuda()->Launch(InCountKernel<T, Round>, ShapeFor(n), n, k.input<T>(0), k.input<Round>(1),
                              k.output<uint8_t>(0));
    });
  });
}

absl::Status RoundsInCountCuda(const KernelContext& k, int64_t rounds, bool backwards) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t counts = k.input_type(0).num_elements(), n = rounds * counts;
    return k.cuda()->Launch(RoundsInCountKernel<T>, ShapeFor(n), n, CudaDivisor(counts, n), counts, rounds, backwards,
                            k.input<T>(0), k.output<uint8_t>(0));
  });
}

absl::Status StillHoldsCuda(const KernelContext& k) {
  return DispatchAny(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.output_type(0).num_elements();
    const uint8_t* before = k.has_input(1) ? k.input<uint8_t>(1) : nullptr;
    return k.cuda()->Launch(StillHoldsKernel<T>, ShapeFor(n), n, k.input<T>(0), before, k.output<uint8_t>(0));
  });
}

}  // namespace snug::core
