// Upsampling on the CPU, row by row. Linear interpolation first mixes the rows above, below, before and behind into one
// in the workspace, and then mixes along it. The gradient does the same backwards: it adds up all rows that took from
// one, and then what lies along their sum. All loops but the last are over whole rows, or over channels.
#include "ops/kernels/upsample/upsample.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/parallel.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr int64_t kUpsampledPerTask = 1 << 15;  // elements that a task computes at least
constexpr int64_t kMostUpsampleTasks = 128;     // each has a row of the workspace

// The elements before and behind each place of the output, and the share of the latter.
template <class A>
struct PlaceTable {
  std::vector<int32_t> before, behind;
  std::vector<A> share;
};

// For each element of the input the places that take from it, [first, last), and the share that each takes.
template <class A>
struct TakerTable {
  std::vector<int64_t> first, last, share_begin;
  std::vector<A> shares;
};

template <class A>
PlaceTable<A> MakePlaceTable(const UpsampleAxis& axis, bool linear) {
  PlaceTable<A> table;
  for (int64_t o = 0; o < axis.out; ++o) {
    const int64_t position = axis.Position(o);
    const int64_t before = position / axis.unit;
    table.before.push_back(static_cast<int32_t>(before));
    table.behind.push_back(static_cast<int32_t>(linear ? std::min(before + 1, axis.in - 1) : before));
    table.share.push_back(linear ? static_cast<A>(position - before * axis.unit) / static_cast<A>(axis.unit) : A(0));
  }
  return table;
}

template <class A>
TakerTable<A> MakeTakerTable(const UpsampleAxis& axis, bool linear) {
  TakerTable<A> table;
  const PlaceTable<A> places = MakePlaceTable<A>(axis, linear);
  for (int64_t i = 0; i < axis.in; ++i) {
    table.first.push_back(axis.FirstFrom(linear ? i - 1 : i));
    table.last.push_back(axis.FirstFrom(i + 1));
    table.share_begin.push_back(static_cast<int64_t>(table.shares.size()));
    for (int64_t o = table.first.back(); o < table.last.back(); ++o) {
      const A share = places.share[static_cast<size_t>(o)];
      table.shares.push_back(places.before[static_cast<size_t>(o)] == i ? 1 - share : share);
    }
  }
  return table;
}

template <class Table>
struct UpsampleTables {
  std::array<Table, 3> axes;  // depth, height, width
};

int64_t RowsPerTask(int64_t rows, int64_t row_elements) {
  return std::max(kUpsampledPerTask / std::max<int64_t>(1, row_elements),
                  (rows + kMostUpsampleTasks - 1) / kMostUpsampleTasks);
}

template <template <class> class Table, class Make>
absl::Status PrepareTables(PrepareContext& c, const UpsampleGeometry& g, int64_t rows, int64_t row_elements,
                           int64_t workspace_row, const Make& make) {
  return DispatchFloating(c.types().output(0).dtype, [&](auto zero) {
    using A = Accumulator<decltype(zero)>;
    auto tables = std::make_shared<UpsampleTables<Table<A>>>();
    for (size_t i = 0; i < g.axes.size(); ++i) tables->axes[i] = make(A(0), g.axes[i]);
    const int64_t task = RowsPerTask(rows, row_elements);
    c.SetWorkspaceBytes((rows + task - 1) / task * workspace_row * static_cast<int64_t>(sizeof(A)));
    c.SetKernel(std::move(tables));
    return absl::OkStatus();
  });
}

// Adds a row, multiplied, to `sum`, or begins the sum with it.
template <class T, class A>
SNUG_INLINE void AddRow(const T* row, int64_t n, A factor, bool begins, A* sum) {
  if (begins) {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) sum[j] = factor * static_cast<A>(row[j]);
  } else {
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) sum[j] += factor * static_cast<A>(row[j]);
  }
}

// Repeats the elements of a row.
template <class T>
SNUG_INLINE void RepeatAlong(const UpsampleGeometry& g, const int32_t* before, const T* row, T* y) {
  const UpsampleAxis& width = g.axes[2];
  const int64_t lanes = g.lanes;
  if (lanes == 1 && width.out == 2 * width.in) {
    const int64_t elements = width.in;
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < elements; ++i) {
      const T value = row[i];
      y[2 * i] = value;
      y[2 * i + 1] = value;
    }
    return;
  }
  const int64_t places = width.out;
  if (lanes == 1) {
    SNUG_INDEPENDENT
    for (int64_t o = 0; o < places; ++o) y[o] = row[before[o]];
    return;
  }
  for (int64_t o = 0; o < places; ++o) {
    std::memcpy(y + o * lanes, row + before[o] * lanes, static_cast<size_t>(lanes) * sizeof(T));
  }
}

template <class T>
void NearestRows(const KernelContext& k, const UpsampleGeometry& g, const T* x, T* y) {
  const auto& tables = k.prepared<UpsampleTables<PlaceTable<Accumulator<T>>>>().axes;
  const int32_t* depth_before = tables[0].before.data();
  const int32_t* height_before = tables[1].before.data();
  const int32_t* width_before = tables[2].before.data();
  const UpsampleAxis depth = g.axes[0];
  const UpsampleAxis height = g.axes[1];
  const int64_t x_row = g.axes[2].in * g.lanes;
  const int64_t y_row = g.axes[2].out * g.lanes;
  const int64_t rows = g.output_rows();
  ParallelFor(k.threads(), rows, RowsPerTask(rows, y_row), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      int64_t last = -1;  // the row that was repeated last
      for (int64_t r = begin; r < end; ++r) {
        const int64_t d = depth_before[r / height.out % depth.out];
        const int64_t from = (r / height.out / depth.out * depth.in + d) * height.in + height_before[r % height.out];
        if (from == last) {
          std::memcpy(y + r * y_row, y + (r - 1) * y_row, static_cast<size_t>(y_row) * sizeof(T));
        } else {
          RepeatAlong(g, width_before, x + from * x_row, y + r * y_row);
        }
        last = from;
      }
    });
  });
}

// Mixes the elements of a row.
template <class T, class A>
SNUG_INLINE void MixAlong(const UpsampleGeometry& g, const int32_t* before, const int32_t* behind, const A* share,
                          const A* row, T* y) {
  const int64_t lanes = g.lanes;
  const int64_t places = g.axes[2].out;
  if (lanes == 1) {
    SNUG_INDEPENDENT
    for (int64_t o = 0; o < places; ++o) {
      y[o] = static_cast<T>((1 - share[o]) * row[before[o]] + share[o] * row[behind[o]]);
    }
    return;
  }
  for (int64_t o = 0; o < places; ++o) {
    const A* a = row + before[o] * lanes;
    const A* b = row + behind[o] * lanes;
    T* to = y + o * lanes;
    const A factor = share[o];
    SNUG_INDEPENDENT
    for (int64_t j = 0; j < lanes; ++j) to[j] = static_cast<T>((1 - factor) * a[j] + factor * b[j]);
  }
}

template <class T>
void LinearRows(const KernelContext& k, const UpsampleGeometry& g, const T* x, T* y) {
  using A = Accumulator<T>;
  const auto* tables = k.prepared<UpsampleTables<PlaceTable<A>>>().axes.data();
  const UpsampleAxis depth = g.axes[0];
  const UpsampleAxis height = g.axes[1];
  const int64_t x_row = g.axes[2].in * g.lanes;
  const int64_t y_row = g.axes[2].out * g.lanes;
  const int64_t rows = g.output_rows();
  const int64_t task = RowsPerTask(rows, y_row);
  A* workspace = k.workspace<A>();
  ParallelFor(k.threads(), rows, task, [=](int64_t begin, int64_t end) {
    A* mixed = workspace + begin / task * x_row;
    WithIsa([=]() SNUG_LAMBDA {
      const PlaceTable<A>& d = tables[0];
      const PlaceTable<A>& h = tables[1];
      const PlaceTable<A>& w = tables[2];
      for (int64_t r = begin; r < end; ++r) {
        const auto od = static_cast<size_t>(r / height.out % depth.out);
        const auto oh = static_cast<size_t>(r % height.out);
        const int64_t first_plane = r / height.out / depth.out * depth.in;
        bool begins = true;
        for (const bool far : {false, true}) {
          const A depth_share = far ? d.share[od] : 1 - d.share[od];
          const int64_t plane = first_plane + (far ? d.behind[od] : d.before[od]);
          for (const bool low : {false, true}) {
            const A share = depth_share * (low ? h.share[oh] : 1 - h.share[oh]);
            if (share == 0) continue;
            AddRow(x + (plane * height.in + (low ? h.behind[oh] : h.before[oh])) * x_row, x_row, share, begins, mixed);
            begins = false;
          }
        }
        MixAlong(g, w.before.data(), w.behind.data(), w.share.data(), mixed, y + r * y_row);
      }
    });
  });
}

// Sets the elements of a row to the sums of what took from them.
template <class T, class A>
SNUG_INLINE void SumAlong(const UpsampleGeometry& g, const TakerTable<A>& takers, const A* row, T* dx) {
  const int64_t lanes = g.lanes;
  const int64_t* first = takers.first.data();
  const int64_t* last = takers.last.data();
  for (int64_t i = 0; i < g.axes[2].in; ++i) {
    const A* shares = takers.shares.data() + takers.share_begin[static_cast<size_t>(i)];
    constexpr int64_t kTogether = 64;
    for (int64_t lane = 0; lane < lanes; lane += kTogether) {
      const int64_t count = std::min(kTogether, lanes - lane);
      A sums[kTogether];
      for (int64_t j = 0; j < count; ++j) sums[j] = 0;
      for (int64_t o = first[i]; o < last[i]; ++o) {
        const A* from = row + o * lanes + lane;
        const A share = shares[o - first[i]];
        SNUG_INDEPENDENT
        for (int64_t j = 0; j < count; ++j) sums[j] += share * from[j];
      }
      T* to = dx + i * lanes + lane;
      SNUG_INDEPENDENT
      for (int64_t j = 0; j < count; ++j) to[j] = static_cast<T>(sums[j]);
    }
  }
}

// Does so for elements of one lane.
template <class T, class A>
SNUG_INLINE void SumAlongOne(const UpsampleGeometry& g, const TakerTable<A>& takers, const A* row, T* dx) {
  const int64_t* first = takers.first.data();
  const int64_t* last = takers.last.data();
  const A* share = takers.shares.data();  // they lie in the order in which they are needed
  for (int64_t i = 0; i < g.axes[2].in; ++i) {
    A sum = 0;
    for (int64_t o = first[i]; o < last[i]; ++o) sum += *share++ * row[o];
    dx[i] = static_cast<T>(sum);
  }
}

template <class T>
void GradRows(const KernelContext& k, const UpsampleGeometry& g, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const auto* tables = k.prepared<UpsampleTables<TakerTable<A>>>().axes.data();
  const UpsampleAxis depth = g.axes[0];
  const UpsampleAxis height = g.axes[1];
  const int64_t x_row = g.axes[2].in * g.lanes;
  const int64_t y_row = g.axes[2].out * g.lanes;
  const int64_t rows = g.input_rows();
  const int64_t task = RowsPerTask(rows, y_row);
  A* workspace = k.workspace<A>();
  ParallelFor(k.threads(), rows, task, [=](int64_t begin, int64_t end) {
    A* sum = workspace + begin / task * y_row;
    WithIsa([=]() SNUG_LAMBDA {
      const TakerTable<A>& d = tables[0];
      const TakerTable<A>& h = tables[1];
      for (int64_t r = begin; r < end; ++r) {
        const auto id = static_cast<size_t>(r / height.in % depth.in);
        const auto ih = static_cast<size_t>(r % height.in);
        const int64_t first_plane = r / height.in / depth.in * depth.out;
        bool begins = true;
        for (int64_t od = d.first[id]; od < d.last[id]; ++od) {
          const A depth_share = d.shares[static_cast<size_t>(d.share_begin[id] + od - d.first[id])];
          for (int64_t oh = h.first[ih]; oh < h.last[ih]; ++oh) {
            const A share = depth_share * h.shares[static_cast<size_t>(h.share_begin[ih] + oh - h.first[ih])];
            AddRow(dy + ((first_plane + od) * height.out + oh) * y_row, y_row, share, begins, sum);
            begins = false;
          }
        }
        if (begins) {  // nothing took from this row
          std::fill(dx + r * x_row, dx + (r + 1) * x_row, T(0));
        } else if (g.lanes == 1) {
          SumAlongOne(g, tables[2], sum, dx + r * x_row);
        } else {
          SumAlong(g, tables[2], sum, dx + r * x_row);
        }
      }
    });
  });
}

}  // namespace

absl::Status PrepareUpsample(PrepareContext& c, const UpsampleGeometry& g) {
  const UpsampleAxis& width = g.axes[2];
  return PrepareTables<PlaceTable>(
      c, g, g.output_rows(), width.out * g.lanes, g.linear ? width.in * g.lanes : 0,
      [&]<class A>(A, const UpsampleAxis& axis) { return MakePlaceTable<A>(axis, g.linear); });
}

absl::Status PrepareUpsampleGrad(PrepareContext& c, const UpsampleGeometry& g) {
  const int64_t row = g.axes[2].out * g.lanes;
  return PrepareTables<TakerTable>(c, g, g.input_rows(), row, row, [&]<class A>(A, const UpsampleAxis& axis) {
    return MakeTakerTable<A>(axis, g.linear);
  });
}

absl::Status Upsample(const KernelContext& k, const UpsampleGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    if (g.linear) {
      LinearRows(k, g, k.input<T>(0), k.output<T>(0));
    } else {
      NearestRows(k, g, k.input<T>(0), k.output<T>(0));
    }
    return absl::OkStatus();
  });
}

absl::Status UpsampleGrad(const KernelContext& k, const UpsampleGeometry& g) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    GradRows(k, g, k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  });
}

}  // namespace snug::core
