// Reductions along any axes, in any layout: what lies where, and the loops.
//
// There are two cases. Where the innermost axis in memory is reduced, every output is a sum over contiguous runs, kept
// in vector lanes. Where it is kept, outputs are computed a strip at a time, by adding rows into a strip of
// accumulators. If there are few outputs, the reduction is also cut into parts, whose results are added in order. Every
// cut depends on shapes alone, so the bits do not depend on the number of threads.
//
// Accuracy: at most 64 (or 128 in a lane) numbers are added in float one after the other before they go into a double.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/parallel.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/axes.h"
#include "ops/kit/isa.h"

namespace snug::core {

struct ReducePlan {
  // The axes with `reduced[axis]` of x's logical axes go away. `y_strides` has y's stride for each of x's axes, and
  // anything for those that are reduced.
  ReducePlan(const ValueType& x, const std::array<bool, kMaxRank>& reduced, const Strides& y_strides);

  Axes kept_x, kept_y;  // axes of the outputs, in x's memory order
  Axes reduced_x;
  bool inner_kept;  // whether the innermost axis in memory is kept
};

// Plans to sum those of x's axes that broadcasting y to x (NumPy's rules) would repeat.
ReducePlan PlanSumToShape(const ValueType& x, const ValueType& y);

namespace internal {

inline constexpr int64_t kReduceStrip = 512;     // so many outputs are accumulated side by side
inline constexpr int64_t kReduceLanes = 64;      // so many accumulators share a contiguous run
inline constexpr int64_t kReduceRun = 1 << 13;   // so many elements are added before the sum goes into a double
inline constexpr int64_t kReduceRows = 64;       // for strips: so many rows are added before the sums go into doubles
inline constexpr int64_t kReduceWork = 1 << 15;  // so many elements are worth a task
inline constexpr int64_t kMaxPartials = 1 << 13;
inline constexpr int64_t kMaxParts = 32;

// Reduces n elements that lie together, as many of them as are whole multiples of kLanes. There is one at least.
template <class Op, int64_t kLanes, class T>
SNUG_INLINE Accumulator<T> ReduceLanes(const T* x, int64_t n) {
  using A = Accumulator<T>;
  A lanes[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = static_cast<A>(x[j]);
  for (int64_t i = kLanes; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Op::Combine(lanes[j], static_cast<A>(x[i + j]));
  }
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) lanes[j] = Op::Combine(lanes[j], lanes[j + width]);
  }
  return lanes[0];
}

// Reduces one contiguous run of at most kReduceRun elements.
template <class Op, class T>
SNUG_INLINE Accumulator<T> ReduceRun(const T* x, int64_t n) {
  using A = Accumulator<T>;
  constexpr int64_t kFewLanes = 16;
  A total = Op::template kIdentity<A>;
  int64_t i = 0;
  if (n >= kReduceLanes) {
    total = ReduceLanes<Op, kReduceLanes>(x, n);
    i = n / kReduceLanes * kReduceLanes;
  } else if (n >= kFewLanes) {
    total = ReduceLanes<Op, kFewLanes>(x, n);
    i = n / kFewLanes * kFewLanes;
  }
  for (; i < n; ++i) total = Op::Combine(total, static_cast<A>(x[i]));
  return total;
}

// Combines into sums[j] the elements j of `count` rows of width n, which are `stride` apart.
template <class Op, class T>
SNUG_INLINE void ReduceRows(const T* x, int64_t count, int64_t stride, int64_t n, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  int64_t row = 0;
  for (; row + 4 <= count; row += 4, x += 4 * stride) {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) {
      const A a = Op::Combine(static_cast<A>(x[j]), static_cast<A>(x[j + stride]));
      const A b = Op::Combine(static_cast<A>(x[j + 2 * stride]), static_cast<A>(x[j + 3 * stride]));
      sums[j] = Op::Combine(sums[j], Op::Combine(a, b));
    }
  }
  for (; row < count; ++row, x += stride) {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) sums[j] = Op::Combine(sums[j], static_cast<A>(x[j]));
  }
}

// Reduces the elements [begin, end) of those that go into one output; `base` points at the first.
template <class Op, class T>
double ReduceOne(const Axes& reduced, const T* base, int64_t begin, int64_t end) {
  using A = Accumulator<T>;
  double total = Op::template kIdentity<double>;
  WithIsa([=, &reduced, &total]() SNUG_LAMBDA {
    A some = Op::template kIdentity<A>;  // of runs that are too short for a double each
    int64_t count = 0;
    Walk walk(reduced, begin);
    for (int64_t at = begin; at < end;) {
      const int64_t run = std::min({end - at, walk.left(), kReduceRun});
      some = Op::Combine(some, ReduceRun<Op>(base + walk.offset(), run));
      count += run;
      if (count >= kReduceLanes) {
        total = Op::Combine(total, static_cast<double>(some));
        some = Op::template kIdentity<A>;
        count = 0;
      }
      walk.Advance(run);
      at += run;
    }
    total = Op::Combine(total, static_cast<double>(some));
  });
  return total;
}

// Reduces `width` outputs side by side, from the rows [begin, end) of those that go into them; `base` points at the
// first.
template <class Op, class T>
void ReduceStrip(const Axes& reduced, const T* base, int64_t width, int64_t begin, int64_t end, double* totals) {
  using A = Accumulator<T>;
  std::fill_n(totals, width, Op::template kIdentity<double>);
  A sums[kReduceStrip];
  const int64_t stride = reduced.inner_stride();
  // Narrow rows that follow each other are taken as few wide ones, whose sums are folded at the end.
  const int64_t fold = stride == width ? kReduceStrip / width : 1;
  for (Walk walk(reduced, begin); begin < end;) {
    const int64_t rows = std::min({end - begin, walk.left(), kReduceRows * fold});
    const T* x = base + walk.offset();
    WithIsa([=, &sums]() SNUG_LAMBDA {
      for (int64_t j = 0; j < width * fold; ++j) sums[j] = Op::template kIdentity<A>;
      const int64_t wide = rows / fold;
      ReduceRows<Op>(x, wide, stride * fold, width * fold, sums);
      ReduceRows<Op>(x + wide * fold * stride, rows - wide * fold, stride, width, sums);
      for (int64_t f = 0; f < fold; ++f) {
        for (int64_t j = 0; j < width; ++j)
          totals[j] = Op::Combine(totals[j], static_cast<double>(sums[f * width + j]));
      }
    });
    walk.Advance(rows);
    begin += rows;
  }
}

}  // namespace internal

// Computes y = factor * (x reduced).
template <class Op, class T>
void Reduce(int threads, const ReducePlan& plan, const T* x, T* y, double factor = 1) {
  using namespace internal;  // NOLINT(google-build-using-namespace): the constants above
  const int64_t outputs = plan.kept_x.count();
  const int64_t reduced = plan.reduced_x.count();
  if (outputs == 0) return;
  // A unit of work is one part of the reduction for one output, or for a strip of outputs that lie side by side in x.
  const int64_t row = plan.inner_kept ? plan.kept_x.inner_dim() : 1;
  const int64_t strip = std::min(row, kReduceStrip);
  const int64_t strips = (row + strip - 1) / strip;
  const int64_t units = outputs / row * strips;
  const int64_t most_parts = units >= kMaxParts ? 1 : std::min(kMaxParts, kMaxPartials / (units * strip));
  const int64_t parts = std::clamp<int64_t>(reduced * outputs / kReduceWork, 1, std::max<int64_t>(most_parts, 1));

  const auto first_of = [=](int64_t unit) { return unit / strips * row + unit % strips * strip; };
  const auto width_of = [=](int64_t unit) { return std::min(strip, row - unit % strips * strip); };
  const auto run = [&](int64_t unit, int64_t part, double* totals) {
    const T* base = x + Walk(plan.kept_x, first_of(unit)).offset();
    const int64_t begin = reduced * part / parts;
    const int64_t end = reduced * (part + 1) / parts;
    if (plan.inner_kept) {
      ReduceStrip<Op>(plan.reduced_x, base, width_of(unit), begin, end, totals);
    } else {
      *totals = ReduceOne<Op>(plan.reduced_x, base, begin, end);
    }
  };
  const auto store = [&](int64_t unit, const double* totals) {
    Walk to(plan.kept_y, first_of(unit));
    for (int64_t j = 0; j < width_of(unit); ++j) {
      y[to.offset()] = static_cast<T>(static_cast<Accumulator<T>>(totals[j] * factor));
      to.Advance(1);
    }
  };

  const int64_t chunk = std::max<int64_t>(1, kReduceWork / std::max<int64_t>(reduced * strip / parts, 1));
  if (parts == 1) {
    ParallelFor(threads, units, chunk, [&](int64_t begin, int64_t end) {
      double totals[kReduceStrip];
      for (int64_t unit = begin; unit < end; ++unit) {
        run(unit, 0, totals);
        store(unit, totals);
      }
    });
    return;
  }
  double partials[kMaxPartials];  // [unit][part][strip]
  ParallelFor(threads, units * parts, chunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(i / parts, i % parts, partials + i * strip);
  });
  for (int64_t unit = 0; unit < units; ++unit) {
    double* totals = partials + unit * parts * strip;
    for (int64_t part = 1; part < parts; ++part) {
      for (int64_t j = 0; j < width_of(unit); ++j) {
        totals[j] = Op::Combine(totals[j], totals[part * strip + j]);
      }
    }
    store(unit, totals);
  }
}

// What a reduction at the end of a fused chain does (OpDef::reduction).
struct FusedReduction {
  ReducePlan plan;
  double factor = 1;     // the result is multiplied by it
  bool largest = false;  // the largest is taken instead of the sum
};

}  // namespace snug::core
