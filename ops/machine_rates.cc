#include "ops/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/parallel.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

// Returns the least seconds of one call, over several.
template <class Run>
double LeastSecondsOf(Run run) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 7;
  run();  // touches the pages, and wakes the threads
  double least = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const Clock::time_point begin = Clock::now();
    run();
    least = std::min(least, std::max(std::chrono::duration<double>(Clock::now() - begin).count(), 1e-9));
  }
  return least;
}

// As many sums as hide how long a multiply-add takes, on every processor: 4 cycles, two begun in each. One register is
// left for the factor, and on SSE, where a product needs a register before it is added, one for each that is on its
// way.
template <Isa kIsa>
constexpr int kSumsInRegisters = kIsa == Isa::kAvx512 ? 16
                                 : kIsa == Isa::kAvx2 ? 12
                                                      : 10;

template <Isa kIsa>
constexpr int64_t kRegisterBytes = kIsa == Isa::kAvx512 ? 64
                                   : kIsa == Isa::kAvx2 ? 32
                                                        : 16;

}  // namespace

double CopyBytesPerSecond(int threads, int64_t bytes) {
  const int64_t half = std::max<int64_t>(bytes / 2, threads);
  const auto from = std::make_unique<char[]>(static_cast<size_t>(half));
  const auto to = std::make_unique<char[]>(static_cast<size_t>(half));
  // One run of threads copies 64 MB at least, so that waking them does not count.
  const int64_t rounds = std::max<int64_t>(1, (int64_t{64} << 20) / half);
  const double seconds = LeastSecondsOf([&] {
    ParallelFor(threads, half, (half + threads - 1) / threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < rounds; ++i) {
        std::memcpy(to.get() + begin, from.get() + begin, static_cast<size_t>(end - begin));
        asm volatile("" : : "r"(to.get()) : "memory");  // every round's copy is wanted
      }
    });
  });
  return 2.0 * static_cast<double>(half) * static_cast<double>(rounds) / seconds;
}

double MultiplyAddFlopsPerSecond(int threads) {
  constexpr int64_t kRounds = 1 << 20;
  // Nobody knows what these are, so every product is made; and sums that begin with other numbers are others.
  volatile float opaque = 0.5F;
  const float factor = opaque;
  float start[kSumsInRegisters<Isa::kAvx512>];
  for (float& value : start) value = opaque;
  std::vector<float> results(static_cast<size_t>(threads));
  double flops = 0;
  const double seconds = LeastSecondsOf([&] {
    ParallelFor(threads, threads, 1, [&](int64_t thread, int64_t) {
      float result = 0;
      double counted = 0;
      WithIsa([&](auto isa) SNUG_LAMBDA {
        constexpr int kCount = kSumsInRegisters<isa()>;
        typedef float Vector __attribute__((vector_size(kRegisterBytes<isa()>)));  // NOLINT: dependent vector_size
        Vector sums[kCount];  // all loops over it are unrolled, so that it lies in registers
#pragma GCC unroll 16
        for (int s = 0; s < kCount; ++s) sums[s] = Vector{} + start[s];
        const Vector factors = Vector{} + factor;
        for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
          for (int s = 0; s < kCount; ++s) sums[s] = sums[s] * factors + factors;
        }
#pragma GCC unroll 16
        for (int s = 0; s < kCount; ++s) result += sums[s][0];
        constexpr int64_t kLanes = kRegisterBytes<isa()> / static_cast<int64_t>(sizeof(float));
        counted = 2.0 * static_cast<double>(kRounds * kCount * kLanes);
      });
      results[static_cast<size_t>(thread)] = result;
      if (thread == 0) flops = counted;
    });
  });
  return flops * threads / seconds;
}

}  // namespace snug::core
