// What LSTM and GRU cells do element by element, and their gradients, each in one kernel. A thread does kPack
// neighbours of a row of the state, and reads the parts of that row that belong to them: so what it writes may lie
// where it has read (the ops' aliases).
#include "ops/kit/cuda/axes.h"
#include "ops/kit/cuda/kernel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/cells_cuda.h"

namespace snug::core {
namespace {

// The rows of a state in packs. `count` of these are in all of it.
struct CellPacks {
  int64_t count, by_row, width;
  CudaDivisor rows;
};

CellPacks PacksOf(int64_t elements, int64_t width, int pack) {
  return {elements / pack, width / pack, width, CudaDivisor(width / pack, elements / pack)};
}

// Where a pack begins: in the state, and in an array that has `parts` for each of the state's.
struct PackPlace {
  int64_t row, column;
  __device__ PackPlace(const CellPacks& packs, int64_t n, int pack) : row(packs.rows.Divide(n)) {
    column = (n - row * packs.by_row) * pack;
  }
  __device__ int64_t In(int64_t width, int64_t parts) const { return row * parts * width + column; }
};

template <int kPack, class T>
__device__ CudaPack<T, kPack> Load(const T* from) {
  return LoadPack<true, kPack>(from, kPack);
}
template <int kPack, class T>
__device__ void Store(const CudaPack<T, kPack>& pack, T* to) {
  StorePack<true>(pack, to, kPack);
}

// x, h: [rows, 4 width], of which h may be absent; c: [rows, width].
template <int kPack, bool kTwo, class T>
__global__ void LstmCellKernel(CellPacks packs, LstmParts p, const T* x, const T* h, const T* c, T* next_h, T* next_c,
                               T* gates) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(n, packs.count) {
    const PackPlace place(packs, n, kPack);
    const int64_t at = place.In(packs.width, 1), part = place.In(packs.width, 4);
    auto i = Load<kPack>(x + part + p.i), f = Load<kPack>(x + part + p.f);
    auto g = Load<kPack>(x + part + p.g), o = Load<kPack>(x + part + p.o);
    CudaPack<T, kPack> i_h, f_h, g_h, o_h;
    if constexpr (kTwo) {
      i_h = Load<kPack>(h + part + p.i);
      f_h = Load<kPack>(h + part + p.f);
      g_h = Load<kPack>(h + part + p.g);
      o_h = Load<kPack>(h + part + p.o);
    }
    auto state = Load<kPack>(c + at), out = state;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const auto sum = [&](const CudaPack<T, kPack>& own, [[maybe_unused]] const CudaPack<T, kPack>& other) {
        if constexpr (kTwo) return static_cast<A>(own.values[j]) + static_cast<A>(other.values[j]);
        return static_cast<A>(own.values[j]);
      };
      const A i_open = Sigmoid(sum(i, i_h)), f_open = Sigmoid(sum(f, f_h));
      const A candidate = Tanh(sum(g, g_h)), o_open = Sigmoid(sum(o, o_h));
      const A next = f_open * static_cast<A>(state.values[j]) + i_open * candidate;
      state.values[j] = static_cast<T>(next);
      out.values[j] = static_cast<T>(o_open * Tanh(next));
      i.values[j] = static_cast<T>(i_open);
      f.values[j] = static_cast<T>(f_open);
      g.values[j] = static_cast<T>(candidate);
      o.values[j] = static_cast<T>(o_open);
    }
    Store(state, next_c + at);
    Store(out, next_h + at);
    Store(i, gates + part + p.i);
    Store(f, gates + part + p.f);
    Store(g, gates + part + p.g);
    Store(o, gates + part + p.o);
  }
}

// One of dh and dc may be null, and counts as 0 then.
template <int kPack, class T>
__global__ void LstmCellGradKernel(CellPacks packs, LstmParts p, const T* gates, const T* c, const T* next_c,
                                   const T* dh, const T* dc, T* dx, T* dc_before) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(n, packs.count) {
    const PackPlace place(packs, n, kPack);
    const int64_t at = place.In(packs.width, 1), part = place.In(packs.width, 4);
    auto i = Load<kPack>(gates + part + p.i), f = Load<kPack>(gates + part + p.f);
    auto g = Load<kPack>(gates + part + p.g), o = Load<kPack>(gates + part + p.o);
    const auto before = Load<kPack>(c + at);
    auto after = Load<kPack>(next_c + at);
    CudaPack<T, kPack> of_h = {}, of_c = {};
    if (dh != nullptr) of_h = Load<kPack>(dh + at);
    if (dc != nullptr) of_c = Load<kPack>(dc + at);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const A i_open = static_cast<A>(i.values[j]), f_open = static_cast<A>(f.values[j]);
      const A candidate = static_cast<A>(g.values[j]), o_open = static_cast<A>(o.values[j]);
      const A bounded = Tanh(static_cast<A>(after.values[j]));
      const A from_h = static_cast<A>(of_h.values[j]);
      const A d = static_cast<A>(of_c.values[j]) + from_h * o_open * (A(1) - bounded * bounded);
      i.values[j] = static_cast<T>(d * candidate * i_open * (A(1) - i_open));
      f.values[j] = static_cast<T>(d * static_cast<A>(before.values[j]) * f_open * (A(1) - f_open));
      g.values[j] = static_cast<T>(d * i_open * (A(1) - candidate * candidate));
      o.values[j] = static_cast<T>(from_h * bounded * o_open * (A(1) - o_open));
      after.values[j] = static_cast<T>(d * f_open);
    }
    Store(i, dx + part + p.i);
    Store(f, dx + part + p.f);
    Store(g, dx + part + p.g);
    Store(o, dx + part + p.o);
    Store(after, dc_before + at);
  }
}

// x, y: [rows, 3 width]; h: [rows, width]; kept: [rows, 4 width].
template <int kPack, class T>
__global__ void GruCellKernel(CellPacks packs, GruParts p, const T* x, const T* y, const T* h, T* next, T* kept) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(n, packs.count) {
    const PackPlace place(packs, n, kPack);
    const int64_t at = place.In(packs.width, 1), part = place.In(packs.width, 3), keep = place.In(packs.width, 4);
    auto r = Load<kPack>(x + part + p.r), z = Load<kPack>(x + part + p.z), candidate = Load<kPack>(x + part + p.n);
    const auto y_r = Load<kPack>(y + part + p.r), y_z = Load<kPack>(y + part + p.z);
    const auto y_n = Load<kPack>(y + part + p.n);
    auto state = Load<kPack>(h + at);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const A resets = Sigmoid(static_cast<A>(r.values[j]) + static_cast<A>(y_r.values[j]));
      const A updates = Sigmoid(static_cast<A>(z.values[j]) + static_cast<A>(y_z.values[j]));
      const A bounded = Tanh(static_cast<A>(candidate.values[j]) + resets * static_cast<A>(y_n.values[j]));
      state.values[j] = static_cast<T>(bounded + updates * (static_cast<A>(state.values[j]) - bounded));
      r.values[j] = static_cast<T>(resets);
      z.values[j] = static_cast<T>(updates);
      candidate.values[j] = static_cast<T>(bounded);
    }
    Store(state, next + at);
    Store(r, kept + keep);
    Store(z, kept + keep + packs.width);
    Store(candidate, kept + keep + 2 * packs.width);
    Store(y_n, kept + keep + 3 * packs.width);
  }
}

template <int kPack, class T>
__global__ void GruCellGradKernel(CellPacks packs, GruParts p, const T* kept, const T* h, const T* dnext, T* dx, T* dy,
                                  T* dh) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(n, packs.count) {
    const PackPlace place(packs, n, kPack);
    const int64_t at = place.In(packs.width, 1), part = place.In(packs.width, 3), keep = place.In(packs.width, 4);
    auto r = Load<kPack>(kept + keep), z = Load<kPack>(kept + keep + packs.width);
    auto candidate = Load<kPack>(kept + keep + 2 * packs.width), y_n = Load<kPack>(kept + keep + 3 * packs.width);
    const auto state = Load<kPack>(h + at);
    auto d_state = Load<kPack>(dnext + at);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const A resets = static_cast<A>(r.values[j]), updates = static_cast<A>(z.values[j]);
      const A bounded = static_cast<A>(candidate.values[j]);
      const A d = static_cast<A>(d_state.values[j]);
      const A dn = d * (A(1) - updates) * (A(1) - bounded * bounded);
      const A dr = dn * static_cast<A>(y_n.values[j]) * resets * (A(1) - resets);
      const A dz = d * (static_cast<A>(state.values[j]) - bounded) * updates * (A(1) - updates);
      d_state.values[j] = static_cast<T>(d * updates);
      r.values[j] = static_cast<T>(dr);
      z.values[j] = static_cast<T>(dz);
      candidate.values[j] = static_cast<T>(dn);
      y_n.values[j] = static_cast<T>(dn * resets);
    }
    Store(d_state, dh + at);
    Store(r, dx + part + p.r);
    Store(r, dy + part + p.r);
    Store(z, dx + part + p.z);
    Store(z, dy + part + p.z);
    Store(candidate, dx + part + p.n);
    Store(y_n, dy + part + p.n);
  }
}

}  // namespace

absl::Status LstmCellCuda(const KernelContext& k, int64_t width, const LstmParts& parts) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = k.input<T>(0), *h = k.has_input(1) ? k.input<T>(1) : nullptr, *c = k.input<T>(2);
    T *next_h = k.output<T>(0), *next_c = k.output<T>(1), *gates = k.output<T>(2);
    const auto run = [&](auto pack) {
      constexpr int kPack = decltype(pack)::value;
      const CellPacks packs = PacksOf(k.output_type(0).num_elements(), width, kPack);
      auto* const kernel = h == nullptr ? LstmCellKernel<kPack, false, T> : LstmCellKernel<kPack, true, T>;
      return k.cuda()->Launch(kernel, ShapeFor(packs.count), packs, parts, x, h, c, next_h, next_c, gates);
    };
    return WithPack<T>(width, run, x, h, c, next_h, next_c, gates);
  });
}

absl::Status LstmCellGradCuda(const KernelContext& k, int64_t width, const LstmParts& parts) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *gates = k.input<T>(0), *c = k.input<T>(1), *next_c = k.input<T>(2);
    const T* dh = k.has_input(3) ? k.input<T>(3) : nullptr;
    const T* dc = k.has_input(4) ? k.input<T>(4) : nullptr;
    T *dx = k.output<T>(0), *dc_before = k.output<T>(1);
    const auto run = [&](auto pack) {
      constexpr int kPack = decltype(pack)::value;
      const CellPacks packs = PacksOf(k.output_type(1).num_elements(), width, kPack);
      return k.cuda()->Launch(LstmCellGradKernel<kPack, T>, ShapeFor(packs.count), packs, parts, gates, c, next_c, dh,
                              dc, dx, dc_before);
    };
    return WithPack<T>(width, run, gates, c, next_c, dh, dc, dx, dc_before);
  });
}

absl::Status GruCellCuda(const KernelContext& k, int64_t width, const GruParts& parts) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *x = k.input<T>(0), *y = k.input<T>(1), *h = k.input<T>(2);
    T *next = k.output<T>(0), *kept = k.output<T>(1);
    const auto run = [&](auto pack) {
      constexpr int kPack = decltype(pack)::value;
      const CellPacks packs = PacksOf(k.output_type(0).num_elements(), width, kPack);
      return k.cuda()->Launch(GruCellKernel<kPack, T>, ShapeFor(packs.count), packs, parts, x, y, h, next, kept);
    };
    return WithPack<T>(width, run, x, y, h, next, kept);
  });
}

absl::Status GruCellGradCuda(const KernelContext& k, int64_t width, const GruParts& parts) {
  return DispatchFloating(k.output_type(2).dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *kept = k.input<T>(0), *h = k.input<T>(1), *dnext = k.input<T>(2);
    T *dx = k.output<T>(0), *dy = k.output<T>(1), *dh = k.output<T>(2);
    const auto run = [&](auto pack) {
      constexpr int kPack = decltype(pack)::value;
      const CellPacks packs = PacksOf(k.output_type(2).num_elements(), width, kPack);
      return k.cuda()->Launch(GruCellGradKernel<kPack, T>, ShapeFor(packs.count), packs, parts, kept, h, dnext, dx, dy,
                              dh);
    };
    return WithPack<T>(width, run, kept, h, dnext, dx, dy, dh);
  });
}

}  // namespace snug::core
