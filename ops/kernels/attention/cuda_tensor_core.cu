// Attention of bfloat16 by tensor cores (Dao 2023, FlashAttention-2). A block of four warps works for 64 queries
// (backward, also for 64 keys); each warp has 16 of them, whose numbers it holds in registers as the left factor of all
// products. The other side passes by in tiles in shared memory; while one is worked at, the next is copied. Scores and
// sums are float32, and never leave the registers: rounded, they are the left factor of the next product.
//
// Each gradient has a block that sums it in order, so the bits are always the same. That takes seven products in place
// of five.
#include <limits>
#include <type_traits>

#include "engine/base/status.h"
#include "ops/kernels/attention/attention.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/cuda/tensor_core.h"

namespace snug::core {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;      // of a block
constexpr int kWarpRows = 16;  // of a warp
constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 16 bytes of a row. The chunks of a tile in shared memory are permuted within each row, so that the 8 rows of a matrix
// are in different banks.
using Chunk = CudaPack<uint16_t, 8>;

template <int kWidth>
__device__ inline int ChunkAt(int row, int chunk) {
  return row * (kWidth / 8) + (chunk ^ (row % 8));
}

// So many rows a tile has that it takes 8 KiB.
template <int kWidth>
constexpr int kTileRows = 4096 / kWidth;
template <int kWidth>
using Tile = Chunk[kTileRows<kWidth> * kWidth / 8];

struct Lane {
  int row, column;         // where the lane's first number of a [16, 8] tile of products is
  int matrix, matrix_row;  // which row of which matrix it points at for LoadMatrices
  __device__ Lane() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    row = lane / 4;
    column = lane % 4 * 2;
    matrix = lane / 8;
    matrix_row = lane % 8;
  }
};

// Begins to copy rows `first` on to a tile. Where there are none, and beyond the width, it becomes 0.
template <int kWidth>
__device__ inline void CopyTile(const BFloat16* from, int64_t stride, int first, int rows, int width,
                                Tile<kWidth>& to) {
  constexpr int kChunks = kWidth / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows<kWidth> * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const bool there = first + row < rows && chunk * 8 < width;
    CopyAsync16(&to[ChunkAt<kWidth>(row, chunk)], there ? from + (first + row) * stride + chunk * 8 : from, there);
  }
}

// A warp's rows, as the left factor of products.
template <int kWidth>
struct LeftRows {
  uint32_t parts[kWidth / 16][4];

  __device__ LeftRows(const BFloat16* from, int64_t stride, int first, int rows, int width) {
    const Lane lane;
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) {
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const int row = first + lane.row + p % 2 * 8;
        const int column = k * 16 + p / 2 * 8 + lane.column;
        parts[k][p] =
            row < rows && column < width ? *reinterpret_cast<const uint32_t*>(from + row * stride + column) : 0;
      }
    }
  }
};

// products[16, kCount] = rows times the transpose of kCount rows of a tile.
template <int kWidth, int kCount>
__device__ inline void TimesTransposed(const LeftRows<kWidth>& left, const Chunk* tile,
                                       float (&products)[kCount / 8][4]) {
  const Lane lane;
#pragma unroll
  for (int n = 0; n < kCount / 16; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) products[2 * n][i] = products[2 * n + 1][i] = 0;
#pragma unroll
    for (int k = 0; k < kWidth / 16; ++k) {
      uint32_t right[4];
      LoadMatrices(&tile[ChunkAt<kWidth>(n * 16 + lane.matrix / 2 * 8 + lane.matrix_row, k * 2 + lane.matrix % 2)],
                   right);
      MultiplyAdd(products[2 * n], left.parts[k], right[0], right[1]);
      MultiplyAdd(products[2 * n + 1], left.parts[k], right[2], right[3]);
    }
  }
}

// sums[16, kWidth] += left[16, kCount], which products of float32 are rounded to, times kCount rows of a tile.
template <int kWidth, int kCount>
__device__ inline void AddTimes(const float (&left)[kCount / 8][4], const Chunk* tile, float (&sums)[kWidth / 8][4]) {
  const Lane lane;
#pragma unroll
  for (int k = 0; k < kCount / 16; ++k) {
    const uint32_t parts[4] = {PairOf(left[2 * k][0], left[2 * k][1]), PairOf(left[2 * k][2], left[2 * k][3]),
                               PairOf(left[2 * k + 1][0], left[2 * k + 1][1]),
                               PairOf(left[2 * k + 1][2], left[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      uint32_t right[4];
      LoadMatricesTransposed(
          &tile[ChunkAt<kWidth>(k * 16 + lane.matrix % 2 * 8 + lane.matrix_row, n * 2 + lane.matrix / 2)], right);
      MultiplyAdd(sums[2 * n], parts, right[0], right[1]);
      MultiplyAdd(sums[2 * n + 1], parts, right[2], right[3]);
    }
  }
}

// Writes a warp's rows, multiplied by a factor for the upper and one for the lower half.
template <int kWidth>
__device__ inline void StoreRows(const float (&sums)[kWidth / 8][4], const float (&factor)[2], BFloat16* to,
                                 int64_t stride, int first, int rows, int width) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane.row + half * 8;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const int column = n * 8 + lane.column;
      if (column >= width) continue;
      *reinterpret_cast<uint32_t*>(to + row * stride + column) =
          PairOf(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
    }
  }
}

// Where a head lies.
struct Place {
  int64_t b, h, q, k, out;
  __device__ Place(const AttentionSizes& s, int64_t head)
      : b(static_cast<uint32_t>(head) / static_cast<uint32_t>(s.heads)),
        h(static_cast<uint32_t>(head) % static_cast<uint32_t>(s.heads)),
        q(s.q.Offset(b, h, 0)),
        k(s.k.Offset(b, h, 0)),
        out(s.out.Offset(b, h, 0)) {}
};

// What a query sees. Lengths have 32 bits here.
template <bool kMasked>
struct Sight {
  const BFloat16* mask;  // of the head
  int mask_row, mask_column;
  int queries, keys;
  bool causal;

  __device__ Sight(const AttentionSizes& s, const Place& at, const BFloat16* all)
      : mask(all + at.b * s.mask[0] + at.h * s.mask[1]),
        mask_row(static_cast<int>(s.mask[2])),
        mask_column(static_cast<int>(s.mask[3])),
        queries(static_cast<int>(s.queries)),
        keys(static_cast<int>(s.keys)),
        causal(s.causal) {}
  __device__ int KeysOf(int query) const { return causal && query + 1 < keys ? query + 1 : keys; }
  // Whether a query, and so all after it, see all keys up to this one, as they are.
  __device__ bool SeesAll(int query, int end) const { return !kMasked && end <= KeysOf(query); }
  // Returns a score, a power of 2, as the query sees it.
  __device__ float See(float score, int query, int key) const {
    if (query >= queries || key >= KeysOf(query)) return -kInfinity;
    if constexpr (kMasked) {
      const auto added = static_cast<float>(mask[query * mask_row + key * mask_column]);
      // The least numbers there are, which stand for -infinity in many programs, stay numbers as powers of 2.
      score += added > -kInfinity ? fmaxf(added * kLog2E, std::numeric_limits<float>::lowest()) : added;
    }
    return score;
  }
};

// The probability of a score less the logarithm of its row's sum. That is at most 0 but for rounding, which is much
// where a mask has made scores large: the two were rounded differently if the compiler has merged a product with a sum.
__device__ inline float Probability(float power) { return FastExp2(power > 0 ? 0.0F : power); }

// Adds the four lanes that share a row, or takes their largest.
__device__ inline float SumOfRow(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}
__device__ inline float LargestOfRow(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

// Blocks are begun in the sequence of their numbers: those that have most to do come first.
__device__ inline int FirstQuery(const AttentionSizes& s) {
  return static_cast<int>(s.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * kRows;
}

template <int kWidth, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(AttentionSizes s, AttentionForward<BFloat16> call, int64_t heads) {
  constexpr int kKeys = kTileRows<kWidth>;
  __shared__ Tile<kWidth> k_tiles[2];
  __shared__ Tile<kWidth> v_tiles[2];
  const Lane lane;
  const int first_query = FirstQuery(s);
  const int own_query = first_query + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const auto scale = static_cast<float>(s.scale) * kLog2E;
  const auto width = static_cast<int>(s.width);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const Place at(s, head);
    const Sight<kMasked> sight(s, at, call.mask);
    const int keys = sight.KeysOf(sight.queries - first_query < kRows ? sight.queries - 1 : first_query + kRows - 1);
    const auto copy = [&](int first) {
      const int buffer = first / kKeys % 2;
      CopyTile<kWidth>(call.k + at.k, s.k.row, first, sight.keys, width, k_tiles[buffer]);
      CopyTile<kWidth>(call.v + at.k, s.k.row, first, sight.keys, width, v_tiles[buffer]);
      CommitCopies();
    };
    copy(0);
    const LeftRows<kWidth> q(call.q + at.q, s.q.row, own_query, sight.queries, width);
    float sums[kWidth / 8][4] = {};
    float largest[2] = {-kInfinity, -kInfinity};  // scores are powers of 2
    float totals[2] = {0, 0};                     // of this lane's columns
    for (int first = 0; first < keys; first += kKeys) {
      if (first + kKeys < keys) {
        copy(first + kKeys);
        WaitForCopies<1>();
      } else {
        WaitForCopies<0>();
      }
      __syncthreads();
      const int buffer = first / kKeys % 2;
      float scores[kKeys / 8][4];
      TimesTransposed<kWidth, kKeys>(q, k_tiles[buffer], scores);
      const bool all = sight.SeesAll(own_query, first + kKeys);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float tile_largest = -kInfinity;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[n][i] *= scale;
            if (!all) {
              scores[n][i] =
                  sight.See(scores[n][i], own_query + lane.row + half * 8, first + n * 8 + lane.column + i % 2);
            }
            tile_largest = fmaxf(tile_largest, scores[n][i]);
          }
        }
        const float now = fmaxf(largest[half], LargestOfRow(tile_largest));
        const float base = now == -kInfinity ? 0 : now;
        const float keep = FastExp2(largest[half] - base);
        largest[half] = now;
        totals[half] *= keep;
#pragma unroll
        for (int n = 0; n < kWidth / 8; ++n) {
          sums[n][2 * half] *= keep;
          sums[n][2 * half + 1] *= keep;
        }
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[n][i] = FastExp2(scores[n][i] - base);
            totals[half] += scores[n][i];
          }
        }
      }
      AddTimes<kWidth, kKeys>(scores, v_tiles[buffer], sums);
      __syncthreads();
    }
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = SumOfRow(totals[half]);
      const bool nothing = largest[half] == -kInfinity;
      factors[half] = nothing ? 0 : 1 / total;
      const int query = own_query + lane.row + half * 8;
      if (lane.column == 0 && query < sight.queries) {
        call.lse[head * s.queries + query] = nothing ? -kInfinity : (largest[half] + log2f(total)) * kLn2;
      }
    }
    StoreRows<kWidth>(sums, factors, call.out + at.out, s.out.row, own_query, sight.queries, width);
  }
}

// What makes a probability of a score, as a power of 2; where a query sees nothing, or there is none, it makes 0.
__device__ inline float Exponent(float lse) { return lse == -kInfinity ? kInfinity : lse * kLog2E; }

// dq = scale ds k, where ds = p (dout v^T - delta).
template <int kWidth, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    GradQueryKernel(AttentionSizes s, AttentionBackward<BFloat16> call, const float* deltas, int64_t heads) {
  constexpr int kKeys = kTileRows<kWidth>;
  __shared__ Tile<kWidth> k_tiles[2];
  __shared__ Tile<kWidth> v_tiles[2];
  const Lane lane;
  const int first_query = FirstQuery(s);
  const int own_query = first_query + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const auto scale = static_cast<float>(s.scale);
  const auto width = static_cast<int>(s.width);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const Place at(s, head);
    const Sight<kMasked> sight(s, at, call.mask);
    const int keys = sight.KeysOf(sight.queries - first_query < kRows ? sight.queries - 1 : first_query + kRows - 1);
    const auto copy = [&](int first) {
      const int buffer = first / kKeys % 2;
      CopyTile<kWidth>(call.k + at.k, s.k.row, first, sight.keys, width, k_tiles[buffer]);
      CopyTile<kWidth>(call.v + at.k, s.k.row, first, sight.keys, width, v_tiles[buffer]);
      CommitCopies();
    };
    copy(0);
    const LeftRows<kWidth> q(call.q + at.q, s.q.row, own_query, sight.queries, width);
    const LeftRows<kWidth> dout(call.dout + at.out, s.out.row, own_query, sight.queries, width);
    float exponent[2];
    float delta[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = own_query + lane.row + half * 8;
      const bool there = query < sight.queries;
      exponent[half] = there ? Exponent(call.lse[head * s.queries + query]) : kInfinity;
      delta[half] = there ? deltas[head * s.queries + query] : 0;
    }
    float sums[kWidth / 8][4] = {};
    for (int first = 0; first < keys; first += kKeys) {
      if (first + kKeys < keys) {
        copy(first + kKeys);
        WaitForCopies<1>();
      } else {
        WaitForCopies<0>();
      }
      __syncthreads();
      const int buffer = first / kKeys % 2;
      float scores[kKeys / 8][4];
      float grads[kKeys / 8][4];
      TimesTransposed<kWidth, kKeys>(q, k_tiles[buffer], scores);
      TimesTransposed<kWidth, kKeys>(dout, v_tiles[buffer], grads);
      const bool all = sight.SeesAll(own_query, first + kKeys);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float power = scores[n][i] * (scale * kLog2E) - exponent[i / 2];
          if (!all) {
            power = sight.See(power, own_query + lane.row + i / 2 * 8, first + n * 8 + lane.column + i % 2);
          }
          grads[n][i] = Probability(power) * (grads[n][i] - delta[i / 2]);
        }
      }
      if constexpr (kMasked) __syncwarp();  // lanes may have read the mask at different times
      AddTimes<kWidth, kKeys>(grads, k_tiles[buffer], sums);
      __syncthreads();
    }
    StoreRows<kWidth>(sums, {scale, scale}, call.dq + at.q, s.q.row, own_query, sight.queries, width);
  }
}

// dv = p^T dout and dk = scale ds^T q. Here the rows are keys, and tiles of queries pass by.
template <int kWidth, bool kMasked>
__global__ void __launch_bounds__(kThreads)
    GradKeyKernel(AttentionSizes s, AttentionBackward<BFloat16> call, const float* deltas, int64_t heads) {
  constexpr int kQueries = kTileRows<kWidth>;
  constexpr int kOnce = kQueries / 2;  // so many at a time, which leaves registers for the sums
  __shared__ Tile<kWidth> q_tiles[2];
  __shared__ Tile<kWidth> dout_tiles[2];
  __shared__ float exponents[2][kQueries];
  __shared__ float delta_tiles[2][kQueries];
  const Lane lane;
  const int first_key = static_cast<int>(blockIdx.x) * kRows;
  const int own_key = first_key + static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const auto scale = static_cast<float>(s.scale);
  const auto width = static_cast<int>(s.width);
  for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
    const Place at(s, head);
    const Sight<kMasked> sight(s, at, call.mask);
    const auto copy = [&](int first) {
      const int buffer = first / kQueries % 2;
      CopyTile<kWidth>(call.q + at.q, s.q.row, first, sight.queries, width, q_tiles[buffer]);
      CopyTile<kWidth>(call.dout + at.out, s.out.row, first, sight.queries, width, dout_tiles[buffer]);
      CommitCopies();
      const auto i = static_cast<int>(threadIdx.x);
      if (i >= kQueries) return;
      const bool there = first + i < sight.queries;
      exponents[buffer][i] = there ? Exponent(call.lse[head * s.queries + first + i]) : kInfinity;
      delta_tiles[buffer][i] = there ? deltas[head * s.queries + first + i] : 0;
    };
    const int begin = s.causal ? first_key / kQueries * kQueries : 0;  // no query before it sees these keys
    if (begin < sight.queries) copy(begin);
    const LeftRows<kWidth> k(call.k + at.k, s.k.row, own_key, sight.keys, width);
    const LeftRows<kWidth> v(call.v + at.k, s.k.row, own_key, sight.keys, width);
    float dk[kWidth / 8][4] = {};
    float dv[kWidth / 8][4] = {};
    for (int first = begin; first < sight.queries; first += kQueries) {
      if (first + kQueries < sight.queries) {
        copy(first + kQueries);
        WaitForCopies<1>();
      } else {
        WaitForCopies<0>();
      }
      __syncthreads();
      const int buffer = first / kQueries % 2;
#pragma unroll 1
      for (int part = 0; part < kQueries; part += kOnce) {
        const Chunk* q_tile = q_tiles[buffer] + part * kWidth / 8;
        const Chunk* dout_tile = dout_tiles[buffer] + part * kWidth / 8;
        float scores[kOnce / 8][4];
        float grads[kOnce / 8][4];
        TimesTransposed<kWidth, kOnce>(k, q_tile, scores);
        TimesTransposed<kWidth, kOnce>(v, dout_tile, grads);
        const bool all = sight.SeesAll(first + part, own_key + kWarpRows);
#pragma unroll
        for (int n = 0; n < kOnce / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int column = part + n * 8 + lane.column + i % 2;
            float power = scores[n][i] * (scale * kLog2E) - exponents[buffer][column];
            if (!all) power = sight.See(power, first + column, own_key + lane.row + i / 2 * 8);
            scores[n][i] = Probability(power);
            grads[n][i] = scores[n][i] * (grads[n][i] - delta_tiles[buffer][column]);
          }
        }
        if constexpr (kMasked) __syncwarp();
        AddTimes<kWidth, kOnce>(scores, dout_tile, dv);
        AddTimes<kWidth, kOnce>(grads, q_tile, dk);
      }
      __syncthreads();
    }
    StoreRows<kWidth>(dk, {scale, scale}, call.dk + at.k, s.k.row, own_key, sight.keys, width);
    StoreRows<kWidth>(dv, {1, 1}, call.dv + at.k, s.k.row, own_key, sight.keys, width);
  }
}

cuda::LaunchShape BlocksFor(int64_t rows, int64_t heads) {
  return {.blocks = cuda::CountBlocks(rows, kRows), .blocks_y = heads < 65535 ? heads : 65535, .threads = kThreads};
}

}  // namespace

absl::Status AttentionByTensorCores(const KernelContext& k, const AttentionSizes& s,
                                    const AttentionForward<BFloat16>& call) {
  const int64_t heads = s.batch * s.heads;
  const auto kernel = [&]<bool kMasked>(std::bool_constant<kMasked>) {
    return s.width <= 64 ? ForwardKernel<64, kMasked> : ForwardKernel<128, kMasked>;
  };
  return k.cuda()->Launch(call.mask != nullptr ? kernel(std::true_type()) : kernel(std::false_type()),
                          BlocksFor(s.queries, heads), s, call, heads);
}

absl::Status AttentionGradByTensorCores(const KernelContext& k, const AttentionSizes& s,
                                        const AttentionBackward<BFloat16>& call, const float* deltas) {
  const int64_t heads = s.batch * s.heads;
  const auto run = [&]<int kWidth, bool kMasked>(std::integral_constant<int, kWidth>,
                                                 std::bool_constant<kMasked>) -> absl::Status {
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(GradQueryKernel<kWidth, kMasked>, BlocksFor(s.queries, heads), s, call, deltas, heads));
    return k.cuda()->Launch(GradKeyKernel<kWidth, kMasked>, BlocksFor(s.keys, heads), s, call, deltas, heads);
  };
  const auto with = [&](auto masked) {
    return s.width <= 64 ? run(std::integral_constant<int, 64>(), masked)
                         : run(std::integral_constant<int, 128>(), masked);
  };
  return call.mask != nullptr ? with(std::true_type()) : with(std::false_type());
}

}  // namespace snug::core
