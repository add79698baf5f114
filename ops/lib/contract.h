// C[m, n] = sum over k of A(m, k) * B(k, n), for each of some groups, where A and B are gathered by functions: the
// plain kernels of everything that is a matrix product under some indexing. Blocks of A and B are packed into panels on
// the stack, so the inner loop runs over contiguous vectors whatever the layout of the operands.
//
// Sums run over k in ascending order, one accumulator each: the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"
#include "ops/lib/isa.h"

namespace snug::ops {

inline constexpr int64_t kContractM = 32;  // lanes: rows of C in one panel
inline constexpr int64_t kContractN = 32;  // columns of C in one panel
inline constexpr int64_t kContractK = 128;

namespace internal {

// c[n][m] += sum over k of a[k][m] * b[n][k], in registers for four columns at a time; columns is a multiple of 4.
template <class Acc>
SNUG_INLINE void MultiplyPanels(const Acc* a, const Acc* b, int64_t columns, int64_t depth, Acc* c) {
  constexpr int64_t kLanes = 64 / sizeof(Acc);
  constexpr int64_t kVectors = kContractM / kLanes;
  using Vector __attribute__((vector_size(64), aligned(64))) = Acc;
  constexpr int64_t kColumns = 4;
  for (int64_t n = 0; n < columns; n += kColumns) {
    Vector sums[kColumns][kVectors];
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t v = 0; v < kVectors; ++v) std::memcpy(&sums[j][v], c + (n + j) * kContractM + v * kLanes, 64);
    }
    for (int64_t k = 0; k < depth; ++k) {
      Vector rows[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) std::memcpy(&rows[v], a + k * kContractM + v * kLanes, 64);
      for (int64_t j = 0; j < kColumns; ++j) {
        const Acc factor = b[(n + j) * kContractK + k];
        for (int64_t v = 0; v < kVectors; ++v) sums[j][v] += rows[v] * factor;
      }
    }
    for (int64_t j = 0; j < kColumns; ++j) {
      for (int64_t v = 0; v < kVectors; ++v) std::memcpy(c + (n + j) * kContractM + v * kLanes, &sums[j][v], 64);
    }
  }
}

}  // namespace internal

// pack_a(group, m0, rows, k0, depth, panel): panel[k * kContractM + m] = A(m0 + m, k0 + k) in all lanes; those from
// `rows` on may hold any number. pack_b(group, k0, depth, n0, columns, panel): panel[n * kContractK + k] =
// B(k0 + k, n0 + n). store(group, m0, rows, n0, columns, c): takes C(m0 + m, n0 + n) from c[n * kContractM + m].
// All three are called from several threads, for blocks that do not overlap in C.
template <class Acc, class PackA, class PackB, class Store>
void Contract(int threads, int64_t groups, int64_t m_size, int64_t n_size, int64_t k_size, const PackA& pack_a,
              const PackB& pack_b, const Store& store) {
  const int64_t m_blocks = (m_size + kContractM - 1) / kContractM;
  const int64_t n_blocks = (n_size + kContractN - 1) / kContractN;
  const int64_t block_work = kContractM * std::min(n_size, kContractN) * k_size;
  const int64_t chunk = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(block_work, 1));
  ParallelFor(threads, groups * m_blocks * n_blocks, chunk, [&](int64_t begin, int64_t end) {
    alignas(64) Acc a[kContractK * kContractM];
    alignas(64) Acc b[kContractN * kContractK];
    alignas(64) Acc c[kContractN * kContractM];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t group = block / (m_blocks * n_blocks);
      const int64_t m0 = block / n_blocks % m_blocks * kContractM;
      const int64_t n0 = block % n_blocks * kContractN;
      const int64_t rows = std::min(kContractM, m_size - m0);
      const int64_t columns = std::min(kContractN, n_size - n0);
      const int64_t whole_columns = (columns + 3) / 4 * 4;
      std::fill(c, c + whole_columns * kContractM, Acc(0));
      for (int64_t k0 = 0; k0 < k_size; k0 += kContractK) {
        const int64_t depth = std::min(kContractK, k_size - k0);
        pack_a(group, m0, rows, k0, depth, static_cast<Acc*>(a));
        pack_b(group, k0, depth, n0, columns, static_cast<Acc*>(b));
        for (int64_t n = columns; n < whole_columns; ++n) std::fill_n(b + n * kContractK, depth, Acc(0));
        WithIsa([&]() SNUG_LAMBDA {
          internal::MultiplyPanels(static_cast<const Acc*>(a), static_cast<const Acc*>(b), whole_columns, depth,
                                   static_cast<Acc*>(c));
        });
      }
      store(group, m0, rows, n0, columns, static_cast<const Acc*>(c));
    }
  });
}

}  // namespace snug::ops
