// Attention by CUDA kernels of our own, of any type and width. A block works for 32 queries (backward, also for 32
// keys), four in each warp, and goes along the other side 32 at a time: each lane works out the scores of its key, then
// the lanes add up the columns of the result. All that a block needs of the operands it loads to shared memory first,
// 32 columns at a time for scores. The forward pass keeps the largest score so far; where a larger one comes, it scales
// down what was added up before (Milakov and Gimelshein 2018, the online softmax).
#include <limits>
#include <type_traits>

#include "engine/base/status.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kernels/reduce/combine.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/reduce_steps.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace {

constexpr int kTile = 32;  // rows and other rows of a block, and columns that are loaded for scores
constexpr int kWarps = kCudaThreads / 32;
constexpr int kOwn = kTile / kWarps;  // rows of a warp: its number, and every kWarps-th after it

// Columns of the result that a block does at once: so many that a tile takes 16 KiB.
template <class A>
constexpr int kColumns = 4096 / kTile / (sizeof(A) / 4);

// Rows of an operand of one head.
template <class T>
struct Rows {
  const T* first;
  int64_t stride, count;
};

// The number of one head, as its batch and its head there.
struct HeadPlace {
  int64_t b, h;
  __device__ HeadPlace(const AttentionSizes& s, int64_t head) : b(head / s.heads), h(head % s.heads) {}
  template <class T>
  __device__ Rows<T> Queries(const AttentionSizes& s, const T* q) const {
    return {q + s.q.Offset(b, h, 0), s.q.row, s.queries};
  }
  template <class T>
  __device__ Rows<T> Results(const AttentionSizes& s, const T* out) const {
    return {out + s.out.Offset(b, h, 0), s.out.row, s.queries};
  }
  template <class T>
  __device__ Rows<T> Keys(const AttentionSizes& s, const T* k) const {
    return {k + s.k.Offset(b, h, 0), s.k.row, s.keys};
  }
};

// Loads kTile rows from `row` on, kCount columns from `column` on; 0 where there are none.
template <int kCount, int kPitch, class T, class A>
__device__ inline void LoadTile(const Rows<T>& rows, int64_t row, int64_t column, int64_t width,
                                A (&to)[kTile][kPitch]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kCount; i += kCudaThreads) {
    const int r = i / kCount;
    const int c = i % kCount;
    const bool there = row + r < rows.count && column + c < width;
    to[r][c] = there ? static_cast<A>(rows.first[(row + r) * rows.stride + column + c]) : A(0);
  }
}

// The products of a warp's rows with the other row of each lane. All threads of the block call it.
template <class T, class A = Accumulator<T>>
__device__ inline void MultiplyRows(const Rows<T>& own, int64_t own_row, const Rows<T>& other, int64_t other_row,
                                    int64_t width, A (&products)[kOwn]) {
  __shared__ A own_tile[kTile][kTile];
  __shared__ A other_tile[kTile][kTile + 1];  // lanes read down a column
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < kOwn; ++i) products[i] = 0;
  for (int64_t column = 0; column < width; column += kTile) {
    __syncthreads();  // until all have read what was there
    LoadTile<kTile>(own, own_row, column, width, own_tile);
    LoadTile<kTile>(other, other_row, column, width, other_tile);
    __syncthreads();
#pragma unroll 8
    for (int c = 0; c < kTile; ++c) {
      const A factor = other_tile[lane][c];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) products[i] += own_tile[warp + i * kWarps][c] * factor;
    }
  }
}

// Adds to the sums of a warp's rows, kColumns from `column` on, what each lane's weights make of the other rows. All
// threads of the block call it.
template <class T, class A = Accumulator<T>>
__device__ inline void AddWeighted(const A (&weights)[kOwn], const Rows<T>& other, int64_t other_row, int64_t column,
                                   int64_t width, A (&sums)[kOwn][kColumns<A> / 32]) {
  __shared__ A weight_tile[kTile][kTile];
  __shared__ A other_tile[kTile][kColumns<A>];
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // until all have read what was there
  LoadTile<kColumns<A>>(other, other_row, column, width, other_tile);
  for (int i = 0; i < kOwn; ++i) weight_tile[warp + i * kWarps][lane] = weights[i];
  __syncthreads();
#pragma unroll 4
  for (int j = 0; j < kTile; ++j) {
    A factors[kColumns<A> / 32];
#pragma unroll
    for (int n = 0; n < kColumns<A> / 32; ++n) factors[n] = other_tile[j][lane + n * 32];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const A weight = weight_tile[warp + i * kWarps][j];
#pragma unroll
      for (int n = 0; n < kColumns<A> / 32; ++n) sums[i][n] += weight * factors[n];
    }
  }
}

// Writes the sums, multiplied by a factor for each row.
template <class T, class A = Accumulator<T>>
__device__ inline void StoreSums(const A (&sums)[kOwn][kColumns<A> / 32], const A (&factors)[kOwn], T* to,
                                 int64_t stride, int64_t first, int64_t rows, int64_t column, int64_t width) {
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = 0; i < kOwn; ++i) {
    const int64_t row = first + warp + i * kWarps;
    for (int n = 0; n < kColumns<A> / 32; ++n) {
      const int64_t c = column + lane + n * 32;
      if (row < rows && c < width) to[row * stride + c] = static_cast<T>(sums[i][n] * factors[i]);
    }
  }
}

// Returns the score of a pair, from the product of its rows; of a pair that is not seen it is the least number.
template <class T, class A = Accumulator<T>>
__device__ inline A ScoreOf(const AttentionSizes& s, const HeadPlace& at, A product, const T* mask, int64_t query,
                            int64_t key) {
  if (query >= s.queries || key >= s.KeysOf(query)) return -std::numeric_limits<A>::infinity();
  const A score = static_cast<A>(s.scale) * product;
  if (mask == nullptr) return score;
  return score + static_cast<A>(mask[at.b * s.mask[0] + at.h * s.mask[1] + query * s.mask[2] + key * s.mask[3]]);
}

template <class T>
__global__ void ForwardKernel(AttentionSizes s, AttentionForward<T> call, int64_t heads) {
  using A = Accumulator<T>;
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  const int64_t first_query = static_cast<int64_t>(blockIdx.x) * kTile;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const auto q = at.Queries(s, call.q);
    const auto k = at.Keys(s, call.k);
    const auto v = at.Keys(s, call.v);
    const int64_t keys = s.KeysOf((first_query + kTile < s.queries ? first_query + kTile : s.queries) - 1);
    for (int64_t column = 0; column < s.width; column += kColumns<A>) {
      A sums[kOwn][kColumns<A> / 32] = {};
      A largest[kOwn];
      A totals[kOwn] = {};  // the sums of the probabilities, before they are scaled to 1
      for (int i = 0; i < kOwn; ++i) largest[i] = kNothing;
      for (int64_t first = 0; first < keys; first += kTile) {
        A weights[kOwn];
        MultiplyRows(q, first_query, k, first, s.width, weights);
        for (int i = 0; i < kOwn; ++i) {
          const A score = ScoreOf(s, at, weights[i], call.mask, first_query + warp + i * kWarps, first + lane);
          const A now = MaxOp::Combine(largest[i], WarpReduce<MaxOp>(score));
          const A base = now == kNothing ? A(0) : now;
          const A keep = largest[i] == kNothing ? A(0) : Exp(largest[i] - base);
          weights[i] = score == kNothing ? A(0) : Exp(score - base);
          totals[i] = totals[i] * keep + WarpReduce<SumOp>(weights[i]);
          for (A& sum : sums[i]) sum *= keep;
          largest[i] = now;
        }
        AddWeighted(weights, v, first, column, s.width, sums);
      }
      A factors[kOwn];
      for (int i = 0; i < kOwn; ++i) {
        const bool nothing = largest[i] == kNothing;
        const int64_t query = first_query + warp + i * kWarps;
        factors[i] = nothing ? A(0) : 1 / totals[i];
        if (lane == 0 && column == 0 && query < s.queries) {
          call.lse[head * s.queries + query] = nothing ? kNothing : largest[i] + Log(totals[i]);
        }
      }
      StoreSums(sums, factors, call.out + s.out.Offset(at.b, at.h, 0), s.out.row, first_query, s.queries, column,
                s.width);
    }
  }
}

// deltas has the sum of dout out for each query of each head. Eight lanes do each.
template <int kPack, class T>
__global__ void DeltaKernel(AttentionSizes s, int64_t heads, const T* out, const T* dout, Accumulator<T>* deltas) {
  using A = Accumulator<T>;
  constexpr int kLanes = kCudaThreads / kTile;
  const int64_t query = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const int64_t first = s.out.Offset(at.b, at.h, query);
    A delta = 0;
    for (int64_t i = lane * kPack; query < s.queries && i < s.width; i += kLanes * kPack) {
      const auto values = LoadPack<true, kPack>(out + first + i, kPack);
      const auto grads = LoadPack<true, kPack>(dout + first + i, kPack);
      for (int j = 0; j < kPack; ++j) delta += static_cast<A>(values.values[j]) * static_cast<A>(grads.values[j]);
    }
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) delta += __shfl_xor_sync(0xffffffffU, delta, lanes);
    if (lane == 0 && query < s.queries) deltas[head * s.queries + query] = delta;
  }
}

// Returns the probability of a pair. None is above 1: where a finite mask of 1e9 hides all keys, the forward pass may
// have rounded a score by 64 otherwise than here.
template <class T, class A = Accumulator<T>>
__device__ inline A ProbabilityOf(const AttentionSizes& s, const HeadPlace& at, A product, const T* mask, A lse,
                                  int64_t query, int64_t key) {
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  const A score = ScoreOf(s, at, product, mask, query, key);
  return score == kNothing || lse == kNothing ? A(0) : Exp(score < lse ? score - lse : A(0));
}

template <class T>
__global__ void GradQueryKernel(AttentionSizes s, AttentionBackward<T> call, const Accumulator<T>* deltas,
                                int64_t heads) {
  using A = Accumulator<T>;
  const int64_t first_query = static_cast<int64_t>(blockIdx.x) * kTile;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const auto q = at.Queries(s, call.q);
    const auto dout = at.Results(s, call.dout);
    const auto k = at.Keys(s, call.k);
    const auto v = at.Keys(s, call.v);
    const int64_t keys = s.KeysOf((first_query + kTile < s.queries ? first_query + kTile : s.queries) - 1);
    A lse[kOwn];
    A delta[kOwn];
    A factors[kOwn];
    for (int i = 0; i < kOwn; ++i) {
      const int64_t query = first_query + warp + i * kWarps;
      const bool there = query < s.queries;
      lse[i] = there ? call.lse[head * s.queries + query] : A(0);
      delta[i] = there ? deltas[head * s.queries + query] : A(0);
      factors[i] = static_cast<A>(s.scale);
    }
    for (int64_t column = 0; column < s.width; column += kColumns<A>) {
      A sums[kOwn][kColumns<A> / 32] = {};
      for (int64_t first = 0; first < keys; first += kTile) {
        A products[kOwn];
        A grads[kOwn];
        MultiplyRows(q, first_query, k, first, s.width, products);
        MultiplyRows(dout, first_query, v, first, s.width, grads);
        for (int i = 0; i < kOwn; ++i) {
          const int64_t query = first_query + warp + i * kWarps;
          grads[i] = ProbabilityOf(s, at, products[i], call.mask, lse[i], query, first + lane) * (grads[i] - delta[i]);
        }
        AddWeighted(grads, k, first, column, s.width, sums);
      }
      StoreSums(sums, factors, call.dq + s.q.Offset(at.b, at.h, 0), s.q.row, first_query, s.queries, column, s.width);
    }
  }
}

// Here a warp's rows are keys, and a lane has a query.
template <class T>
__global__ void GradKeyKernel(AttentionSizes s, AttentionBackward<T> call, const Accumulator<T>* deltas,
                              int64_t heads) {
  using A = Accumulator<T>;
  const int64_t first_key = static_cast<int64_t>(blockIdx.x) * kTile;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const auto q = at.Queries(s, call.q);
    const auto dout = at.Results(s, call.dout);
    const auto k = at.Keys(s, call.k);
    const auto v = at.Keys(s, call.v);
    const int64_t begin = s.causal ? first_key : 0;  // no query before it sees these keys
    for (int64_t column = 0; column < s.width; column += kColumns<A>) {
      A k_sums[kOwn][kColumns<A> / 32] = {};
      A v_sums[kOwn][kColumns<A> / 32] = {};
      for (int64_t first = begin; first < s.queries; first += kTile) {
        const int64_t query = first + lane;
        const bool there = query < s.queries;
        const A lse = there ? call.lse[head * s.queries + query] : A(0);
        const A delta = there ? deltas[head * s.queries + query] : A(0);
        A products[kOwn];
        A grads[kOwn];
        MultiplyRows(k, first_key, q, first, s.width, products);
        MultiplyRows(v, first_key, dout, first, s.width, grads);
        for (int i = 0; i < kOwn; ++i) {
          const int64_t key = first_key + warp + i * kWarps;
          products[i] = ProbabilityOf(s, at, products[i], call.mask, lse, query, key);
          grads[i] = products[i] * (grads[i] - delta);
        }
        AddWeighted(products, dout, first, column, s.width, v_sums);
        AddWeighted(grads, q, first, column, s.width, k_sums);
      }
      A factors[kOwn];
      for (A& factor : factors) factor = static_cast<A>(s.scale);
      StoreSums(k_sums, factors, call.dk + s.k.Offset(at.b, at.h, 0), s.k.row, first_key, s.keys, column, s.width);
      for (A& factor : factors) factor = 1;
      StoreSums(v_sums, factors, call.dv + s.k.Offset(at.b, at.h, 0), s.k.row, first_key, s.keys, column, s.width);
    }
  }
}

cuda::LaunchShape Blocks(int64_t rows, int64_t heads) {
  return {.blocks = cuda::CountBlocks(rows, kTile), .blocks_y = heads < 65535 ? heads : 65535, .threads = kCudaThreads};
}

}  // namespace

template <class T>
absl::Status AttentionCuda(const KernelContext& k, const AttentionSizes& s, const AttentionForward<T>& call) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (FitsTensorCores(s) && AllAligned(call.q, call.k, call.v, call.out)) return AttentionByTensorCores(k, s, call);
  }
  const int64_t heads = s.batch * s.heads;
  return k.cuda()->Launch(ForwardKernel<T>, Blocks(s.queries, heads), s, call, heads);
}

template <class T>
absl::Status AttentionGradCuda(const KernelContext& k, const AttentionSizes& s, const AttentionBackward<T>& call) {
  const int64_t heads = s.batch * s.heads;
  auto* deltas = k.workspace<Accumulator<T>>();
  const bool whole =
      (s.width | s.out.batch | s.out.head | s.out.row) % kCudaPack<T> == 0 && AllAligned(call.out, call.dout);
  SNUG_RETURN_IF_ERROR(k.cuda()->Launch(whole ? DeltaKernel<kCudaPack<T>, T> : DeltaKernel<1, T>,
                                        Blocks(s.queries, heads), s, heads, call.out, call.dout, deltas));
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (FitsTensorCores(s) && AllAligned(call.q, call.k, call.v, call.dout, call.dq, call.dk, call.dv)) {
      return AttentionGradByTensorCores(k, s, call, deltas);
    }
  }
  SNUG_RETURN_IF_ERROR(k.cuda()->Launch(GradQueryKernel<T>, Blocks(s.queries, heads), s, call, deltas, heads));
  return k.cuda()->Launch(GradKeyKernel<T>, Blocks(s.keys, heads), s, call, deltas, heads);
}

template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<float>&);
template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<BFloat16>&);
template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<double>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&, const AttentionBackward<float>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&,
                                        const AttentionBackward<BFloat16>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&, const AttentionBackward<double>&);

}  // namespace snug::core
