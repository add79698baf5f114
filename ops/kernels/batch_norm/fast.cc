// The fast kernels of batch normalisation, for float32 and bfloat16 storage. They are bound by memory.
//
// Where channels lie side by side (channels-last, rank 2), the rows are cut into chunks, by the shape alone. A first
// pass leaves two sums for each channel and chunk in the workspace; these are added in double, in order; a second pass
// computes the elements. Rows of few channels are folded: 96 rows of 3 channels become one of 288, so that loops over a
// row are long and fill whole vectors.
//
// Where channels lie apart (plain layout), one channel is done at a time: first its sums, in lanes over its planes,
// then its elements.
//
// Variances come from sums of x - shift and of its square. The shift is a mean of a few elements, close enough to the
// mean that nothing cancels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/base/workers.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/math/functions.h"

namespace snug::core {
namespace {

constexpr int64_t kVector = 16;     // folded rows are a multiple of so many floats
constexpr int64_t kMinWidth = 256;  // folded rows have no fewer floats
constexpr int64_t kNormElements = 1 << 15;
constexpr int64_t kMinRows = 32;    // a chunk has no fewer, so that its sums are few beside its elements
constexpr int64_t kMaxRows = 1024;  // a chunk has no more, as its rows are added up in float
constexpr int64_t kShiftSamples = 16;
constexpr int64_t kPatterns = 5;  // arrays of [width] in the workspace beside the chunks' sums

// What follows computes on F, which is float or a vector of the instruction set. Of float32 the compiler makes vectors;
// with bfloat16 it needs them, because its own way to round them has several times as many instructions.

// A channel's numbers, or those of some channels. Loops over rows of channels read them from five arrays, one behind
// the other: the patterns.
template <class F>
struct NumbersOf {
  F mean = {}, scale = {}, bias = {};  // normalised: (x - mean) scale + bias
  F offset = {}, slope = {};           // backward: dx = g scale + (x - mean) slope + offset
};
using Numbers = NumbersOf<float>;
static_assert(sizeof(Numbers) == kPatterns * sizeof(float));

template <class F, class T>
SNUG_INLINE void Load(const T* from, F& to) {
  if constexpr (std::is_same_v<F, float>) {
    to = static_cast<float>(*from);
  } else {
    LoadFloats(from, to);
  }
}
template <class F, class T>
SNUG_INLINE void Store(const F& from, T* to) {
  if constexpr (std::is_same_v<F, float>) {
    *to = static_cast<T>(from);
  } else {
    StoreFloats(from, to);
  }
}

template <class F>
SNUG_INLINE void ReadNumbers(const float* patterns, int64_t width, int64_t c, NumbersOf<F>& to) {
  Load(patterns + c, to.mean);
  Load(patterns + width + c, to.scale);
  Load(patterns + 2 * width + c, to.bias);
  Load(patterns + 3 * width + c, to.offset);
  Load(patterns + 4 * width + c, to.slope);
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

template <class F>
struct Pair {
  F a, b;
};

template <class F, class T>
SNUG_INLINE void Centred(const T* x, int64_t i, const NumbersOf<F>& c, F& to) {
  Load(x + i, to);
  to -= c.mean;
}

// Each of the following has the type of what it reads as Storage.
template <class T>
struct ForwardSums {  // what the pass of sums adds up; the shift is in place of the mean
  using Storage = T;
  const T* x;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    Centred(x, i, c, sums.a);
    sums.b = sums.a * sums.a;
  }
};

// Leaves of a gradient `g` what the activation lets through; `v` is the activation's output or its input.
template <Activation kActivation, class F>
SNUG_INLINE void LetThrough(const F& v, F& g) {
  if constexpr (kActivation == Activation::kRelu) g = v > 0.0F ? g : F{};
  // This is more than 0 just where v is between 0 and 6. Two comparisons that are joined, and g++ 12 joins what it can,
  // become scalars where F is a vector of AVX-512.
  if constexpr (kActivation == Activation::kRelu6) g = v * (6.0F - v) > 0.0F ? g : F{};
}

template <Activation kActivation, class T>
struct BackwardSums {
  using Storage = T;
  const T *x, *dy;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    F centred, g;
    Centred(x, i, c, centred);
    Load(dy + i, g);
    const F v = centred * c.scale + c.bias;
    LetThrough<kActivation>(v, g);
    sums.a = g;
    sums.b = g * centred;
  }
};

// Does the same where y is there to tell, and stores the gradient that the activation lets through.
template <Activation kActivation, bool kSecond, class T>
struct StoringBackwardSums {
  using Storage = T;
  const T *x, *y, *dy, *dy2;
  T* dadd;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    F g, v, centred;
    Load(dy + i, g);
    if constexpr (kSecond) {
      F second;
      Load(dy2 + i, second);
      g += second;
      if constexpr (std::is_same_v<T, BFloat16>) Rounded(g);
    }
    Load(y + i, v);
    LetThrough<kActivation>(v, g);
    Centred(x, i, c, centred);
    Store(g, dadd + i);
    sums.a = g;
    sums.b = g * centred;
  }
  // Makes g what it is once it was stored as a bfloat16.
  template <class F>
  static SNUG_INLINE void Rounded(F& g) {
    constexpr size_t kFloatBytes = sizeof(float);
    BFloat16 stored[sizeof(F) / kFloatBytes];
    Store(g, static_cast<BFloat16*>(stored));
    Load(static_cast<const BFloat16*>(stored), g);
  }
};

template <Activation kActivation, bool kAdd, class T>
struct ForwardElement {  // y = activation((x - mean) scale + bias + add)
  using Storage = T;
  const T *x, *add;
  T* y;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    F v;
    Centred(x, i, c, v);
    v = v * c.scale + c.bias;
    if constexpr (kAdd) {
      F added;
      Load(add + i, added);
      v += added;
    }
    if constexpr (kActivation != Activation::kIdentity) v = v < 0.0F ? F{} : v;
    if constexpr (kActivation == Activation::kRelu6) v = v > 6.0F ? F{} + 6.0F : v;
    Store(v, y + i);
  }
};

// silu needs more instructions than a sweep over memory has time for, so its gradient is worked out once, and stored
// for the second reading. These are for float32, whose F is always float.
struct SiluElement {  // y = silu((x - mean) scale + bias)
  using Storage = float;
  const float* x;
  float* y;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    static_assert(std::is_same_v<F, float>);
    y[i] = functions::Silu()((x[i] - c.mean) * c.scale + c.bias);
  }
};

struct StoringSiluSums {
  using Storage = float;
  const float *x, *dy;
  float* g;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c, Pair<F>& sums) const {
    static_assert(std::is_same_v<F, float>);
    const float centred = x[i] - c.mean;
    sums.a = functions::SiluGrad()(centred * c.scale + c.bias, dy[i]);
    sums.b = sums.a * centred;
    g[i] = sums.a;
  }
};

template <Activation kActivation, class T>
struct BackwardElement {
  using Storage = T;
  const T *x, *dy;
  T* dx;
  template <class F>
  SNUG_INLINE void operator()(int64_t i, const NumbersOf<F>& c) const {
    F centred, g;
    Centred(x, i, c, centred);
    Load(dy + i, g);
    const F v = centred * c.scale + c.bias;
    LetThrough<kActivation>(v, g);
    const F result = g * c.scale + (centred * c.slope + c.offset);
    Store(result, dx + i);
  }
};

// ---- channels side by side ----

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
      Load(a + c, first);
      Load(b + c, second);
      first += (p.a + q.a) + (r.a + s.a);
      second += (p.b + q.b) + (r.b + s.b);
      Store(first, a + c);
      Store(second, b + c);
    });
  }
  for (; i < end; i += width) {
    ForEachInRow<kIsa, T>(std::min(width, end - i), [=]<class F>(std::type_identity<F>, int64_t c) SNUG_LAMBDA {
      NumbersOf<F> numbers;
      ReadNumbers(patterns, width, c, numbers);
      Pair<F> p;
      sums(i + c, numbers, p);
      F first, second;
      Load(a + c, first);
      Load(b + c, second);
      first += p.a;
      second += p.b;
      Store(first, a + c);
      Store(second, b + c);
    });
  }
}

// Sweeps alternate their direction: each thread begins with the rows that it did last in the sweep before, which may
// still be in a cache. Other kernels go upwards, so the first sweep after one of these goes downwards.
enum class Direction : uint8_t { kUpwards, kDownwards };

// Calls fn(chunk, first element, last element) for all chunks.
template <class Fn>
void ForEachChunk(int threads, const RowChunks& rows, Direction direction, const Fn& fn) {
  ForEachWorker(threads, rows.chunks, [&](int64_t /*worker*/, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = direction == Direction::kUpwards ? i : end - 1 - (i - begin);
      const int64_t row = chunk * rows.rows_per_chunk;
      fn(chunk, row * rows.channels, std::min(rows.count, row + rows.rows_per_chunk) * rows.channels);
    }
  });
}

// Computes the sums of each chunk's rows into `partial`, [chunks][2][width].
template <class Sums>
void SumChunks(int threads, const RowChunks& rows, const float* patterns, float* partial, Sums sums) {
  ForEachChunk(threads, rows, Direction::kDownwards, [=](int64_t chunk, int64_t first, int64_t last) {
    const int64_t width = rows.width;
    float* a = partial + chunk * 2 * width;
    WithIsa([=](auto isa) SNUG_LAMBDA { SumRows<isa()>(first, last, width, patterns, a, a + width, sums); });
  });
}

// Adds up the sums of all chunks, for the channels [begin, end).
void AddChunks(const RowChunks& rows, const float* partial, int64_t begin, int64_t end, double* a, double* b) {
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
void SetPatterns(const RowChunks& rows, float* patterns, int64_t c, const Numbers& numbers) {
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
      const T* row = x + k * rows.count / n * rows.channels;
      for (int64_t c = 0; c < rows.channels; ++c) shifts[c] += static_cast<float>(row[c]);
    }
    for (int64_t c = 0; c < rows.channels; ++c) shifts[c] /= static_cast<float>(n);
  });
  for (int64_t f = 1; f < rows.fold; ++f) std::copy(shifts, shifts + rows.channels, shifts + f * rows.channels);
}

// Calls element(i, numbers) for every element.
template <class Element>
void ForEachElementOfRows(int threads, const RowChunks& rows, Direction direction, const float* patterns,
                          Element element) {
  ForEachChunk(threads, rows, direction, [=](int64_t /*chunk*/, int64_t first, int64_t last) {
    const int64_t width = rows.width;
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

// ---- channels apart ----

// Adds up what sums(i, numbers) gives for one channel's planes.
template <class Sums>
SNUG_INLINE void SumLanes(const ChannelView& view, int64_t channel, Numbers numbers, Sums sums, double* a, double* b) {
  *a = *b = 0;
  float la[kLanes], lb[kLanes];
  int64_t pending = 0;  // how many elements were added to the lanes
  for (int j = 0; j < kLanes; ++j) la[j] = lb[j] = 0;
  const auto flush = [&]() SNUG_LAMBDA {
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) {
        la[j] += la[j + width];
        lb[j] += lb[j + width];
      }
    }
    *a += static_cast<double>(la[0]);
    *b += static_cast<double>(lb[0]);
    for (int j = 0; j < kLanes; ++j) la[j] = lb[j] = 0;
    pending = 0;
  };
  for (int64_t n = 0; n < view.outer; ++n) {
    const int64_t plane = (n * view.channels + channel) * view.inner;
    for (int64_t begin = 0; begin < view.inner; begin += kLaneBlock) {
      const int64_t end = plane + std::min(view.inner, begin + kLaneBlock);
      int64_t i = plane + begin;
      for (; i + kLanes <= end; i += kLanes) {
        SNUG_INDEPENDENT
        for (int j = 0; j < kLanes; ++j) {
          Pair<float> p;
          sums(i + j, numbers, p);
          la[j] += p.a;
          lb[j] += p.b;
        }
      }
      for (int j = 0; i + j < end; ++j) {
        Pair<float> p;
        sums(i + j, numbers, p);
        la[j] += p.a;
        lb[j] += p.b;
      }
      pending += std::min(view.inner - begin, kLaneBlock);
      if (pending >= kLaneBlock) flush();
    }
  }
  flush();
}

template <class Sums>
void SumPlanes(const ChannelView& view, int64_t channel, const Numbers& numbers, Sums sums, double* a, double* b) {
  WithIsa([&, channel, numbers]() SNUG_LAMBDA { SumLanes(view, channel, numbers, sums, a, b); });
}

template <class Element>
void ForEachElementOfPlanes(const ChannelView& view, int64_t channel, const Numbers& numbers, Element element) {
  WithIsa([=]() SNUG_LAMBDA {
    for (int64_t n = 0; n < view.outer; ++n) {
      const int64_t plane = (n * view.channels + channel) * view.inner;
      SNUG_INDEPENDENT
      for (int64_t i = plane; i < plane + view.inner; ++i) element(i, numbers);
    }
  });
}

// Returns the mean of a few elements of a channel, evenly spread.
template <class T>
float Shift(const ChannelView& view, const T* x, int64_t channel) {
  const int64_t n = std::min(kShiftSamples, view.count());
  float sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t at = k * view.count() / n;
    sum += static_cast<float>(x[(at / view.inner * view.channels + channel) * view.inner + at % view.inner]);
  }
  return sum / static_cast<float>(n);
}

// ---- both layouts ----

template <class T>
void SetStatistics(const BatchNormForward<T>& call, int64_t c, double n, double shift, double sum, double squares) {
  const double d = sum / n;
  call.batch_mean[c] = static_cast<float>(shift + d);
  const double var = squares / n - d * d;
  call.batch_var[c] = static_cast<float>(var < 0 ? 0 : var);  // a NaN stays one
}

// Gives the same bits forward and backward, because the backward pass computes anew what the activation let through.
template <class Call>
Numbers Normalising(const Call& call, int64_t c, double mean, double var) {
  const double weight = call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1;
  return {.mean = static_cast<float>(mean),
          .scale = static_cast<float>(weight / std::sqrt(var + call.epsilon)),
          .bias = call.bias != nullptr ? call.bias[c] : 0.0F};
}

template <class T>
Numbers ForwardNumbers(const BatchNormForward<T>& call, int64_t c) {
  const bool of_batch = call.batch_mean != nullptr;
  return Normalising(call, c, static_cast<double>(of_batch ? call.batch_mean[c] : call.mean[c]),
                     static_cast<double>(of_batch ? call.batch_var[c] : call.var[c]));
}

// Returns the numbers that the pass of sums needs.
template <class T>
Numbers SumsNumbers(const BatchNormBackward<T>& call, int64_t c) {
  return Normalising(call, c, static_cast<double>(call.mean[c]), static_cast<double>(call.var[c]));
}

// Returns the numbers for dx. Sets the gradients of weight and bias too.
template <class T>
Numbers BackwardNumbers(const BatchNormBackward<T>& call, int64_t c, double n, double sum, double product) {
  const double inv_std = 1 / std::sqrt(static_cast<double>(call.var[c]) + call.epsilon);
  const double scale = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) * inv_std;
  const double rest = call.mean_rest != nullptr ? static_cast<double>(call.mean_rest[c]) : 0;
  product -= sum * rest;  // the products were of what lacks the mean alone, and so are those with the slope
  call.dbias[c] = static_cast<float>(sum);
  call.dweight[c] = static_cast<float>(product * inv_std);
  Numbers numbers = SumsNumbers(call, c);
  if (call.training) {
    const double slope = -scale * inv_std * inv_std * product / n;
    numbers.offset = static_cast<float>(-scale * sum / n - slope * rest);
    numbers.slope = static_cast<float>(slope);
  }
  return numbers;
}

template <class T, class Element>
void Forward(int threads, const ChannelView& view, const BatchNormForward<T>& call, float* workspace, Element element) {
  const ForwardSums<T> sums = {call.x};
  const double n = static_cast<double>(view.count());
  if (view.inner > 1) {
    ParallelFor(threads, view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        if (call.batch_mean != nullptr) {
          const Numbers shift = {.mean = Shift(view, call.x, c)};
          double sum = 0, squares = 0;
          SumPlanes(view, c, shift, sums, &sum, &squares);
          SetStatistics(call, c, n, static_cast<double>(shift.mean), sum, squares);
        }
        ForEachElementOfPlanes(view, c, ForwardNumbers(call, c), element);
      }
    });
    return;
  }
  const RowChunks rows(view);
  float* patterns = workspace;
  float* partial = workspace + kPatterns * rows.width;
  const auto set = [=](int64_t c) { SetPatterns(rows, patterns, c, ForwardNumbers(call, c)); };
  const bool measures = call.batch_mean != nullptr;
  if (measures) {
    SetShifts(rows, call.x, patterns);
    SumChunks(threads, rows, patterns, partial, sums);
    ForEachSum(threads, rows, partial, [=](int64_t c, double sum, double squares) {
      SetStatistics(call, c, n, static_cast<double>(patterns[c]), sum, squares);
      set(c);
    });
  } else {
    for (int64_t c = 0; c < rows.channels; ++c) set(c);
  }
  ForEachElementOfRows(threads, rows, measures ? Direction::kUpwards : Direction::kDownwards, patterns, element);
}

template <class T, class Sums, class Element>
void Backward(int threads, const ChannelView& view, const BatchNormBackward<T>& call, float* workspace, Sums sums,
              Element element) {
  const double n = static_cast<double>(view.count());
  if (view.inner > 1) {
    ParallelFor(threads, view.channels, 1, [=](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double sum = 0, product = 0;
        SumPlanes(view, c, SumsNumbers(call, c), sums, &sum, &product);
        ForEachElementOfPlanes(view, c, BackwardNumbers(call, c, n, sum, product), element);
      }
    });
    return;
  }
  const RowChunks rows(view);
  float* patterns = workspace;
  float* partial = workspace + kPatterns * rows.width;
  for (int64_t c = 0; c < rows.channels; ++c) SetPatterns(rows, patterns, c, SumsNumbers(call, c));
  SumChunks(threads, rows, patterns, partial, sums);
  ForEachSum(threads, rows, partial, [=](int64_t c, double sum, double product) {
    SetPatterns(rows, patterns, c, BackwardNumbers(call, c, n, sum, product));
  });
  ForEachElementOfRows(threads, rows, Direction::kUpwards, patterns, element);
}

// Calls fn with the activation as a compile-time constant.
template <class Fn>
void DispatchActivation(Activation activation, Fn&& fn) {
  switch (activation) {
    case Activation::kIdentity:
      return fn(std::integral_constant<Activation, Activation::kIdentity>());
    case Activation::kRelu:
      return fn(std::integral_constant<Activation, Activation::kRelu>());
    case Activation::kRelu6:
      return fn(std::integral_constant<Activation, Activation::kRelu6>());
    default:
      SNUG_CHECK_MSG(false, "batch norm has no such activation");
  }
}

}  // namespace

int64_t BatchNormWorkspace(const ChannelView& view) {
  return view.inner > 1 ? 0 : RowChunks(view).workspace_floats() * static_cast<int64_t>(sizeof(float));
}

template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormForward<T>& call, void* workspace) {
  if (call.silu) {
    if constexpr (std::is_same_v<T, float>) {
      return Forward(threads, view, call, static_cast<float*>(workspace), SiluElement{call.x, call.y});
    }
    SNUG_CHECK_MSG(false, "the fast batch norm with silu is for float32");
  }
  DispatchActivation(call.activation, [&](auto activation) {
    float* floats = static_cast<float*>(workspace);
    if (call.add != nullptr) {
      Forward(threads, view, call, floats, ForwardElement<activation(), true, T>{call.x, call.add, call.y});
    } else {
      Forward(threads, view, call, floats, ForwardElement<activation(), false, T>{call.x, nullptr, call.y});
    }
  });
}

template <class T>
void BatchNormFast(int threads, const ChannelView& view, const BatchNormBackward<T>& call, void* workspace) {
  if (call.silu) {
    if constexpr (std::is_same_v<T, float>) {
      return Backward(threads, view, call, static_cast<float*>(workspace), StoringSiluSums{call.x, call.dy, call.dx},
                      BackwardElement<Activation::kIdentity, float>{call.x, call.dx, call.dx});
    }
    SNUG_CHECK_MSG(false, "the fast batch norm with silu is for float32");
  }
  DispatchActivation(call.activation, [&](auto activation) {
    float* floats = static_cast<float*>(workspace);
    if (call.dadd == nullptr) {
      Backward(threads, view, call, floats, BackwardSums<activation(), T>{call.x, call.dy},
               BackwardElement<activation(), T>{call.x, call.dy, call.dx});
      return;
    }
    const BackwardElement<Activation::kIdentity, T> element = {call.x, call.dadd, call.dx};
    if (call.dy2 == nullptr) {
      using Sums = StoringBackwardSums<activation(), false, T>;
      Backward(threads, view, call, floats, Sums{call.x, call.y, call.dy, nullptr, call.dadd}, element);
    } else {
      using Sums = StoringBackwardSums<activation(), true, T>;
      Backward(threads, view, call, floats, Sums{call.x, call.y, call.dy, call.dy2, call.dadd}, element);
    }
  });
}

template void BatchNormFast(int, const ChannelView&, const BatchNormForward<float>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormForward<BFloat16>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormBackward<float>&, void*);
template void BatchNormFast(int, const ChannelView&, const BatchNormBackward<BFloat16>&, void*);

}  // namespace snug::core
