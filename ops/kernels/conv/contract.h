// Computes C[m, n] = sum over k of A(m, k) * B(k, n) for a number of groups. A and B are gathered by functions, so this
// serves the plain kernels of everything that is a matrix product under some indexing. Blocks of A and B are packed
// into panels on the stack, so the inner loop runs over contiguous vectors whatever the layout of the operands.
//
// Sums run over k in ascending order with one accumulator each, so the bits are the same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/parallel.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kit/isa.h"

namespace snug::core::ops {

inline constexpr int64_t kContractN = 32;  // columns of C in one block
inline constexpr int64_t kContractK = 128;

// A block of C has kPanel<Acc> rows, the lanes of the inner loop. The three functions are:
//
//   pack_a(group, m0, rows, k0, depth, panel)     sets panel[k * kPanel<Acc> + m] = A(m0 + m, k0 + k)
//   pack_b(group, k0, depth, n0, columns, panel)  sets panel[n * kContractK + k] = B(k0 + k, n0 + n)
//   store(group, m0, rows, n0, columns, c)        takes C(m0 + m, n0 + n) from c[n * kPanel<Acc> + m]
//
// pack_a writes all lanes; those from `rows` on may hold any number. The functions are called from several threads, for
// blocks that do not overlap in C.
template <class Acc, class PackA, class PackB, class Store>
void Contract(int threads, int64_t groups, int64_t m_size, int64_t n_size, int64_t k_size, const PackA& pack_a,
              const PackB& pack_b, const Store& store) {
  constexpr int64_t kRows = kPanel<Acc>;
  const int64_t m_blocks = (m_size + kRows - 1) / kRows;
  const int64_t n_blocks = (n_size + kContractN - 1) / kContractN;
  const int64_t block_work = kRows * std::min(n_size, kContractN) * k_size;
  const int64_t chunk = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(block_work, 1));
  ParallelFor(threads, groups * m_blocks * n_blocks, chunk, [&](int64_t begin, int64_t end) {
    alignas(64) Acc a[kContractK * kRows];
    alignas(64) Acc b[kContractN * kContractK];
    alignas(64) Acc c[kContractN * kRows];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t group = block / (m_blocks * n_blocks);
      const int64_t m0 = block / n_blocks % m_blocks * kRows;
      const int64_t n0 = block % n_blocks * kContractN;
      const int64_t rows = std::min(kRows, m_size - m0);
      const int64_t columns = std::min(kContractN, n_size - n0);
      if (k_size == 0) std::fill(std::begin(c), std::end(c), Acc(0));
      for (int64_t k0 = 0; k0 < k_size; k0 += kContractK) {
        const int64_t depth = std::min(kContractK, k_size - k0);
        pack_a(group, m0, rows, k0, depth, static_cast<Acc*>(a));
        pack_b(group, k0, depth, n0, columns, static_cast<Acc*>(b));
        WithIsa([&](auto isa) SNUG_LAMBDA {
          MultiplyPanel(isa, columns, depth, StridedMatrix<Acc>{b, kContractK, 1}, static_cast<const Acc*>(a),
                        static_cast<Acc*>(c), kRows, /*accumulate=*/k0 > 0);
        });
      }
      store(group, m0, rows, n0, columns, static_cast<const Acc*>(c));
    }
  });
}

}  // namespace snug::core::ops
