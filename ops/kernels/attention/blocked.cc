// The fast attention kernels. Scores are kept transposed, [keys, queries], and a block of queries is one panel. So
// maxima and sums over keys run down the vectors, query by query in its own lane, and no product needs a transposed
// copy of anything but the queries.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "engine/base/workers.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace {

constexpr int64_t kQueries = kPanel<float>;  // queries in a block
constexpr int64_t kKeys = 128;
constexpr int64_t kQueryGroup = 256;  // queries in a task: they share the packed keys and values of their head
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int64_t PaddedWidth(const AttentionSizes& s) { return PaddedToPanels<float>(s.width); }

// Hands out a worker's part of the workspace, in floats; every piece starts on a cache line. Without a workspace it
// only counts how much is needed.
class Scratch {
 public:
  explicit Scratch(float* begin = nullptr) : begin_(begin) {}
  float* Take(int64_t floats) {
    float* piece = begin_ == nullptr ? nullptr : begin_ + taken_;
    taken_ += (floats + 15) / 16 * 16;
    return piece;
  }
  int64_t taken() const { return taken_; }

 private:
  float* begin_;
  int64_t taken_ = 0;
};

struct ForwardScratch {
  ForwardScratch(Scratch scratch, const AttentionSizes& s)
      : keys(scratch.Take(s.keys * s.width)),
        values(scratch.Take(s.keys * PaddedWidth(s))),
        queries(scratch.Take(s.width * kQueries)),
        scores(scratch.Take(kKeys * kQueries)),
        sums(scratch.Take(kQueries * PaddedWidth(s))),
        size(scratch.taken()) {}

  float* keys;     // [keys, width]
  float* values;   // panels of [keys, width]
  float* queries;  // one panel of [width, queries], scaled
  float* scores;   // [keys in a block, queries]
  float* sums;     // [queries, padded width]
  int64_t size;
};

struct BackwardScratch {
  BackwardScratch(Scratch scratch, const AttentionSizes& s)
      : keys(scratch.Take(s.keys * s.width)),
        values(scratch.Take(s.keys * s.width)),
        key_panels(scratch.Take(s.keys * PaddedWidth(s))),
        dk(scratch.Take(s.keys * PaddedWidth(s))),
        dv(scratch.Take(s.keys * PaddedWidth(s))),
        queries(scratch.Take(s.width * kQueries)),
        outs(scratch.Take(s.width * kQueries)),
        douts(scratch.Take(s.width * kQueries)),
        query_panels(scratch.Take(kQueries * PaddedWidth(s))),
        dout_panels(scratch.Take(kQueries * PaddedWidth(s))),
        dq(scratch.Take(kQueries * PaddedWidth(s))),
        scores(scratch.Take(kKeys * kQueries)),
        dscores(scratch.Take(kKeys * kQueries)),
        size(scratch.taken()) {}

  float *keys, *values;               // [keys, width]
  float* key_panels;                  // panels of [keys, width]
  float *dk, *dv;                     // [keys, padded width]
  float *queries, *outs, *douts;      // one panel of [width, queries]; queries are scaled
  float *query_panels, *dout_panels;  // panels of [queries, width]; queries are scaled
  float* dq;                          // [queries, padded width]
  float *scores, *dscores;            // [keys in a block, queries]
  int64_t size;
};

template <class T>
SNUG_INLINE void CopyRows(int64_t rows, int64_t width, const T* from, int64_t from_row, float* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < width; ++d) to[i * to_row + d] = static_cast<float>(from[i * from_row + d]);
  }
}

template <class T>
SNUG_INLINE void StoreRows(int64_t rows, int64_t width, const float* from, int64_t from_row, T* to, int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < width; ++d) to[i * to_row + d] = static_cast<T>(from[i * from_row + d]);
  }
}

// Packs rows [queries, width] into a panel [width][kQueries]: each query is a column.
template <Isa kIsa, class T>
SNUG_INLINE void PackQueries(IsaConstant<kIsa> /*isa*/, int64_t queries, int64_t width, const T* from, int64_t from_row,
                             float* panel) {
  constexpr int64_t kSide = kSquare<kIsa, float>;
  int64_t i = 0;
  for (; i + kSide <= queries; i += kSide) {
    TransposeRows<kSide, kSide>(width, from + i * from_row, from_row, panel + i, kQueries);
  }
  for (; i < queries; ++i) {
    for (int64_t d = 0; d < width; ++d) panel[d * kQueries + i] = static_cast<float>(from[i * from_row + d]);
  }
  for (int64_t d = 0; d < width && i < kQueries; ++d)
    std::fill(panel + d * kQueries + i, panel + (d + 1) * kQueries, 0.0F);
}

SNUG_INLINE void Scale(float* x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

// Adds the mask to the scores, and hides keys that come after the query, before the exponentials are taken.
template <class T>
SNUG_INLINE void MaskScores(const AttentionSizes& s, const T* mask, int64_t query, int64_t queries, int64_t key,
                            int64_t keys, float* scores) {
  if (mask != nullptr) {
    for (int64_t j = 0; j < keys; ++j) {
      const T* row = mask + query * s.mask[2] + (key + j) * s.mask[3];
      for (int64_t i = 0; i < queries; ++i) scores[j * kQueries + i] += static_cast<float>(row[i * s.mask[2]]);
    }
  }
  if (!s.causal) return;
  for (int64_t j = std::max<int64_t>(0, query + 1 - key); j < keys; ++j) {
    const int64_t hidden = std::min(kQueries, key + j - query);  // how many of the queries come before this key
    for (int64_t i = 0; i < hidden; ++i) scores[j * kQueries + i] = kNothing;
  }
}

// The running maximum and sum of every query of a block, and how far earlier sums shrink under the new maximum.
struct Softmax {
  alignas(64) float largest[kQueries];
  alignas(64) float sum[kQueries];
  alignas(64) float shrink[kQueries];

  SNUG_INLINE void Start() {
    for (int64_t i = 0; i < kQueries; ++i) {
      largest[i] = kNothing;
      sum[i] = 0;
    }
  }

  // Turns the scores into exponentials, and adds them to the sums.
  SNUG_INLINE void Add(int64_t keys, float* scores) {
    alignas(64) float top[kQueries];
    for (int64_t i = 0; i < kQueries; ++i) top[i] = largest[i];
    for (int64_t j = 0; j < keys; ++j) {
      const float* row = scores + j * kQueries;
      for (int64_t i = 0; i < kQueries; ++i) top[i] = row[i] > top[i] ? row[i] : top[i];
    }
    alignas(64) float base[kQueries];
    for (int64_t i = 0; i < kQueries; ++i) {
      base[i] = top[i] == kNothing ? 0.0F : top[i];  // nothing seen so far: every exponential is 0
      shrink[i] = ExpOrZero(largest[i] - base[i]);
      sum[i] *= shrink[i];
      largest[i] = top[i];
    }
    for (int64_t j = 0; j < keys; ++j) {
      float* row = scores + j * kQueries;
      for (int64_t i = 0; i < kQueries; ++i) {
        row[i] = ExpOrZero(row[i] - base[i]);
        sum[i] += row[i];
      }
    }
  }
};

template <Isa kIsa, class T>
SNUG_INLINE void ForwardGroup(IsaConstant<kIsa> isa, const AttentionSizes& s, const AttentionForward<T>& call,
                              const ForwardScratch& w, int64_t b, int64_t h, int64_t begin, int64_t end) {
  const int64_t padded = PaddedToPanels<float>(s.width);
  const int64_t all_keys = s.KeysOf(end - 1);
  const T* mask = call.mask == nullptr ? nullptr : call.mask + b * s.mask[0] + h * s.mask[1];
  const int64_t kv = s.k.Offset(b, h, 0);
  CopyRows(all_keys, s.width, call.k + kv, s.k.row, w.keys, s.width);
  PackPanels(all_keys, s.width, StridedMatrix<T>{call.v + kv, s.k.row, 1}, w.values);

  for (int64_t query = begin; query < end; query += kQueries) {
    const int64_t queries = std::min(kQueries, end - query);
    const int64_t qo = s.q.Offset(b, h, query);
    PackQueries(isa, queries, s.width, call.q + qo, s.q.row, w.queries);
    Scale(w.queries, s.width * kQueries, static_cast<float>(s.scale));
    Softmax softmax;
    softmax.Start();
    const int64_t seen = s.KeysOf(query + queries - 1);
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t keys = std::min(kKeys, seen - key);
      MultiplyPanel(isa, keys, s.width, StridedMatrix<float>{w.keys + key * s.width, s.width, 1}, w.queries, w.scores,
                    kQueries, /*accumulate=*/false);
      MaskScores(s, mask, query, queries, key, keys, w.scores);
      softmax.Add(keys, w.scores);
      if (key > 0) {
        for (int64_t i = 0; i < kQueries; ++i) Scale(w.sums + i * padded, padded, softmax.shrink[i]);
      }
      MultiplyPanels(isa, kQueries, s.width, keys, StridedMatrix<float>{w.scores, 1, kQueries},
                     w.values + key * kPanel<float>, all_keys, w.sums, padded, /*accumulate=*/key > 0);
    }
    float* lse = call.lse + (b * s.heads + h) * s.queries + query;
    for (int64_t i = 0; i < queries; ++i) {
      const bool nothing = softmax.sum[i] == 0.0F;
      Scale(w.sums + i * padded, s.width, nothing ? 0.0F : 1.0F / softmax.sum[i]);
      lse[i] = nothing ? kNothing : softmax.largest[i] + Log(softmax.sum[i]);
    }
    StoreRows(queries, s.width, w.sums, padded, call.out + s.out.Offset(b, h, query), s.out.row);
  }
}

template <Isa kIsa, class T>
SNUG_INLINE void BackwardHead(IsaConstant<kIsa> isa, const AttentionSizes& s, const AttentionBackward<T>& call,
                              const BackwardScratch& w, int64_t b, int64_t h) {
  const int64_t padded = PaddedToPanels<float>(s.width);
  const T* mask = call.mask == nullptr ? nullptr : call.mask + b * s.mask[0] + h * s.mask[1];
  const int64_t kv = s.k.Offset(b, h, 0);
  const float scale = static_cast<float>(s.scale);
  CopyRows(s.keys, s.width, call.k + kv, s.k.row, w.keys, s.width);
  CopyRows(s.keys, s.width, call.v + kv, s.k.row, w.values, s.width);
  PackPanels(s.keys, s.width, StridedMatrix<T>{call.k + kv, s.k.row, 1}, w.key_panels);
  std::fill(w.dk, w.dk + s.keys * padded, 0.0F);
  std::fill(w.dv, w.dv + s.keys * padded, 0.0F);

  for (int64_t query = 0; query < s.queries; query += kQueries) {
    const int64_t queries = std::min(kQueries, s.queries - query);
    const int64_t qo = s.q.Offset(b, h, query);
    const int64_t oo = s.out.Offset(b, h, query);
    PackQueries(isa, queries, s.width, call.q + qo, s.q.row, w.queries);
    PackQueries(isa, queries, s.width, call.dout + oo, s.out.row, w.douts);
    PackQueries(isa, queries, s.width, call.out + oo, s.out.row, w.outs);
    PackPanels(queries, s.width, StridedMatrix<T>{call.q + qo, s.q.row, 1}, w.query_panels);
    PackPanels(queries, s.width, StridedMatrix<T>{call.dout + oo, s.out.row, 1}, w.dout_panels);
    Scale(w.queries, s.width * kQueries, scale);
    Scale(w.query_panels, queries * padded, scale);

    // For each query: the logarithm that turns scores into probabilities, and the part of a score's gradient that is
    // the same for all keys. A query that sees nothing, or is beyond the end, gets probabilities of 0.
    alignas(64) float lse[kQueries];
    alignas(64) float shared[kQueries];
    for (int64_t i = 0; i < kQueries; ++i) {
      lse[i] = i < queries ? call.lse[(b * s.heads + h) * s.queries + query + i] : kNothing;
      if (lse[i] == kNothing) lse[i] = -kNothing;
      shared[i] = 0;
    }
    for (int64_t d = 0; d < s.width; ++d) {
      const float *dout = w.douts + d * kQueries, *out = w.outs + d * kQueries;
      for (int64_t i = 0; i < kQueries; ++i) shared[i] += dout[i] * out[i];
    }

    const int64_t seen = s.KeysOf(query + queries - 1);
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t keys = std::min(kKeys, seen - key);
      MultiplyPanel(isa, keys, s.width, StridedMatrix<float>{w.keys + key * s.width, s.width, 1}, w.queries, w.scores,
                    kQueries, /*accumulate=*/false);
      MultiplyPanel(isa, keys, s.width, StridedMatrix<float>{w.values + key * s.width, s.width, 1}, w.douts, w.dscores,
                    kQueries, /*accumulate=*/false);
      MaskScores(s, mask, query, queries, key, keys, w.scores);
      for (int64_t j = 0; j < keys; ++j) {
        float* p = w.scores + j * kQueries;
        float* ds = w.dscores + j * kQueries;
        for (int64_t i = 0; i < kQueries; ++i) {
          p[i] = ExpOrZero(p[i] - lse[i]);
          ds[i] = p[i] * (ds[i] - shared[i]);
        }
      }
      // The queries are scaled already, so dk is too; dq is scaled at the end.
      MultiplyPanels(isa, keys, s.width, queries, StridedMatrix<float>{w.scores, kQueries, 1}, w.dout_panels, queries,
                     w.dv + key * padded, padded, /*accumulate=*/true);
      MultiplyPanels(isa, keys, s.width, queries, StridedMatrix<float>{w.dscores, kQueries, 1}, w.query_panels, queries,
                     w.dk + key * padded, padded, /*accumulate=*/true);
      MultiplyPanels(isa, kQueries, s.width, keys, StridedMatrix<float>{w.dscores, 1, kQueries},
                     w.key_panels + key * kPanel<float>, s.keys, w.dq, padded, /*accumulate=*/key > 0);
    }
    Scale(w.dq, queries * padded, scale);
    StoreRows(queries, s.width, w.dq, padded, call.dq + qo, s.q.row);
  }
  StoreRows(s.keys, s.width, w.dk, padded, call.dk + kv, s.k.row);
  StoreRows(s.keys, s.width, w.dv, padded, call.dv + kv, s.k.row);
}

// Deals `tasks` out to workers by calls of body(task, scratch); each worker has its own part of the workspace.
template <class ScratchType, class Body>
void ForEachTask(int threads, const AttentionSizes& s, int64_t tasks, void* workspace, const Body& body) {
  const int64_t size = ScratchType(Scratch(), s).size;
  ForEachWorker(threads, tasks, [&](int64_t worker, int64_t begin, int64_t end) {
    const ScratchType scratch(Scratch(static_cast<float*>(workspace) + worker * size), s);
    for (int64_t task = begin; task < end; ++task) body(task, scratch);
  });
}

}  // namespace

int64_t BlockedAttentionWorkspaceBytes(int threads, const AttentionSizes& sizes) {
  return threads * ForwardScratch(Scratch(), sizes).size * static_cast<int64_t>(sizeof(float));
}
int64_t BlockedAttentionGradWorkspaceBytes(int threads, const AttentionSizes& sizes) {
  return threads * BackwardScratch(Scratch(), sizes).size * static_cast<int64_t>(sizeof(float));
}

template <class T>
void BlockedAttention(int threads, const AttentionSizes& s, const AttentionForward<T>& call, void* workspace) {
  const int64_t groups = (s.queries + kQueryGroup - 1) / kQueryGroup;
  ForEachTask<ForwardScratch>(
      threads, s, s.batch * s.heads * groups, workspace, [&](int64_t task, const ForwardScratch& scratch) {
        const int64_t head = task / groups;
        const int64_t begin = task % groups * kQueryGroup;
        const int64_t end = std::min(s.queries, begin + kQueryGroup);
        WithIsa([&](auto isa)
                    SNUG_LAMBDA { ForwardGroup(isa, s, call, scratch, head / s.heads, head % s.heads, begin, end); });
      });
}

template <class T>
void BlockedAttentionGrad(int threads, const AttentionSizes& s, const AttentionBackward<T>& call, void* workspace) {
  ForEachTask<BackwardScratch>(
      threads, s, s.batch * s.heads, workspace, [&](int64_t head, const BackwardScratch& scratch) {
        WithIsa([&](auto isa) SNUG_LAMBDA { BackwardHead(isa, s, call, scratch, head / s.heads, head % s.heads); });
      });
}

template void BlockedAttention(int, const AttentionSizes&, const AttentionForward<float>&, void*);
template void BlockedAttention(int, const AttentionSizes&, const AttentionForward<BFloat16>&, void*);
template void BlockedAttentionGrad(int, const AttentionSizes&, const AttentionBackward<float>&, void*);
template void BlockedAttentionGrad(int, const AttentionSizes&, const AttentionBackward<BFloat16>&, void*);

}  // namespace snug::core
