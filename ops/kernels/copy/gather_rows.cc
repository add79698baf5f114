#include "ops/kernels/copy/gather_rows.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;
constexpr int64_t kGatheredColumns = 256;  // sums of so many columns are kept together

absl::Status ChoiceError(absl::string_view name, const Shape& shape, int64_t position, int64_t found, int64_t rows) {
  std::string index;
  int64_t rest = position;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index = absl::StrCat(rest % shape[axis], index.empty() ? "" : ", ", index);
    rest /= shape[axis];
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, "[", index, "]: expected an entry in [0, ", rows, "), found ", found));
}

template <class Index>
absl::Status CheckChoices(absl::string_view name, const Shape& shape, const Index* choices, int64_t rows) {
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (choices[i] < 0 || choices[i] >= rows) return ChoiceError(name, shape, i, choices[i], rows);
  }
  return absl::OkStatus();
}

// Computes the sum of dy's rows at `positions`, in that order.
template <class T>
SNUG_INLINE void SumRows(const int64_t* positions, int64_t count, int64_t inner, const T* dy, T* row) {
  using A = Accumulator<T>;
  for (int64_t begin = 0; begin < inner; begin += kGatheredColumns) {
    const int64_t columns = std::min(kGatheredColumns, inner - begin);
    A sums[kGatheredColumns];
    for (int64_t j = 0; j < columns; ++j) sums[j] = A(0);
    for (int64_t p = 0; p < count; ++p) {
      const T* from = dy + positions[p] * inner + begin;
      for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<A>(from[j]);
    }
    for (int64_t j = 0; j < columns; ++j) row[begin + j] = static_cast<T>(sums[j]);
  }
}

// Sorts the positions by the row they chose (a counting sort). Those of row r are sorted[ends[r]] to sorted[ends[r +
// 1]], the latter excluded.
template <class Index>
void SortByRow(const Index* choices, int64_t n, int64_t rows, int64_t* ends, int64_t* sorted) {
  std::fill(ends, ends + rows + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++ends[choices[i] + 1];
  int64_t begin = 0;
  for (int64_t r = 1; r <= rows; ++r) {  // turns counts into begins, which the next loop turns into ends
    const int64_t count = ends[r];
    ends[r] = begin;
    begin += count;
  }
  for (int64_t i = 0; i < n; ++i) sorted[ends[choices[i] + 1]++] = i;
}

// How dx [outer, rows, inner] is made of dy [outer, n, inner].
struct RowSums {
  int64_t n, rows, inner;
};

// Writes rows [first, last) of dx, counted over all of `outer`; `dx` is where row `first` begins.
template <class T>
void SumRowsOf(int threads, RowSums of, const int64_t* ends, const int64_t* sorted, const T* dy, int64_t first,
               int64_t last, T* dx) {
  ParallelFor(threads, last - first, std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, of.inner)),
              [=](int64_t task_begin, int64_t task_end) {
                WithIsa([=]() SNUG_LAMBDA {
                  const auto [n, rows, inner] = of;
                  for (int64_t i = task_begin; i < task_end;) {
                    // Rows that nobody chose follow each other mostly. memset writes them at once, without reading
                    // their lines before, which lie in another processor's cache where that wrote them last.
                    const int64_t begin = i;
                    while (i < task_end && ends[(first + i) % rows] == ends[(first + i) % rows + 1]) ++i;
                    std::memset(static_cast<void*>(dx + begin * inner), 0,
                                static_cast<size_t>((i - begin) * inner) * sizeof(T));
                    if (i == task_end) break;
                    const int64_t r = (first + i) % rows;
                    SumRows(sorted + ends[r], ends[r + 1] - ends[r], inner, dy + (first + i) / rows * n * inner,
                            dx + i * inner);
                    ++i;
                  }
                });
              });
}

template <class T, class Index>
absl::Status ScatterAdd(const KernelContext& k, int choices_input, int dy_input, int axis, absl::string_view name) {
  const Shape& shape = k.output_type(0).shape;
  const Index* choices = k.input<Index>(choices_input);
  const T* dy = k.input<T>(dy_input);
  T* dx = k.output<T>(0);
  const int64_t n = k.input_type(choices_input).num_elements();
  const int64_t rows = shape[axis];
  const int64_t inner = shape.Count(axis + 1, shape.rank());
  SNUG_RETURN_IF_ERROR(CheckChoices(name, k.input_type(choices_input).shape, choices, rows));
  int64_t* ends = k.workspace<int64_t>();
  int64_t* sorted = ends + rows + 1;
  SortByRow(choices, n, rows, ends, sorted);
  SumRowsOf(k.threads(), {.n = n, .rows = rows, .inner = inner}, ends, sorted, dy, 0, shape.Count(0, axis + 1), dx);
  return absl::OkStatus();
}

int BitsFor(int64_t n) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(n, 1) - 1))); }

// Sorts by bits [low, high), a digit at a time from the last to the first: what is equal stays in its order. Returns
// where the result is, which is either of the two arrays.
uint64_t* SortByBits(uint64_t* keys, uint64_t* other, int64_t n, int low, int high) {
  constexpr int kDigitBits = 11;
  constexpr int64_t kDigits = int64_t{1} << kDigitBits;
  int64_t begins[kDigits];
  for (int shift = low; shift < high; shift += kDigitBits) {
    const auto digit = [shift](uint64_t key) { return static_cast<int64_t>(key >> shift & (kDigits - 1)); };
    std::fill(begins, begins + kDigits, 0);
    for (int64_t i = 0; i < n; ++i) ++begins[digit(keys[i])];
    if (n == 0 || begins[digit(keys[0])] == n) continue;  // all have the same digit
    int64_t begin = 0;
    for (int64_t d = 0; d < kDigits; ++d) begin += std::exchange(begins[d], begin);
    for (int64_t i = 0; i < n; ++i) other[begins[digit(keys[i])]++] = keys[i];
    std::swap(keys, other);
  }
  return keys;
}

// What is behind the last row of a list that has room for more.
template <class T>
void EndRows(int64_t rows, int64_t room, int64_t inner, int64_t* row, T* sums) {
  std::fill(row + rows, row + room, int64_t{-1});
  std::memset(static_cast<void*>(sums + rows * inner), 0, static_cast<size_t>((room - rows) * inner) * sizeof(T));
}

int64_t TaskRows(int64_t inner) { return std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, inner)); }

template <class T, class Index>
void SumChosen(const KernelContext& k, const Index* choices, const T* dy, int64_t entries) {
  const int64_t n = k.output_type(0).shape[0];
  const int64_t inner = k.output_type(1).shape[1];
  auto* const row = k.output<int64_t>(0);
  T* const sums = k.output<T>(1);
  auto* keys = k.workspace<uint64_t>();
  uint64_t* other = keys + n;
  // A key is the row and, in its lowest bits, the position, in whose order the keys are already.
  const int position_bits = BitsFor(n);
  for (int64_t i = 0; i < n; ++i)
    keys[i] = static_cast<uint64_t>(choices[i]) << position_bits | static_cast<uint64_t>(i);
  uint64_t* const sorted = SortByBits(keys, other, n, position_bits, position_bits + BitsFor(entries));
  // The keys become positions, and the other array says where those of each row begin.
  auto* const positions = reinterpret_cast<int64_t*>(sorted);
  auto* const begins = reinterpret_cast<int64_t*>(sorted == keys ? other : keys);
  int64_t rows = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto of = static_cast<int64_t>(sorted[i] >> position_bits);
    if (rows == 0 || row[rows - 1] != of) {
      begins[rows] = i;
      row[rows++] = of;
    }
    positions[i] = static_cast<int64_t>(sorted[i] & ((uint64_t{1} << position_bits) - 1));
  }
  ParallelFor(k.threads(), rows, TaskRows(inner), [=](int64_t first, int64_t last) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = first; r < last; ++r) {
        SumRows(positions + begins[r], (r + 1 < rows ? begins[r + 1] : n) - begins[r], inner, dy, sums + r * inner);
      }
    });
  });
  EndRows(rows, n, inner, row, sums);
}

// Two lists of rows, each ascending.
template <class T>
struct RowLists {
  const int64_t *row_a, *row_b;
  const T *a, *b;
  int64_t count_a, count_b;
};

// Writes where each row of the sum comes from: its place in either list, or -1. Returns how many rows there are.
template <class T>
int64_t MergeRows(const RowLists<T>& of, int64_t* row, int64_t* from_a, int64_t* from_b) {
  int64_t rows = 0;
  for (int64_t i = 0, j = 0; i < of.count_a || j < of.count_b; ++rows) {
    const bool has_a = i < of.count_a && (j == of.count_b || of.row_a[i] <= of.row_b[j]);
    const bool has_b = j < of.count_b && (i == of.count_a || of.row_b[j] <= of.row_a[i]);
    row[rows] = has_a ? of.row_a[i] : of.row_b[j];
    from_a[rows] = has_a ? i++ : -1;
    from_b[rows] = has_b ? j++ : -1;
  }
  return rows;
}

}  // namespace

int64_t CountRows(const int64_t* rows, int64_t room) {
  return std::partition_point(rows, rows + room, [](int64_t row) { return row >= 0; }) - rows;
}

absl::Status CheckRowList(const int64_t* rows, int64_t room, int64_t entries) {
  const int64_t count = std::find_if(rows, rows + room, [](int64_t row) { return row < 0; }) - rows;
  for (int64_t i = 0; i < room; ++i) {
    if (i < count ? rows[i] < entries && (i == 0 || rows[i - 1] < rows[i]) : rows[i] == -1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rows[", i, "]: expected ascending rows in [0, ", entries, "), then -1, found ", rows[i]));
  }
  return absl::OkStatus();
}

bool CanSumChosenRows(int64_t choices, int64_t entries) { return BitsFor(choices) + BitsFor(entries) <= 64; }

int64_t SumChosenRowsWorkspaceBytes(int64_t choices) { return 2 * choices * static_cast<int64_t>(sizeof(uint64_t)); }

absl::Status SumChosenRows(const KernelContext& k, int choices, int dy, int64_t entries, absl::string_view name) {
  const ValueType& type = k.input_type(choices);
  return DispatchInteger(type.dtype, [&](auto index) -> absl::Status {
    const auto* of = k.input<decltype(index)>(choices);
    SNUG_RETURN_IF_ERROR(CheckChoices(name, type.shape, of, entries));
    return DispatchFloating(k.input_type(dy).dtype, [&](auto zero) {
      SumChosen(k, of, k.input<decltype(zero)>(dy), entries);
      return absl::OkStatus();
    });
  });
}

absl::Status AddRowLists(const KernelContext& k) {
  return DispatchFloating(k.input_type(1).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const int64_t room = k.output_type(0).shape[0];
    const int64_t inner = k.output_type(1).shape[1];
    const RowLists<T> of = {.row_a = k.input<int64_t>(0),
                            .row_b = k.input<int64_t>(2),
                            .a = k.input<T>(1),
                            .b = k.input<T>(3),
                            .count_a = CountRows(k.input<int64_t>(0), k.input_type(0).shape[0]),
                            .count_b = CountRows(k.input<int64_t>(2), k.input_type(2).shape[0])};
    auto* const row = k.output<int64_t>(0);
    T* const sums = k.output<T>(1);
    auto* const from_a = k.workspace<int64_t>();
    int64_t* const from_b = from_a + room;
    const int64_t rows = MergeRows(of, row, from_a, from_b);
    ParallelFor(k.threads(), rows, TaskRows(inner), [=](int64_t first, int64_t last) {
      WithIsa([=]() SNUG_LAMBDA {
        for (int64_t r = first; r < last; ++r) {
          T* const sum = sums + r * inner;
          const T* const a = from_a[r] < 0 ? nullptr : of.a + from_a[r] * inner;
          const T* const b = from_b[r] < 0 ? nullptr : of.b + from_b[r] * inner;
          if (a == nullptr || b == nullptr) {
            std::memcpy(sum, a == nullptr ? b : a, static_cast<size_t>(inner) * sizeof(T));
          } else {
            for (int64_t j = 0; j < inner; ++j) sum[j] = static_cast<T>(static_cast<A>(a[j]) + static_cast<A>(b[j]));
          }
        }
      });
    });
    EndRows(rows, room, inner, row, sums);
    return absl::OkStatus();
  });
}

template <class T>
void AddListedRows(int threads, const int64_t* rows, int64_t count, int64_t inner, const T* listed, int64_t first_row,
                   T* sums) {
  using A = Accumulator<T>;
  ParallelFor(threads, count, TaskRows(inner), [=](int64_t first, int64_t last) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = first; r < last; ++r) {
        T* const sum = sums + (rows[r] - first_row) * inner;
        const T* const row = listed + r * inner;
        for (int64_t j = 0; j < inner; ++j) sum[j] = static_cast<T>(static_cast<A>(sum[j]) + static_cast<A>(row[j]));
      }
    });
  });
}
template void AddListedRows(int, const int64_t*, int64_t, int64_t, const float*, int64_t, float*);
template void AddListedRows(int, const int64_t*, int64_t, int64_t, const double*, int64_t, double*);
template void AddListedRows(int, const int64_t*, int64_t, int64_t, const BFloat16*, int64_t, BFloat16*);

absl::Status CheckChoices(const KernelContext& k, int choices, int64_t rows, absl::string_view name) {
  const ValueType& type = k.input_type(choices);
  return DispatchInteger(
      type.dtype, [&](auto zero) { return CheckChoices(name, type.shape, k.input<decltype(zero)>(choices), rows); });
}

absl::Status SortChoices(const KernelContext& k, int choices, int64_t rows, absl::string_view name, int64_t* sorted) {
  const ValueType& type = k.input_type(choices);
  return DispatchInteger(type.dtype, [&](auto zero) -> absl::Status {
    const auto* of = k.input<decltype(zero)>(choices);
    SNUG_RETURN_IF_ERROR(CheckChoices(name, type.shape, of, rows));
    SortByRow(of, type.num_elements(), rows, sorted, sorted + rows + 1);
    return absl::OkStatus();
  });
}

void SumSortedRows(const KernelContext& k, int choices, int dy, const Shape& shape, const int64_t* sorted,
                   int64_t first, int64_t count, void* block) {
  const RowSums of = {
      .n = k.input_type(choices).num_elements(), .rows = shape[0], .inner = shape.Count(1, shape.rank())};
  const absl::Status dispatched = DispatchFloating(k.input_type(dy).dtype, [&](auto zero) {
    using T = decltype(zero);
    SumRowsOf(k.threads(), of, sorted, sorted + of.rows + 1, k.input<T>(dy), first, first + count,
              static_cast<T*>(block));
    return absl::OkStatus();
  });
  SNUG_CHECK(dispatched.ok());
}

absl::Status GatherRows(const KernelContext& k, int x, int choices_input, int axis, absl::string_view name) {
  return DispatchInteger(k.input_type(choices_input).dtype, [&](auto zero) -> absl::Status {
    using Index = decltype(zero);
    const Index* choices = k.input<Index>(choices_input);
    const Shape& shape = k.input_type(x).shape;
    const int64_t n = k.input_type(choices_input).num_elements();
    const int64_t rows = shape[axis];
    SNUG_RETURN_IF_ERROR(CheckChoices(name, k.input_type(choices_input).shape, choices, rows));
    const int64_t row_elements = shape.Count(axis + 1, shape.rank());
    const int64_t row_bytes = row_elements * SizeOf(k.input_type(x).dtype);
    const char* from = k.input<char>(x);
    char* to = k.output<char>(0);
    ParallelFor(k.threads(), shape.Count(0, axis) * n, TaskRows(row_elements), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * row_bytes, from + (i / n * rows + choices[i % n]) * row_bytes,
                    static_cast<size_t>(row_bytes));
      }
    });
    return absl::OkStatus();
  });
}

absl::Status ScatterAddRows(const KernelContext& k, int choices, int dy, int axis, absl::string_view name) {
  return DispatchInteger(k.input_type(choices).dtype, [&](auto index) {
    return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
      return ScatterAdd<decltype(zero), decltype(index)>(k, choices, dy, axis, name);
    });
  });
}

int64_t ScatterAddWorkspaceBytes(const NodeTypes& types, int choices, int axis) {
  return (types.output(0).shape[axis] + 1 + types.input(choices).num_elements()) *
         static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace snug::core
