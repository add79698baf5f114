// The plain kernels of attention: they compute each score whenever it is needed, and keep nothing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/parallel.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"

namespace snug::core {
namespace {

constexpr int64_t kSummedColumns = 64;  // columns of a result that are summed together
constexpr int64_t kRows = 16;           // rows in a thread's piece of work

template <class T>
SNUG_INLINE Accumulator<T> Dot(const T* a, const T* b, int64_t n) {
  using Acc = Accumulator<T>;
  return ReduceLanes<Acc>(
      0, n, Acc(0), [=](int64_t i) SNUG_LAMBDA { return static_cast<Acc>(a[i]) * static_cast<Acc>(b[i]); },
      [](Acc x, Acc y) SNUG_LAMBDA { return x + y; });
}

// One head of the operands. Queries and keys are given by their row numbers.
template <class T>
struct Head {
  using Acc = Accumulator<T>;

  Head(const AttentionSizes& sizes, int64_t b, int64_t h, const T* all_q, const T* all_k, const T* all_mask)
      : s(sizes),
        q(all_q + s.q.Offset(b, h, 0)),
        k(all_k + s.k.Offset(b, h, 0)),
        mask(all_mask == nullptr ? nullptr : all_mask + b * s.mask[0] + h * s.mask[1]) {}

  SNUG_INLINE Acc Score(int64_t query, int64_t key) const {
    const Acc score = static_cast<Acc>(s.scale) * Dot(q + query * s.q.row, k + key * s.k.row, s.width);
    return mask == nullptr ? score : score + static_cast<Acc>(mask[query * s.mask[2] + key * s.mask[3]]);
  }

  const AttentionSizes& s;
  const T* q;
  const T* k;
  const T* mask;
};

// Computes what the backward pass needs to know about a pair of query and key.
template <class T>
struct HeadGrad {
  using Acc = Accumulator<T>;

  HeadGrad(const AttentionSizes& sizes, int64_t b, int64_t h, const AttentionBackward<T>& call)
      : head(sizes, b, h, call.q, call.k, call.mask),
        v(call.v + sizes.k.Offset(b, h, 0)),
        out(call.out + sizes.out.Offset(b, h, 0)),
        dout(call.dout + sizes.out.Offset(b, h, 0)),
        lse(call.lse + (b * sizes.heads + h) * sizes.queries) {}

  SNUG_INLINE Acc Probability(int64_t query, int64_t key) const {
    if (lse[query] == -std::numeric_limits<Acc>::infinity()) return Acc(0);  // this query sees nothing
    return std::exp(head.Score(query, key) - lse[query]);
  }
  // Returns the gradient with respect to the score before scaling.
  SNUG_INLINE Acc ScoreGrad(int64_t query, int64_t key, Acc probability) const {
    const AttentionSizes& s = head.s;
    const T* dy = dout + query * s.out.row;
    return probability * static_cast<Acc>(s.scale) *
           (Dot(dy, v + key * s.k.row, s.width) - Dot(dy, out + query * s.out.row, s.width));
  }

  Head<T> head;
  const T* v;
  const T* out;
  const T* dout;
  const Acc* lse;
};

// Calls body(b, h, row) for `rows` rows of every head.
template <class Body>
void ForEachRow(int threads, const AttentionSizes& s, int64_t rows, const Body& body) {
  ParallelFor(threads, s.batch * s.heads * rows, kRows, [&](int64_t begin, int64_t end) {
    WithIsa([&]() SNUG_LAMBDA {
      for (int64_t i = begin; i < end; ++i) body(i / rows / s.heads, i / rows % s.heads, i % rows);
    });
  });
}

}  // namespace

template <class T>
void PlainAttention(int threads, const AttentionSizes& s, const AttentionForward<T>& call) {
  using Acc = Accumulator<T>;
  constexpr Acc kNothing = -std::numeric_limits<Acc>::infinity();
  ForEachRow(threads, s, s.queries, [&](int64_t b, int64_t h, int64_t i) SNUG_LAMBDA {
    const Head<T> head(s, b, h, call.q, call.k, call.mask);
    const T* v = call.v + s.k.Offset(b, h, 0);
    T* out = call.out + s.out.Offset(b, h, i);
    const int64_t keys = s.KeysOf(i);
    Acc largest = kNothing;
    for (int64_t j = 0; j < keys; ++j) {
      const Acc score = head.Score(i, j);
      if (score > largest || score != score) largest = score;  // a NaN stays, and makes the row one
    }
    Acc sum = 0;
    for (int64_t j = 0; j < keys && largest != kNothing; ++j) sum += std::exp(head.Score(i, j) - largest);
    const Acc lse = largest == kNothing ? kNothing : largest + std::log(sum);
    call.lse[(b * s.heads + h) * s.queries + i] = lse;
    for (int64_t begin = 0; begin < s.width; begin += kSummedColumns) {
      const int64_t columns = std::min(kSummedColumns, s.width - begin);
      Acc sums[kSummedColumns] = {};
      for (int64_t j = 0; j < keys && lse != kNothing; ++j) {
        const Acc p = std::exp(head.Score(i, j) - lse);
        for (int64_t d = 0; d < columns; ++d) sums[d] += p * static_cast<Acc>(v[j * s.k.row + begin + d]);
      }
      for (int64_t d = 0; d < columns; ++d) out[begin + d] = static_cast<T>(sums[d]);
    }
  });
}

template <class T>
void PlainAttentionGrad(int threads, const AttentionSizes& s, const AttentionBackward<T>& call) {
  using Acc = Accumulator<T>;
  ForEachRow(threads, s, s.queries, [&](int64_t b, int64_t h, int64_t i) SNUG_LAMBDA {
    const HeadGrad<T> grad(s, b, h, call);
    T* dq = call.dq + s.q.Offset(b, h, i);
    for (int64_t begin = 0; begin < s.width; begin += kSummedColumns) {
      const int64_t columns = std::min(kSummedColumns, s.width - begin);
      Acc sums[kSummedColumns] = {};
      for (int64_t j = 0; j < s.KeysOf(i); ++j) {
        const Acc ds = grad.ScoreGrad(i, j, grad.Probability(i, j));
        const T* k = grad.head.k + j * s.k.row + begin;
        for (int64_t d = 0; d < columns; ++d) sums[d] += ds * static_cast<Acc>(k[d]);
      }
      for (int64_t d = 0; d < columns; ++d) dq[begin + d] = static_cast<T>(sums[d]);
    }
  });
  ForEachRow(threads, s, s.keys, [&](int64_t b, int64_t h, int64_t j) SNUG_LAMBDA {
    const HeadGrad<T> grad(s, b, h, call);
    T* dk = call.dk + s.k.Offset(b, h, j);
    T* dv = call.dv + s.k.Offset(b, h, j);
    for (int64_t begin = 0; begin < s.width; begin += kSummedColumns) {
      const int64_t columns = std::min(kSummedColumns, s.width - begin);
      Acc k_sums[kSummedColumns] = {};
      Acc v_sums[kSummedColumns] = {};
      for (int64_t i = s.causal ? j : 0; i < s.queries; ++i) {
        const Acc p = grad.Probability(i, j);
        const Acc ds = grad.ScoreGrad(i, j, p);
        const T* q = grad.head.q + i * s.q.row + begin;
        const T* dy = grad.dout + i * s.out.row + begin;
        for (int64_t d = 0; d < columns; ++d) {
          k_sums[d] += ds * static_cast<Acc>(q[d]);
          v_sums[d] += p * static_cast<Acc>(dy[d]);
        }
      }
      for (int64_t d = 0; d < columns; ++d) dk[begin + d] = static_cast<T>(k_sums[d]);
      for (int64_t d = 0; d < columns; ++d) dv[begin + d] = static_cast<T>(v_sums[d]);
    }
  });
}

template void PlainAttention(int, const AttentionSizes&, const AttentionForward<float>&);
template void PlainAttention(int, const AttentionSizes&, const AttentionForward<BFloat16>&);
template void PlainAttention(int, const AttentionSizes&, const AttentionForward<double>&);
template void PlainAttentionGrad(int, const AttentionSizes&, const AttentionBackward<float>&);
template void PlainAttentionGrad(int, const AttentionSizes&, const AttentionBackward<BFloat16>&);
template void PlainAttentionGrad(int, const AttentionSizes&, const AttentionBackward<double>&);

}  // namespace snug::core
