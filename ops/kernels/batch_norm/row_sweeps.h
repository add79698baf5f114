// The sweeps of batch normalisation's fast kernels where channels lie side by side (channels-last, rank 2).
//
// The rows are cut into chunks, by the shape alone. A first sweep leaves two sums for each channel and chunk in the
// workspace; these are added in double, in order; a second sweep computes the elements. Rows of few channels are
// folded: 96 rows of 3 channels become one of 288, so that loops over a row are long and fill whole vectors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/elements.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/isa.h"

namespace snug::core::batch_norm {

inline constexpr int64_t kVector = 16;     // folded rows are a multiple of so many floats
inline constexpr int64_t kMinWidth = 256;  // folded rows have no fewer floats
inline constexpr int64_t kNormElements = 1 << 15;
inline constexpr int64_t kMinRows = 32;    // a chunk has no fewer, so that its sums are few beside its elements
inline constexpr int64_t kMaxRows = 1024;  // a chunk has no more, as its rows are added up in float

template <class F>
SNUG_INLINE void ReadNumbers(const float* patterns, int64_t width, int64_t c, NumbersOf<F>& to) {
  LoadScalarOrVector(patterns + c, to.mean);
  LoadScalarOrVector(patterns + width + c, to.scale);
  LoadScalarOrVector(patterns + 2 * width + c, to.bias);
  LoadScalarOrVector(patterns + 3 * width + c, to.offset);
  LoadScalarOrVector(patterns + 4 * width + c, to.slope);
}

// Calls fn(zero of F, c) for the elements c of [0, n), a vector at a time where T is bfloat16.
template <Isa kIsa, class T, class Fn>
SNUG_INLINE void ForEachInRow(int64_t n, Fn fn) {
  int64_t c = 0;
  if constexpr (std::is_same_v<T, BFloat16>) {
    using Tile = GemmTile<kIsa, float>;
    for (; c + Tile::kLanes <= n; c += Tile::kLanes) fn(std::type_identity<typename Tile::Vector>(), c);
  }
  SNUG_INDEPENDENT
  for (int64_t rest = c; rest < n; ++rest) fn(std::type_identity<float>(), rest);
}

// How the rows of a channels-last view are cut.
struct RowChunks {
  explicit RowChunks(const ChannelView& view) : channels(view.channels), count(view.outer) {
    const int64_t unit = kVector / std::gcd(channels, kVector);
    fold = channels < kMinWidth ? (kMinWidth + unit * channels - 1) / (unit * channels) * unit : 1;
    width = channels * fold;
    rows_per_chunk = std::clamp(kNormElements / width, kMinRows, kMaxRows) * fold;
    chunks = (count + rows_per_chunk - 1) / rows_per_chunk;
  }
  int64_t workspace_floats() const { return (chunks * 2 + kPatterns) * width; }

  int64_t channels, count;
  int64_t fold;   // so many rows are done as one
  int64_t width;  // the number of elements in such a folded row
  int64_t rows_per_chunk, chunks;
};

// Sets a[c] and b[c], for c in [0, width), to what `sums` gives for a chunk's rows, added up.
template <Isa kIsa, class Sums>
SNUG_INLINE void SumRows(int64_t begin, int64_t end, int64_t width, const float* patterns, float* a, float* b,
                         Sums sums) {
  using T = typename Sums::Storage;
  for (int64_t c = 0; c < width; ++c) a[c] = b[c] = 0;
  int64_t i = begin;
  for (; i + 4 * width <= end; i += 4 * width) {
    ForEachInRow<kIsa, T>(width, [=]<class F>(std::type_identity<F>, int64_t c) SNUG_LAMBDA {
      NumbersOf<F> numbers;
      ReadNumbers(patterns, width, c, numbers);
      Pair<F> p, q, r, s;
      sums(i + c, numbers, p);
      sums(i + width + c, numbers, q);
      sums(i + 2 * width + c, numbers, r);
      sums(i + 3 * width + c, numbers, s);
      F first, second;
      LoadScalarOrVector(a + c, first);
      LoadScalarOrVector(b + c, second);
      first += (p.a + q.a) + (r.a + s.a);
      second += (p.b + q.b) + (r.b + s.b);
      StoreScalarOrVector(first, a + c);
      StoreScalarOrVector(second, b + c);
    });
  }
  for (; i < end; i += width) {
    ForEachInRow<kIsa, T>(std::min(width, end - i), [=]<class F>(std::type_identity<F>, int64_t c) SNUG_LAMBDA {
      NumbersOf<F> numbers;
      ReadNumbers(patterns, width, c, numbers);
      Pair<F> p;
      sums(i + c, numbers, p);
      F first, second;
      LoadScalarOrVector(a + c, first);
      LoadScalarOrVector(b + c, second);
      first += p.a;
      second += p.b;
      StoreScalarOrVector(first, a + c);
      StoreScalarOrVector(second, b + c);
    });
  }
}

// Computes the sums of each chunk's rows into `partial`, [chunks][2][width].
template <class Sums>
void SumChunks(int threads, const RowChunks& rows, const float* patterns, float* partial, Sums sums) {
  ParallelFor(threads, rows.count, rows.rows_per_chunk, [=](int64_t begin, int64_t end) {
    float* a = partial + begin / rows.rows_per_chunk * 2 * rows.width;
    const int64_t width = rows.width;
    const int64_t first = begin * rows.channels;
    const int64_t last = end * rows.channels;
    WithIsa([=](auto isa) SNUG_LAMBDA { SumRows<isa()>(first, last, width, patterns, a, a + width, sums); });
  });
}

// Adds up the sums of all chunks, for the channels [begin, end).
inline void AddChunks(const RowChunks& rows, const float* partial, int64_t begin, int64_t end, double* a, double* b) {
  WithIsa([=]() SNUG_LAMBDA {
    const int64_t n = end - begin;
    for (int64_t c = 0; c < n; ++c) a[c] = b[c] = 0;
    for (int64_t k = 0; k < rows.chunks; ++k) {
      for (int64_t f = 0; f < rows.fold; ++f) {
        const float* s = partial + k * 2 * rows.width + f * rows.channels + begin;
        for (int64_t c = 0; c < n; ++c) {
          a[c] += static_cast<double>(s[c]);
          b[c] += static_cast<double>(s[rows.width + c]);
        }
      }
    }
  });
}

// Calls fn(c, sum of a, sum of b) for each channel.
template <class Fn>
void ForEachSum(int threads, const RowChunks& rows, const float* partial, Fn fn) {
  constexpr int64_t kChannels = 64;
  ParallelFor(threads, rows.channels, kChannels, [=](int64_t begin, int64_t end) {
    double a[kChannels], b[kChannels];
    AddChunks(rows, partial, begin, end, a, b);
    for (int64_t c = begin; c < end; ++c) fn(c, a[c - begin], b[c - begin]);
  });
}

// Writes a channel's numbers into the patterns, once for each row of a folded one.
inline void SetPatterns(const RowChunks& rows, float* patterns, int64_t c, const Numbers& numbers) {
  float values[kPatterns];
  std::memcpy(values, &numbers, sizeof(values));
  for (const float value : values) {
    for (int64_t f = 0; f < rows.fold; ++f) patterns[f * rows.channels + c] = value;
    patterns += rows.width;
  }
}

// Sets the shift of each channel to the mean of a few rows, evenly spread.
template <class T>
void SetShifts(const RowChunks& rows, const T* x, float* shifts) {
  const int64_t n = std::min(kShiftSamples, rows.count);
  WithIsa([=]() SNUG_LAMBDA {
    for (int64_t c = 0; c < rows.channels; ++c) shifts[c] = 0;
    for (int64_t k = 0; k < n; ++k) {
      const T* row = x + SampleOf(rows.count, k) * rows.channels;
      for (int64_t c = 0; c < rows.channels; ++c) shifts[c] += static_cast<float>(row[c]);
    }
    for (int64_t c = 0; c < rows.channels; ++c) shifts[c] /= static_cast<float>(n);
  });
  for (int64_t f = 1; f < rows.fold; ++f) std::copy(shifts, shifts + rows.channels, shifts + f * rows.channels);
}

// Calls element(i, numbers) for every element.
template <class Element>
void ForEachElementOfRows(int threads, const RowChunks& rows, const float* patterns, Element element) {
  ParallelFor(threads, rows.count, rows.rows_per_chunk, [=](int64_t begin, int64_t end) {
    const int64_t width = rows.width;
    const int64_t first = begin * rows.channels;
    const int64_t last = end * rows.channels;
    WithIsa([=](auto isa) SNUG_LAMBDA {
      for (int64_t i = first; i < last; i += width) {
        ForEachInRow<isa(), typename Element::Storage>(std::min(width, last - i),
                                                       [=]<class F>(std::type_identity<F>, int64_t c) SNUG_LAMBDA {
                                                         NumbersOf<F> numbers;
                                                         ReadNumbers(patterns, width, c, numbers);
                                                         element(i + c, numbers);
                                                       });
      }
    });
  });
}

}  // namespace snug::core::batch_norm
