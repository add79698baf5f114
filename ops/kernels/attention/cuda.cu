// Attention by CUDA kernels of our own. One block of threads works for a query (backward, also one for a key) and goes
// along the keys (the queries) a tile at a time: first each thread works out the probability of one pair, then each
// thread adds up one column of the result. The forward pass keeps the largest score so far; where a larger one comes,
// it scales down what was added up before (Milakov and Gimelshein 2018, the online softmax).
#include <limits>

#include "ops/kernels/attention/attention.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_reduce.h"
#include "ops/kit/vec_math.h"

namespace snug::core {
namespace {

constexpr int kTile = 128;  // threads in a block, pairs that are done at once, and columns of a result

template <class T>
__device__ Accumulator<T> Dot(const T* a, const T* b, int64_t n) {
  using A = Accumulator<T>;
  A sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<A>(a[i]) * static_cast<A>(b[i]);
  return sum;
}

// The number of one head, as its batch and its head there.
struct HeadPlace {
  int64_t b, h;
  __device__ HeadPlace(const AttentionSizes& s, int64_t head) : b(head / s.heads), h(head % s.heads) {}
};

template <class T>
__device__ Accumulator<T> Score(const AttentionSizes& s, const HeadPlace& at, const T* q, const T* k, const T* mask,
                                int64_t query, int64_t key) {
  using A = Accumulator<T>;
  const T* row = q + s.q.Offset(at.b, at.h, query);
  const A score = static_cast<A>(s.scale) * Dot(row, k + s.k.Offset(at.b, at.h, key), s.width);
  if (mask == nullptr) return score;
  return score + static_cast<A>(mask[at.b * s.mask[0] + at.h * s.mask[1] + query * s.mask[2] + key * s.mask[3]]);
}

// Block x works for query x; y and z go along the heads.
template <class T>
__global__ void AttentionKernel(AttentionSizes s, AttentionForward<T> call, int64_t heads) {
  using A = Accumulator<T>;
  constexpr A kNothing = -std::numeric_limits<A>::infinity();
  __shared__ A probability[kTile];
  const int64_t query = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const int64_t keys = s.KeysOf(query);
    const T* v = call.v + s.k.Offset(at.b, at.h, 0);
    T* out = call.out + s.out.Offset(at.b, at.h, query);
    for (int64_t begin = 0; begin < s.width; begin += kTile) {
      const int64_t column = begin + thread;
      A largest = kNothing;
      A total = 0;  // the sum of the probabilities, before they are scaled to 1
      A sum = 0;    // the sum of this thread's column
      for (int64_t first = 0; first < keys; first += kTile) {
        const int64_t key = first + thread;
        const A score = key < keys ? Score(s, at, call.q, call.k, call.mask, query, key) : kNothing;
        const A tile_largest = BlockReduce<MaxOp>(score);
        const A now = MaxOp::Combine(largest, tile_largest);
        if (now == kNothing) continue;
        const A own = score == kNothing ? A(0) : Exp(score - now);
        probability[thread] = own;
        const A tile_total = BlockReduce<SumOp>(own);  // this also waits until all probabilities are written
        const A keep = largest == kNothing ? A(0) : Exp(largest - now);
        total = total * keep + tile_total;
        sum *= keep;
        largest = now;
        if (column < s.width) {
          const int64_t count = keys - first < kTile ? keys - first : kTile;
          for (int64_t j = 0; j < count; ++j) {
            sum += probability[j] * static_cast<A>(v[(first + j) * s.k.row + column]);
          }
        }
        __syncthreads();
      }
      if (column < s.width) out[column] = static_cast<T>(largest == kNothing ? A(0) : sum / total);
      if (column == 0) {
        call.lse[head * s.queries + query] = largest == kNothing ? kNothing : largest + Log(total);
      }
    }
  }
}

// The probability of a pair, and the gradient with respect to its score before scaling.
template <class T>
struct PairGrad {
  Accumulator<T> probability, score;
};

template <class T>
__device__ PairGrad<T> GradOfPair(const AttentionSizes& s, const AttentionBackward<T>& call, const HeadPlace& at,
                                  int64_t query, int64_t key) {
  using A = Accumulator<T>;
  const A lse = call.lse[(at.b * s.heads + at.h) * s.queries + query];
  if (lse == -std::numeric_limits<A>::infinity()) return {A(0), A(0)};  // this query sees nothing
  const A probability = Exp(Score(s, at, call.q, call.k, call.mask, query, key) - lse);
  const int64_t row = s.out.Offset(at.b, at.h, query);
  const A difference = Dot(call.dout + row, call.v + s.k.Offset(at.b, at.h, key), s.width) -
                       Dot(call.dout + row, call.out + row, s.width);
  return {probability, probability * static_cast<A>(s.scale) * difference};
}

template <class T>
__global__ void AttentionGradQueryKernel(AttentionSizes s, AttentionBackward<T> call, int64_t heads) {
  using A = Accumulator<T>;
  __shared__ A grads[kTile];
  const int64_t query = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const int64_t keys = s.KeysOf(query);
    const T* k = call.k + s.k.Offset(at.b, at.h, 0);
    for (int64_t begin = 0; begin < s.width; begin += kTile) {
      const int64_t column = begin + thread;
      A sum = 0;
      for (int64_t first = 0; first < keys; first += kTile) {
        if (first + thread < keys) grads[thread] = GradOfPair(s, call, at, query, first + thread).score;
        __syncthreads();
        const int64_t count = keys - first < kTile ? keys - first : kTile;
        if (column < s.width) {
          for (int64_t j = 0; j < count; ++j) sum += grads[j] * static_cast<A>(k[(first + j) * s.k.row + column]);
        }
        __syncthreads();
      }
      if (column < s.width) call.dq[s.q.Offset(at.b, at.h, query) + column] = static_cast<T>(sum);
    }
  }
}

template <class T>
__global__ void AttentionGradKeyKernel(AttentionSizes s, AttentionBackward<T> call, int64_t heads) {
  using A = Accumulator<T>;
  __shared__ A grads[kTile];
  __shared__ A probabilities[kTile];
  const int64_t key = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const HeadPlace at(s, head);
    const T* q = call.q + s.q.Offset(at.b, at.h, 0);
    const T* dout = call.dout + s.out.Offset(at.b, at.h, 0);
    for (int64_t begin = 0; begin < s.width; begin += kTile) {
      const int64_t column = begin + thread;
      A k_sum = 0;
      A v_sum = 0;
      for (int64_t first = s.causal ? key : 0; first < s.queries; first += kTile) {
        if (first + thread < s.queries) {
          const PairGrad<T> pair = GradOfPair(s, call, at, first + thread, key);
          grads[thread] = pair.score;
          probabilities[thread] = pair.probability;
        }
        __syncthreads();
        const int64_t count = s.queries - first < kTile ? s.queries - first : kTile;
        if (column < s.width) {
          for (int64_t i = 0; i < count; ++i) {
            k_sum += grads[i] * static_cast<A>(q[(first + i) * s.q.row + column]);
            v_sum += probabilities[i] * static_cast<A>(dout[(first + i) * s.out.row + column]);
          }
        }
        __syncthreads();
      }
      if (column < s.width) {
        const int64_t j = s.k.Offset(at.b, at.h, key) + column;
        call.dk[j] = static_cast<T>(k_sum);
        call.dv[j] = static_cast<T>(v_sum);
      }
    }
  }
}

cuda::LaunchShape Blocks(int64_t rows, int64_t heads) {
  return {.blocks = rows, .blocks_y = heads < 65535 ? heads : 65535, .threads = kTile};
}

}  // namespace

template <class T>
absl::Status AttentionCuda(const KernelContext& k, const AttentionSizes& s, const AttentionForward<T>& call) {
  const int64_t heads = s.batch * s.heads;
  return k.cuda()->Launch(AttentionKernel<T>, Blocks(s.queries, heads), s, call, heads);
}

template <class T>
absl::Status AttentionGradCuda(const KernelContext& k, const AttentionSizes& s, const AttentionBackward<T>& call) {
  const int64_t heads = s.batch * s.heads;
  SNUG_RETURN_IF_ERROR(k.cuda()->Launch(AttentionGradQueryKernel<T>, Blocks(s.queries, heads), s, call, heads));
  return k.cuda()->Launch(AttentionGradKeyKernel<T>, Blocks(s.keys, heads), s, call, heads);
}

template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<float>&);
template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<BFloat16>&);
template absl::Status AttentionCuda(const KernelContext&, const AttentionSizes&, const AttentionForward<double>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&, const AttentionBackward<float>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&,
                                        const AttentionBackward<BFloat16>&);
template absl::Status AttentionGradCuda(const KernelContext&, const AttentionSizes&, const AttentionBackward<double>&);

}  // namespace snug::core
