#include "ops/kernels/matmul/split_gemm.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/matmul/finish.h"
#include "ops/kernels/matmul/grid.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

#if defined(__x86_64__) && defined(__linux__)
#define SNUG_SPLITS 1
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false alarm in GCC 12's own header (GCC bug 105593)
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#else
#define SNUG_SPLITS 0
#endif

namespace snug::core {
namespace split_gemm {
namespace {

constexpr int64_t kRows = 32, kColumns = 32;  // of c, in the registers
constexpr Grid::Units kUnits = {kRows, kColumns};
constexpr int64_t kBlockRows = 384;   // a block's strips stay in the second-level cache
constexpr int64_t kPieceDepth = 512;  // of k
constexpr int64_t kStep = 32;         // numbers along k that a tile has
constexpr int kPieces = 3;
constexpr int64_t kTileBytes = 1024;                   // 16 lines of 32 numbers of bfloat16
constexpr int64_t kPieceBytes = 2 * kTileBytes;        // of two tiles, one above or beside the other
constexpr int64_t kStepBytes = kPieces * kPieceBytes;  // of a strip or panel
constexpr int64_t kLanes = 16;

// Of fewer rows, what packing b takes is not made up for.
constexpr int64_t kLeastRows = 64, kLeastColumns = 64, kLeastDepth = 64;
constexpr int64_t kLeastProduct = 1 << 23;  // multiply-adds

// How a thread's part of c is cut, and what that takes. It is cut alike for all threads.
struct Blocks {
  Blocks(const Grid& grid, int64_t k)
      : rows(EqualPart(grid.part_rows(), kBlockRows, kRows)), depth(EqualPart(k, kPieceDepth, kStep)) {}
  int64_t strips_bytes() const { return rows / kRows * (depth / kStep) * kStepBytes; }
  int64_t panel_bytes() const { return depth / kStep * kStepBytes; }
  int64_t bytes() const { return strips_bytes() + 2 * panel_bytes(); }
  int64_t rows, depth;  // of a block of c, and of a piece along k
};

#if SNUG_SPLITS

#define SNUG_TARGET_AMX \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,avx2,fma")))
#define SNUG_INLINE_AMX SNUG_TARGET_AMX __attribute__((always_inline)) inline

// ---- packing ----

// 32 numbers, or what is left of them when pieces have been taken off.
struct Numbers {
  __m512 low, high;
};

// Returns their next pieces, one after the other.
SNUG_INLINE_AMX __m512i RoundBoth(const Numbers& x) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x.high, x.low));
}

// Writes the pieces of 32 numbers along k, of one line: each piece is a row of its tile.
SNUG_INLINE_AMX void SplitLine(Numbers x, char* row) {
  for (int piece = 0;; ++piece) {
    const __m512i rounded = RoundBoth(x);
    _mm512_storeu_si512(row + piece * kPieceBytes, rounded);
    if (piece + 1 == kPieces) return;
    const __m512i low = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(rounded)), 16);
    const __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(rounded, 1)), 16);
    x = {_mm512_sub_ps(x.low, _mm512_castsi512_ps(low)), _mm512_sub_ps(x.high, _mm512_castsi512_ps(high))};
  }
}

// Writes the pieces of the numbers of 16 lines at two neighbouring places along k, as pairs.
SNUG_INLINE_AMX void SplitPairs(Numbers x, char* row) {
  const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  for (int piece = 0;; ++piece) {
    const __m512i rounded = _mm512_permutexvar_epi16(pairs, RoundBoth(x));
    _mm512_storeu_si512(row + piece * kPieceBytes, rounded);
    if (piece + 1 == kPieces) return;
    x = {_mm512_sub_ps(x.low, _mm512_castsi512_ps(_mm512_slli_epi32(rounded, 16))),
         _mm512_sub_ps(x.high, _mm512_castsi512_ps(_mm512_and_si512(rounded, odd)))};
  }
}

// Transposes a tile of 16 rows of 16 pairs.
SNUG_INLINE_AMX void TransposeTile(char* tile) {
  __m512i x[16], y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = _mm512_loadu_si512(tile + i * 64);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88), b = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xDD);
    const __m512i c = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88),
                  d = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xDD);
    _mm512_storeu_si512(tile + i * 64, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_storeu_si512(tile + (i + 8) * 64, _mm512_shuffle_i32x4(a, c, 0xDD));
    _mm512_storeu_si512(tile + (i + 4) * 64, _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_storeu_si512(tile + (i + 12) * 64, _mm512_shuffle_i32x4(b, d, 0xDD));
  }
}

SNUG_INLINE_AMX __m512 Load(const float* from, int64_t count) {
  if (count >= kLanes) return _mm512_loadu_ps(from);
  if (count <= 0) return _mm512_setzero_ps();
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
}

// 32 lines, rows of a or columns of b, that are packed into two tiles of each piece for each step along k. `of_line`
// and `of_k` say how far numbers are apart; one of the two is 1. Each tile has a row for a line (`rows_are_lines`) or
// for a pair of places along k. What is missing is 0.
struct Source {
  const float* data;
  int64_t of_line, of_k, lines, depth;
  bool rows_are_lines;
};

Source StripOf(const StridedMatrix<float>& a, int64_t rows, int64_t depth) {
  return {a.data, a.row, a.col, rows, depth, true};
}

Source PanelOf(const StridedMatrix<float>& b, int64_t columns, int64_t depth) {
  return {b.data, b.col, b.row, columns, depth, false};
}

// Packs rows [from, to) of the 32 that the tiles of step `step` have. The last call of a step turns these around where
// their rows are to be the other thing.
SNUG_INLINE_AMX void PackRows(const Source& of, int64_t step, int64_t from, int64_t to, char* packed) {
  const bool along_k = of.of_k == 1;
  const float* const data = of.data + step * kStep * of.of_k;
  const int64_t depth = of.depth - step * kStep;
  char* const tiles = packed + step * kStepBytes;
  for (int64_t i = from; i < to; ++i) {
    const int64_t half = i / kLanes, row = i % kLanes;
    char* const at = tiles + half * kTileBytes + row * 64;
    if (along_k) {
      const float* const line = data + i * of.of_line;
      const bool there = i < of.lines;
      SplitLine({Load(line, there ? depth : 0), Load(line + kLanes, there ? depth - kLanes : 0)}, at);
    } else {
      const float* const pair = data + half * kLanes * of.of_line + 2 * row * of.of_k;
      const int64_t lines = of.lines - half * kLanes;
      SplitPairs({Load(pair, 2 * row < depth ? lines : 0), Load(pair + of.of_k, 2 * row + 1 < depth ? lines : 0)}, at);
    }
  }
  if (along_k == of.rows_are_lines || to < kStep) return;
  for (int tile = 0; tile < 2 * kPieces; ++tile) TransposeTile(tiles + tile * kTileBytes);
}

SNUG_TARGET_AMX void Pack(const Source& of, char* packed) {
  for (int64_t step = 0; step < Parts(of.depth, kStep); ++step) PackRows(of, step, 0, kStep, packed);
}

// ---- multiplication ----

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The compiler does not know that tiles read memory: what it has still to write is written before.
SNUG_INLINE_AMX void WriteAll() { asm volatile("" : : : "memory"); }

SNUG_TARGET_AMX void BeginTiles() {
  const TileConfig config;
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

SNUG_TARGET_AMX void EndTiles() { _tile_release(); }

// c [32, 32], which is a strip's rows of a panel's columns.
struct Square {
  const char *strip, *panel;
  int64_t steps;
  float* c;
  int64_t c_stride;
  bool accumulate;      // otherwise c is overwritten
  const float* next_c;  // asked for: as many rows of it
  // What is packed meanwhile, while the unit that multiplies tiles is busy: in each step rows [from, to) of one of its
  // steps. Null: nothing.
  const Source* packs;
  int64_t from, to;
  char* packed;
};

SNUG_TARGET_AMX void MultiplySquare(const Square& s) {
  WriteAll();
  const auto stride = static_cast<long>(s.c_stride * static_cast<int64_t>(sizeof(float)));  // NOLINT: as intrinsics ask
  float* const below = s.c + kLanes * s.c_stride;
  if (s.accumulate) {
    _tile_loadd(0, s.c, stride);
    _tile_loadd(1, s.c + kLanes, stride);
    _tile_loadd(2, below, stride);
    _tile_loadd(3, below + kLanes, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const char *a = s.strip, *b = s.panel;
  const int64_t packed_steps = s.packs == nullptr ? 0 : Parts(s.packs->depth, kStep);
  const float* next_c = s.next_c;
  for (int64_t step = 0; step < s.steps; ++step, a += kStepBytes, b += kStepBytes) {
    constexpr int64_t kRowsAsked = 4;
    if (step < kRows / kRowsAsked) {
      for (int64_t l = 0; l < kRowsAsked; ++l, next_c += s.c_stride) {
        __builtin_prefetch(next_c, 1, 3);
        __builtin_prefetch(next_c + kLanes, 1, 3);
      }
    }
    const auto load_a = [a](int piece) SNUG_TARGET_AMX __attribute__((always_inline)) {
      _tile_loadd(4, a + piece * kPieceBytes, 64);
      _tile_loadd(5, a + piece * kPieceBytes + kTileBytes, 64);
    };
    const auto load_b = [b](int piece) SNUG_TARGET_AMX __attribute__((always_inline)) {
      _tile_loadd(6, b + piece * kPieceBytes, 64);
      _tile_loadd(7, b + piece * kPieceBytes + kTileBytes, 64);
    };
    const auto multiply = []() SNUG_TARGET_AMX __attribute__((always_inline)) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    };
    // The small products first.
    load_a(0);
    load_b(2);
    multiply();
    load_b(1);
    multiply();
    load_a(1);
    multiply();
    load_b(0);
    multiply();
    load_a(2);
    multiply();
    load_a(0);
    multiply();
    if (step < packed_steps) PackRows(*s.packs, step, s.from, s.to, s.packed);
  }
  for (int64_t step = s.steps; step < packed_steps; ++step) PackRows(*s.packs, step, s.from, s.to, s.packed);
  _tile_stored(0, s.c, stride);
  _tile_stored(1, s.c + kLanes, stride);
  _tile_stored(2, below, stride);
  _tile_stored(3, below + kLanes, stride);
  WriteAll();
}

// The same where c has fewer rows or columns: what follows these is not c's, or is the next row's.
void MultiplyEdge(const Square& s, int64_t rows, int64_t columns) {
  alignas(64) std::array<float, kRows* kColumns> edge = {};
  for (int64_t i = 0; i < rows && s.accumulate; ++i) {
    std::copy_n(s.c + i * s.c_stride, columns, edge.data() + i * kColumns);
  }
  Square inside = s;
  inside.c = edge.data();
  inside.c_stride = kColumns;
  inside.next_c = edge.data();
  MultiplySquare(inside);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(edge.data() + i * kColumns, columns, s.c + i * s.c_stride);
}

// A block of rows of a thread's part, and a piece along k.
struct Block {
  const GemmCall<float>& call;
  int64_t row, rows, p, depth;
  char* strips;
};

// Computes columns [j, j + columns), a panel's at most, and packs meanwhile what comes next, unless that is null.
// Strips are packed where `packs_strips`. next_c is what of c is computed next; it may be null.
void MultiplyPanel(const Block& block, int64_t j, int64_t columns, const char* panel, bool packs_strips,
                   const float* next_c, const Source* next, char* next_panel) {
  const GemmCall<float>& call = block.call;
  float* const c = call.c + block.row * call.n + j;
  const int64_t steps = Parts(block.depth, kStep);
  const int64_t strips = Parts(block.rows, kRows);
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t i = strip * kRows;
    const int64_t rows = std::min(kRows, block.rows - i);
    char* const packed = block.strips + strip * steps * kStepBytes;
    if (packs_strips) Pack(StripOf(call.a.At(block.row + i, block.p), rows, block.depth), packed);
    const bool more = i + 2 * kRows <= block.rows;
    const Square square = {.strip = packed,
                           .panel = panel,
                           .steps = steps,
                           .c = c + i * call.n,
                           .c_stride = call.n,
                           .accumulate = block.p > 0,
                           .next_c = more                ? c + (i + kRows) * call.n
                                     : next_c != nullptr ? next_c
                                                         : c,
                           .packs = next,
                           .from = kStep * strip / strips,
                           .to = kStep * (strip + 1) / strips,
                           .packed = next_panel};
    if (rows == kRows && columns == kColumns) {
      MultiplySquare(square);
    } else {
      MultiplyEdge(square, rows, columns);
    }
  }
}

void MultiplyPart(const GemmCall<float>& call, Activation activation, const Run& rows, const Run& columns,
                  const Blocks& blocks, char* workspace) {
  const bool finished = SumsAreAll(call, activation);
  const auto panel_of_b = [&](int64_t p, int64_t j) {
    return PanelOf(call.b.At(p, j), std::min(kColumns, columns.end - j), std::min(blocks.depth, call.k - p));
  };
  Block block = {.call = call, .strips = workspace};
  // One panel is multiplied by while the next one is packed.
  char* panel = workspace + blocks.strips_bytes();
  char* next_panel = panel + blocks.panel_bytes();
  for (block.row = rows.begin; block.row < rows.end; block.row += blocks.rows) {
    block.rows = std::min(blocks.rows, rows.end - block.row);
    for (block.p = 0; block.p < call.k; block.p += blocks.depth) {
      block.depth = std::min(blocks.depth, call.k - block.p);
      const bool last = block.p + block.depth == call.k;
      for (int64_t j = columns.begin; j < columns.end; j += kColumns) {
        if (block.p == 0 && j == columns.begin) Pack(panel_of_b(0, j), panel);
        const bool more = j + kColumns < columns.end;
        const int64_t next_p = more ? block.p : block.p + block.depth;
        const Source next = panel_of_b(next_p, more ? j + kColumns : columns.begin);
        const int64_t width = std::min(kColumns, columns.end - j);
        float* const c = call.c + block.row * call.n + j;
        MultiplyPanel(block, j, width, panel, j == columns.begin,
                      j + 2 * kColumns <= columns.end ? c + kColumns : nullptr, more || !last ? &next : nullptr,
                      next_panel);
        std::swap(panel, next_panel);
        if (!last || finished) continue;
        WithIsa([&](auto isa)
                    SNUG_LAMBDA { FinishBlock(isa, call, activation, block.row, j, block.rows, width, c, call.n); });
      }
    }
  }
}

bool Detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBFloat16 = 1U << 5, kAmxBFloat16 = 1U << 22, kAmxTile = 1U << 24;
  if (CurrentIsa() != Isa::kAvx512 || std::getenv("SNUG_ISA") != nullptr) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxTile) == 0 || (d & kAmxBFloat16) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kBFloat16) == 0) return false;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif

}  // namespace
}  // namespace split_gemm

bool MachineSplitsProducts() {
#if SNUG_SPLITS
  static const bool splits = split_gemm::Detect();
  return splits;
#else
  return false;
#endif
}

bool SplittingPays(int64_t m, int64_t n, int64_t k) {
  return m >= split_gemm::kLeastRows && n >= split_gemm::kLeastColumns && k >= split_gemm::kLeastDepth &&
         m * n * k >= split_gemm::kLeastProduct;
}

int64_t SplitGemmWorkspaceBytes(int threads, int64_t m, int64_t n, int64_t k) {
  const Grid grid(threads, m, n, split_gemm::kUnits);
  return grid.parts() * split_gemm::Blocks(grid, k).bytes();
}

void SplitGemm([[maybe_unused]] int threads, [[maybe_unused]] const GemmCall<float>& call,
               [[maybe_unused]] Activation activation, [[maybe_unused]] void* workspace) {
  SNUG_CHECK(MachineSplitsProducts());
#if SNUG_SPLITS
  const Grid grid(threads, call.m, call.n, split_gemm::kUnits);
  const split_gemm::Blocks blocks(grid, call.k);
  ParallelFor(threads, grid.parts(), 1, [&](int64_t begin, int64_t end) {
    split_gemm::BeginTiles();
    for (int64_t part = begin; part < end; ++part) {
      split_gemm::MultiplyPart(call, activation, grid.RowsOf(part), grid.ColumnsOf(part), blocks,
                               static_cast<char*>(workspace) + part * blocks.bytes());
    }
    split_gemm::EndTiles();
  });
#endif
}

}  // namespace snug::core
