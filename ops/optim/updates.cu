#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/together.h"
#include "ops/kit/dispatch.h"
#include "ops/optim/cuda_rounded.h"
#include "ops/optim/update.h"
#include "ops/optim/update_functions.h"
#include "ops/optim/updates_cuda.h"

namespace snug::core {
namespace {

const uint8_t* Gate(const KernelContext& k) { return k.input<uint8_t>(GateInput(k)); }

// What one element of a parameter keeps of a number.
template <class P>
__device__ inline P Kept(const int64_t* state, uint32_t rounding_id, int64_t i, Accumulator<P> number) {
  if constexpr (std::is_same_v<P, BFloat16>) {
    const uint32_t word = RoundingStream(state, rounding_id, /*variable=*/0).Word(static_cast<uint64_t>(i / 2));
    return RoundStochastically(number, word >> (i % 2 * 16) & 0xffffU);
  } else {
    return number;
  }
}

// What an update does to one parameter.
struct Update {
  int64_t n;
  const void* grad;
  void* param;
  void* slots[2];
  const void* rate;
  const int64_t* state;  // for updates that count steps, or round
  const uint8_t* gate;
  UpdateNumbers numbers;
};

// Does what UpdateWideEach does where the parameter or the slots are narrow.
template <int kSlots, unsigned kSquares, class G, class All, class Fn>
__device__ inline void UpdateRoundedEach(const All& all, int at, const Fn& fn) {
  constexpr int kPack = kRoundedAtOnce;
  const Update& update = all.members[at];
  const UpdateNumbers& numbers = update.numbers;
  const auto* g = static_cast<const G*>(update.grad);
  const auto slot = [&](int i) {
    const bool squares = (kSquares >> i & 1) != 0 && numbers.slots_as == KeptAs::kSigned8;
    return KeptNumbers{squares ? KeptAs::kSquares8 : numbers.slots_as, update.slots[i], update.n};
  };
  const KeptNumbers kept[] = {{numbers.param_as, update.param, update.n}, slot(0), slot(1)};
  const bool aligned = AllAligned(g, static_cast<const char*>(kept[0].bytes), static_cast<const char*>(kept[1].bytes),
                                  static_cast<const char*>(kept[2].bytes));
  const bool coded = kSlots > 0 && IsCoded(numbers.slots_as);
  const auto run = [&](auto whole, int64_t i, int count) {
    const auto grads = LoadPack<decltype(whole)::value, kPack>(g + i * kPack, count);
    RoundedPack packs[kSlots + 1];
#pragma unroll
    for (int v = 0; v <= kSlots; ++v) packs[v] = LoadRounded<decltype(whole)::value>(kept[v], i, count);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float grad = static_cast<float>(grads.values[j]);
      if constexpr (kSlots == 0) fn(grad, packs[0].numbers[j]);
      if constexpr (kSlots == 1) fn(grad, packs[0].numbers[j], packs[1].numbers[j]);
      if constexpr (kSlots == 2) fn(grad, packs[0].numbers[j], packs[1].numbers[j], packs[2].numbers[j]);
    }
#pragma unroll
    for (int v = 0; v <= kSlots; ++v) {
      StoreRounded<decltype(whole)::value>(kept[v], RoundingStream(update.state, numbers.rounding_id, v), i, count,
                                           packs[v]);
    }
  };
  SNUG_TOGETHER_FOR(i, all, at, RoundedPacks(update.n, coded)) {
    const int count = CountInPack(update.n, i);
    // The threads of a warp take the same way, so that those that share a block of numbers come together.
    const bool whole = aligned && (coded ? (i / 32 + 1) * kCodeBlock <= update.n : count == kPack);
    if (whole) {
      run(std::true_type(), i, kPack);
    } else {
      run(std::false_type(), i, count);
    }
  }
}

// Calls fn(grad, param, slots...) for each element that a member's blocks do; all but the gradient are references.
// Where all arrays begin at multiples of 16 bytes, a thread has several neighbours at a time.
template <int kSlots, class T, class G, class All, class Fn>
__device__ inline void UpdateWideEach(const All& all, int at, const Fn& fn) {
  static_assert(kSlots <= 2);
  constexpr int kPack = kCudaPack<T>;
  const Update& update = all.members[at];
  const auto* g = static_cast<const G*>(update.grad);
  auto* p = static_cast<T*>(update.param);
  auto* first = static_cast<T*>(update.slots[0]);
  auto* second = static_cast<T*>(update.slots[1]);
  const auto call = [&](G grad, T& param, T& slot1, T& slot2) {
    if constexpr (kSlots == 0) fn(static_cast<T>(grad), param);
    if constexpr (kSlots == 1) fn(static_cast<T>(grad), param, slot1);
    if constexpr (kSlots == 2) fn(static_cast<T>(grad), param, slot1, slot2);
  };
  const bool aligned = AllAligned(g, p, first, second);
  const int64_t packs = aligned ? update.n / kPack : 0;
  SNUG_TOGETHER_FOR(i, all, at, packs) {
    const auto grads = LoadPack<true, kPack>(g + i * kPack, kPack);
    auto params = LoadPack<true, kPack>(p + i * kPack, kPack);
    CudaPack<T, kPack> slots1;
    CudaPack<T, kPack> slots2;
    if constexpr (kSlots > 0) slots1 = LoadPack<true, kPack>(first + i * kPack, kPack);
    if constexpr (kSlots > 1) slots2 = LoadPack<true, kPack>(second + i * kPack, kPack);
    for (int j = 0; j < kPack; ++j) call(grads.values[j], params.values[j], slots1.values[j], slots2.values[j]);
    StorePack<true>(params, p + i * kPack, kPack);
    if constexpr (kSlots > 0) StorePack<true>(slots1, first + i * kPack, kPack);
    if constexpr (kSlots > 1) StorePack<true>(slots2, second + i * kPack, kPack);
  }
  const int64_t done = packs * kPack;
  SNUG_TOGETHER_FOR(i, all, at, update.n - done) {
    T none = 0;
    call(g[done + i], p[done + i], kSlots > 0 ? first[done + i] : none, kSlots > 1 ? second[done + i] : none);
  }
}

// P is what parameter and slots are kept in, or Narrow. Bit i of kSquares says that slot i holds squares.
template <int kSlots, unsigned kSquares, class P, class G, class All, class Fn>
__device__ inline void UpdateEach(const All& all, int at, const Fn& fn) {
  if constexpr (std::is_same_v<P, Narrow>) {
    UpdateRoundedEach<kSlots, kSquares, G>(all, at, fn);
  } else {
    UpdateWideEach<kSlots, P, G>(all, at, fn);
  }
}

template <template <class> class F, class P, class G, class All>
__global__ void UpdateKernel(const __grid_constant__ All all) {
  using T = Accumulator<P>;
  const int at = all.At(blockIdx.x);
  const Update& update = all.members[at];
  if (*update.gate == 0) return;
  __shared__ F<T> made;
  if (threadIdx.x == 0) {  // one thread makes it for all: Adam's powers take longer than the rest
    const double rate = static_cast<double>(*static_cast<const T*>(update.rate)) * update.numbers.lr_mult;
    made = F<T>(update.numbers, rate, F<T>::kCounts ? static_cast<double>(update.state[1] + 1) : 1);
  }
  __syncthreads();
  const F<T> function = made;
  UpdateEach<F<T>::kSlots, F<T>::kSquares, P, G>(all, at, [&](T g, T& p, auto&... slots) { function(g, p, slots...); });
}

// The parameter is the average, and the gradient what it is of.
template <class T, class P, class All>
__global__ void AverageKernel(const __grid_constant__ All all) {
  const int at = all.At(blockIdx.x);
  const Update& update = all.members[at];
  if (*update.gate == 0) return;
  const bool first = update.state[1] == 0;
  const T rest = static_cast<T>(1 - update.numbers.beta2);
  UpdateEach<0, 0, T, P>(all, at, [&](T p, T& average) { average = first ? p : average + rest * (p - average); });
}

// direction may be g.
template <class T, class G>
__global__ void LambDirectionKernel(int64_t n, UpdateNumbers numbers, const int64_t* state, const uint8_t* gate,
                                    const T* p, const G* g, T* m, T* v, T* direction) {
  __shared__ T correction1, correction2;
  if (threadIdx.x == 0) {  // powers take longer than the rest
    const double step = static_cast<double>(state[1] + 1);
    correction1 = static_cast<T>(1 - pow(numbers.beta1, step));
    correction2 = static_cast<T>(1 - pow(numbers.beta2, step));
  }
  __syncthreads();
  const bool open = *gate != 0;
  const T beta1 = static_cast<T>(numbers.beta1);
  const T beta2 = static_cast<T>(numbers.beta2);
  const T rest1 = static_cast<T>(1 - numbers.beta1);
  const T rest2 = static_cast<T>(1 - numbers.beta2);
  const T epsilon = static_cast<T>(numbers.epsilon);
  const T decay = static_cast<T>(numbers.weight_decay);
  SNUG_CUDA_FOR(i, n) {
    const T grad = static_cast<T>(g[i]);
    const T first = beta1 * m[i] + rest1 * grad;
    const T second = beta2 * v[i] + rest2 * grad * grad;
    if (open) {
      m[i] = first;
      v[i] = second;
    }
    direction[i] = first / correction1 / (std::sqrt(second / correction2) + epsilon) + decay * p[i];
  }
}

// The same where the parameter or the slots are narrow.
template <class G>
__global__ void LambDirectionNarrowKernel(Update update, float* direction) {
  constexpr int kPack = kRoundedAtOnce;
  __shared__ float correction1, correction2;
  const UpdateNumbers& numbers = update.numbers;
  if (threadIdx.x == 0) {
    const double step = static_cast<double>(update.state[1] + 1);
    correction1 = static_cast<float>(1 - pow(numbers.beta1, step));
    correction2 = static_cast<float>(1 - pow(numbers.beta2, step));
  }
  __syncthreads();
  const bool open = *update.gate != 0;
  const float beta1 = static_cast<float>(numbers.beta1);
  const float beta2 = static_cast<float>(numbers.beta2);
  const float rest1 = static_cast<float>(1 - numbers.beta1);
  const float rest2 = static_cast<float>(1 - numbers.beta2);
  const float epsilon = static_cast<float>(numbers.epsilon);
  const float decay = static_cast<float>(numbers.weight_decay);
  const auto* g = static_cast<const G*>(update.grad);
  const bool coded = IsCoded(numbers.slots_as);
  const KeptNumbers p = {numbers.param_as, update.param, update.n};
  const KeptNumbers m = {numbers.slots_as, update.slots[0], update.n};
  const KeptNumbers v = {coded ? KeptAs::kSquares8 : numbers.slots_as, update.slots[1], update.n};
  SNUG_CUDA_FOR(i, RoundedPacks(update.n, coded)) {
    const int count = CountInPack(update.n, i);
    const auto grads = LoadPack<false, kPack>(g + i * kPack, count);
    const RoundedPack params = LoadRounded<false>(p, i, count);
    RoundedPack first = LoadRounded<false>(m, i, count);
    RoundedPack second = LoadRounded<false>(v, i, count);
    for (int j = 0; j < kPack; ++j) {
      const float grad = static_cast<float>(grads.values[j]);
      first.numbers[j] = beta1 * first.numbers[j] + rest1 * grad;
      second.numbers[j] = beta2 * second.numbers[j] + rest2 * grad * grad;
      if (j >= count) continue;
      direction[i * kPack + j] =
          first.numbers[j] / correction1 / (std::sqrt(second.numbers[j] / correction2) + epsilon) +
          decay * params.numbers[j];
    }
    if (!open) continue;  // all threads or none
    StoreRounded<false>(m, RoundingStream(update.state, numbers.rounding_id, 0), i, count, first);
    StoreRounded<false>(v, RoundingStream(update.state, numbers.rounding_id, 1), i, count, second);
  }
}

template <class P, class T>
__global__ void LambUpdateKernel(int64_t n, double lr_mult, const T* rate, const T* size, const T* change,
                                 const int64_t* state, uint32_t rounding_id, const uint8_t* gate, const T* direction,
                                 P* p) {
  if (*gate == 0) return;
  const T lr = static_cast<T>(static_cast<double>(*rate) * lr_mult);
  const T ratio = *change > T(0) ? *size / *change : T(0);
  const T scale = ratio > T(0) && ratio <= std::numeric_limits<T>::max() ? lr * ratio : lr;
  SNUG_CUDA_FOR(i, n) { p[i] = Kept<P>(state, rounding_id, i, static_cast<T>(p[i]) - scale * direction[i]); }
}

template <int kPack, class T, class G>
__global__ void AccumulateKernel(int64_t packs, const uint8_t* gate, const G* part, T* sum) {
  if (*gate == 0) return;
  SNUG_CUDA_FOR(i, packs) {
    const auto parts = LoadPack<true, kPack>(part + i * kPack, kPack);
    auto sums = LoadPack<true, kPack>(sum + i * kPack, kPack);
    for (int j = 0; j < kPack; ++j) sums.values[j] += static_cast<T>(parts.values[j]);
    StorePack<true>(sums, sum + i * kPack, kPack);
  }
}

template <int kPack, class T, class G>
__global__ void StoreKernel(int64_t packs, const uint8_t* gate, const G* next, T* state) {
  if (*gate == 0) return;
  SNUG_CUDA_FOR(i, packs) {
    const auto from = LoadPack<true, kPack>(next + i * kPack, kPack);
    CudaPack<T, kPack> to;
    for (int j = 0; j < kPack; ++j) to.values[j] = static_cast<T>(from.values[j]);
    StorePack<true>(to, state + i * kPack, kPack);
  }
}

// `mean` may be `part`.
template <int kPack, class T, class G>
__global__ void AccumulateMeanKernel(int64_t packs, const uint8_t* gate, T count, const G* part, T* sum, T* mean) {
  const bool empties = *gate != 0;
  SNUG_CUDA_FOR(i, packs) {
    const auto parts = LoadPack<true, kPack>(part + i * kPack, kPack);
    auto sums = LoadPack<true, kPack>(sum + i * kPack, kPack);
    for (int j = 0; j < kPack; ++j) sums.values[j] = (sums.values[j] + static_cast<T>(parts.values[j])) / count;
    StorePack<true>(sums, mean + i * kPack, kPack);
    if (empties) StorePack<true>(CudaPack<T, kPack>{}, sum + i * kPack, kPack);
  }
}

__global__ void AdvanceStepKernel(const uint8_t* gate, int64_t* state) { state[1] += *gate; }

// The inputs are the parameter, its slots, the gradient, the learning rate, and what else update.h says.
Update UpdateOf(const KernelContext& k, int slots) {
  Update update{.n = k.input_type(0).num_elements(),
                .grad = k.input<void>(slots + 1),
                .param = k.variable<void>(0),
                .slots = {},
                .rate = k.input<void>(slots + 2),
                .state = UpdateState(k),
                .gate = Gate(k),
                .numbers = k.prepared<UpdateNumbers>()};
  update.numbers.rounding_id = RoundingId(k.random_id());
  update.numbers.param_as = KeptAsOf(k.input_type(0).dtype, /*squares=*/false);
  for (int i = 0; i < slots; ++i) update.slots[i] = k.variable<void>(1 + i);
  if (slots > 0) update.numbers.slots_as = KeptAsOf(k.input_type(1).dtype, /*squares=*/false);
  return update;
}

// kernel_for(zero of the parameter's type, zero of the gradient's type, arguments) returns the kernel for these.
template <class KernelFor>
absl::Status LaunchUpdates(absl::Span<const KernelContext> nodes, int slots, const KernelFor& kernel_for) {
  const KernelContext& k = nodes[0];
  return DispatchKept(k, slots, [&](auto zero, auto grad_zero) {
    return LaunchTogether(
        nodes, [slots](const KernelContext& node) { return UpdateOf(node, slots); },
        [&](const auto& all, const cuda::LaunchShape& shape) {
          return k.cuda()->Launch(kernel_for(zero, grad_zero, all), shape, all);
        });
  });
}

}  // namespace

absl::Status AverageUpdateCuda(absl::Span<const KernelContext> nodes) {
  const KernelContext& k = nodes[0];
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto param_zero) {
    return LaunchTogether(
        nodes,
        [](const KernelContext& node) {
          return Update{.n = node.input_type(0).num_elements(),
                        .grad = node.input<void>(1),
                        .param = node.variable<void>(0),
                        .slots = {},
                        .rate = nullptr,
                        .state = node.input<int64_t>(2),
                        .gate = Gate(node),
                        .numbers = node.prepared<UpdateNumbers>()};
        },
        [&](const auto& all, const cuda::LaunchShape& shape) {
          return k.cuda()->Launch(AverageKernel<decltype(zero), decltype(param_zero), std::decay_t<decltype(all)>>,
                                  shape, all);
        });
  });
}

template <template <class> class F>
absl::Status UpdateCuda(absl::Span<const KernelContext> nodes) {
  return LaunchUpdates(nodes, F<float>::kSlots, [](auto zero, auto grad_zero, const auto& all) {
    return UpdateKernel<F, decltype(zero), decltype(grad_zero), std::decay_t<decltype(all)>>;
  });
}

#define SNUG_UPDATE(F) template absl::Status UpdateCuda<updates::F>(absl::Span<const KernelContext>);
SNUG_UPDATES(SNUG_UPDATE)
#undef SNUG_UPDATE

absl::Status LambDirectionCuda(const KernelContext& k) {
  return DispatchKept(k, /*slots=*/2, [&](auto zero, auto grad_zero) {
    using T = decltype(zero);
    using G = decltype(grad_zero);
    const int64_t n = k.input_type(0).num_elements();
    if constexpr (std::is_same_v<T, Narrow>) {
      return k.cuda()->Launch(LambDirectionNarrowKernel<G>, ShapeFor(n), UpdateOf(k, /*slots=*/2), k.output<float>(0));
    } else {
      return k.cuda()->Launch(LambDirectionKernel<T, G>, ShapeFor(n), n, k.prepared<UpdateNumbers>(), UpdateState(k),
                              Gate(k), k.input<T>(0), k.input<G>(3), k.variable<T>(1), k.variable<T>(2),
                              k.output<T>(0));
    }
  });
}

absl::Status LambUpdateCuda(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    const int64_t n = k.input_type(0).num_elements();
    return k.cuda()->Launch(LambUpdateKernel<P, T>, ShapeFor(n), n, k.prepared<UpdateNumbers>().lr_mult, k.input<T>(4),
                            k.input<T>(2), k.input<T>(3), UpdateState(k), RoundingId(k.random_id()), Gate(k),
                            k.input<T>(1), k.variable<P>(0));
  });
}

absl::Status AccumulateCuda(const KernelContext& k) {
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto part_zero) {
    using T = decltype(zero);
    using G = decltype(part_zero);
    const int64_t n = k.input_type(0).num_elements();
    const auto run = [&](auto pack) {
      return k.cuda()->Launch(AccumulateKernel<pack(), T, G>, ShapeFor(n / pack), n / pack, Gate(k), k.input<G>(1),
                              k.variable<T>(0));
    };
    return WithPack<T>(n, run, k.input<G>(1), k.variable<T>(0));
  });
}

absl::Status AccumulateMeanCuda(const KernelContext& k, int64_t count) {
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto part_zero) {
    using T = decltype(zero);
    using G = decltype(part_zero);
    const int64_t n = k.input_type(0).num_elements();
    const auto run = [&](auto pack) {
      return k.cuda()->Launch(AccumulateMeanKernel<pack(), T, G>, ShapeFor(n / pack), n / pack, Gate(k),
                              static_cast<T>(count), k.input<G>(1), k.variable<T>(0), k.output<T>(0));
    };
    return WithPack<T>(n, run, k.input<G>(1), k.variable<T>(0), k.output<T>(0));
  });
}

absl::Status StoreCuda(const KernelContext& k) {
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto next_zero) {
    using T = decltype(zero);
    using G = decltype(next_zero);
    const int64_t n = k.input_type(0).num_elements();
    const auto run = [&](auto pack) {
      return k.cuda()->Launch(StoreKernel<pack(), T, G>, ShapeFor(n / pack), n / pack, Gate(k), k.input<G>(1),
                              k.variable<T>(0));
    };
    return WithPack<T>(n, run, k.input<G>(1), k.variable<T>(0));
  });
}

absl::Status AdvanceStepCuda(const KernelContext& k) {
  return k.cuda()->Launch(AdvanceStepKernel, {.threads = 1}, Gate(k), k.variable<int64_t>(0));
}

}  // namespace snug::core
