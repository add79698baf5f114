#include "ops/kernels/batch_norm/cuda_channels.h"
#include "ops/kit/cuda_axes.h"
#include "ops/kit/cuda_columns.h"
#include "ops/kit/cuda_kernel.h"
#include "ops/kit/cuda_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/rows_cuda.h"

namespace snug::core {
namespace {

// Rows that lie together. y may be x.
template <class T, class Deal>
__global__ void SoftmaxKernel(int64_t rows, int64_t width, bool log_of, const T* x, T* y) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(x + r * width, width);
    const ExpSum<A> found = SumExponentials<Deal>(row, width, [](int, auto, const auto&) {});
    const A log_sum = static_cast<A>(log(found.sum));
    const A scale = static_cast<A>(1 / found.sum);
    Deal::Each(width, [&](int n, auto i) {
      auto pack = row.At(n, i);
      for (int j = 0; j < Deal::kPack; ++j) {
        const A v = static_cast<A>(pack.values[j]) - found.largest;
        pack.values[j] = static_cast<T>(log_of ? v - log_sum : Exp(v) * scale);
      }
      StorePack<true>(pack, y + r * width + i, Deal::kPack);
    });
  }
}

// For softmax, dx = y (dy - sum(y dy)); for log_softmax, dx = dy - exp(y) sum(dy). dx may be y or dy.
template <class T, class Deal>
__global__ void SoftmaxGradKernel(int64_t rows, int64_t width, bool log_of, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> values(y + r * width, width);
    const DealtRow<T, Deal> grads(dy + r * width, width);
    const A sum = static_cast<A>(Deal::template Sum<A>(width, [&](int n, auto i) {
      const auto g = grads.At(n, i);
      if (log_of) return SumOfPack(g, [](A own) { return own; });
      const auto v = values.At(n, i);
      A of_pack = 0;
      for (int j = 0; j < Deal::kPack; ++j) of_pack += static_cast<A>(v.values[j]) * static_cast<A>(g.values[j]);
      return of_pack;
    }));
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      auto g = grads.At(n, i);
      for (int j = 0; j < Deal::kPack; ++j) {
        const A own = static_cast<A>(g.values[j]);
        const A value = static_cast<A>(v.values[j]);
        g.values[j] = static_cast<T>(log_of ? own - Exp(value) * sum : value * (own - sum));
      }
      StorePack<true>(g, dx + r * width + i, Deal::kPack);
    });
  }
}

// The same for rows whose numbers lie apart, as along channels. A thread does each row, its neighbour the next one.
template <class T>
__global__ void SoftmaxApartKernel(CudaRows rows, bool log_of, const T* x, T* y) {
  using A = Accumulator<T>;
  using Team = ThreadTeam;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const int64_t first = rows.At(row, 0);
    const auto at = [&](int64_t i) { return static_cast<A>(x[first + i * rows.inner]); };
    const A most = static_cast<A>(TeamReduce<Team, MaxOp, A>(rows.width, at));
    const double sum = TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) { return Exp(at(i) - most); });
    const A log_sum = static_cast<A>(log(sum));
    const A scale = static_cast<A>(1 / sum);
    for (int64_t i = 0; i < rows.width; ++i) {
      const A v = at(i) - most;
      y[first + i * rows.inner] = static_cast<T>(log_of ? v - log_sum : Exp(v) * scale);
    }
  }
}

template <class T>
__global__ void SoftmaxApartGradKernel(CudaRows rows, bool log_of, const T* y, const T* dy, T* dx) {
  using A = Accumulator<T>;
  using Team = ThreadTeam;
  for (int64_t row = Team::FirstRow(); row < rows.count(); row += Team::RowStep()) {
    const int64_t first = rows.At(row, 0);
    const A sum = static_cast<A>(TeamReduce<Team, SumOp, A>(rows.width, [&](int64_t i) {
      const A g = static_cast<A>(dy[first + i * rows.inner]);
      return log_of ? g : static_cast<A>(y[first + i * rows.inner]) * g;
    }));
    for (int64_t i = 0; i < rows.width; ++i) {
      const int64_t j = first + i * rows.inner;
      const A v = static_cast<A>(y[j]);
      const A g = static_cast<A>(dy[j]);
      dx[j] = static_cast<T>(log_of ? g - Exp(v) * sum : v * (g - sum));
    }
  }
}

// Reads a pack of parameters, which are float where T is bfloat16; `otherwise` where there are none.
template <int kPack, class S>
__device__ CudaPack<S, kPack> ParametersAt(const S* from, int64_t i, S otherwise) {
  constexpr int kOnce = kPack < kCudaPack<S> ? kPack : kCudaPack<S>;
  CudaPack<S, kPack> all;
  for (int first = 0; first < kPack; first += kOnce) {
    CudaPack<S, kOnce> some;
    if (from != nullptr) some = LoadPack<true, kOnce>(from + i + first, kOnce);
    for (int j = 0; j < kOnce; ++j) all.values[first + j] = from != nullptr ? some.values[j] : otherwise;
  }
  return all;
}
// Layer norm, and, where `means` is null, the norm without means: they are taken to be 0. weight and bias may be null.
// y may be x.
template <class T, class Deal>
__global__ void RowNormKernel(int64_t rows, int64_t width, double epsilon, const T* x, const Float32Port<T>* weight,
                              const Float32Port<T>* bias, T* y, Float32Port<T>* means, Float32Port<T>* inv_stds) {
  using A = Accumulator<T>;
  const double count = static_cast<double>(width);
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> row(x + r * width, width);
    A mean = 0;
    if (means != nullptr) {
      const double sum =
          Deal::template Sum<A>(width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [](A v) { return v; }); });
      mean = static_cast<A>(sum / count);
    }
    const double squares = Deal::template Sum<A>(
        width, [&](int n, auto i) { return SumOfPack(row.At(n, i), [&](A v) { return (v - mean) * (v - mean); }); });
    const A inv_std = static_cast<A>(1 / sqrt(squares / count + epsilon));
    if (Deal::Team::First() == 0) {
      if (means != nullptr) means[r] = mean;
      inv_stds[r] = inv_std;
    }
    Deal::Each(width, [&](int n, auto i) {
      auto pack = row.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
      const auto shift = ParametersAt<Deal::kPack, A>(bias, i, A(0));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A v = (static_cast<A>(pack.values[j]) - mean) * inv_std;
        pack.values[j] = static_cast<T>(v * scale.values[j] + shift.values[j]);
      }
      StorePack<true>(pack, y + r * width + i, Deal::kPack);
    });
  }
}

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')). Where `means` is
// null, mean and mean(g) are 0. dx may be x or dy.
template <class T, class Deal>
__global__ void RowNormGradKernel(int64_t rows, int64_t width, const T* x, const Float32Port<T>* weight,
                                  const Float32Port<T>* means, const Float32Port<T>* inv_stds, const T* dy, T* dx) {
  using A = Accumulator<T>;
  for (int64_t r = Deal::Team::FirstRow(); r < rows; r += Deal::Team::RowStep()) {
    const DealtRow<T, Deal> values(x + r * width, width);
    const DealtRow<T, Deal> grads(dy + r * width, width);
    const A mean = means != nullptr ? means[r] : A(0);
    const A inv_std = inv_stds[r];
    std::conditional_t<(Deal::kHeld > 0), A, double> own_g = 0;
    std::conditional_t<(Deal::kHeld > 0), A, double> own_gx = 0;
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      const auto d = grads.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
      A of_g = 0;
      A of_gx = 0;
      for (int j = 0; j < Deal::kPack; ++j) {
        const A g = static_cast<A>(d.values[j]) * scale.values[j];
        of_g += g;
        of_gx += g * (static_cast<A>(v.values[j]) - mean);
      }
      own_g += of_g;
      own_gx += of_gx;
    });
    const A count = static_cast<A>(width);
    A mean_g = 0;
    if (means != nullptr) {
      mean_g = static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_g))) / count;
    }
    const A mean_gx =
        static_cast<A>(Deal::Team::template Combine<SumOp>(static_cast<double>(own_gx))) * inv_std / count;
    Deal::Each(width, [&](int n, auto i) {
      const auto v = values.At(n, i);
      auto g = grads.At(n, i);
      const auto scale = ParametersAt<Deal::kPack, A>(weight, i, A(1));
      for (int j = 0; j < Deal::kPack; ++j) {
        const A normalized = (static_cast<A>(v.values[j]) - mean) * inv_std;
        const A own = static_cast<A>(g.values[j]) * scale.values[j];
        g.values[j] = static_cast<T>(inv_std * (own - mean_g - normalized * mean_gx));
      }
      StorePack<true>(g, dx + r * width + i, Deal::kPack);
    });
  }
}

// Sums over rows for dweight, and for dbias, which is null where `means` is.
template <class Type>
struct RowNormColumns {
  using T = Type;
  using A = Accumulator<T>;
  static constexpr int kSums = 2;
  const T* x;
  const T* dy;
  const Float32Port<T>* means;
  const Float32Port<T>* inv_stds;
  Float32Port<T>* dweight;
  Float32Port<T>* dbias;

  template <int kPack>
  struct Columns {};
  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
    A mean, inv_std;
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(int64_t, int) const {
    return {};
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t row, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(x + at, count), LoadPack<kWhole, kPack>(dy + at, count),
            means != nullptr ? means[row] : A(0), inv_stds[row]};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>&, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const A g = static_cast<A>(row.dy.values[j]);
      sums[0][j] += g * ((static_cast<A>(row.x.values[j]) - row.mean) * row.inv_std);
      sums[1][j] += g;
    }
  }
  __device__ void Take(int64_t column, const double (&totals)[2]) const {
    dweight[column] = static_cast<Float32Port<T>>(totals[0]);
    if (dbias != nullptr) dbias[column] = static_cast<Float32Port<T>>(totals[1]);
  }
};

// GroupRows as kernels walk them.
struct CudaGroupRows {
  // NOLINTNEXTLINE(google-explicit-constructor): what a launch passes to a kernel
  CudaGroupRows(const GroupRows& from)
      : groups(from), side(from.side_by_side ? from.per_group : from.inner, from.width()) {}
  GroupRows groups;
  CudaDivisor side;  // of the numbers of a row
};

// A row of CudaGroupRows.
class GroupRow {
 public:
  struct Number {
    int64_t at, channel;
  };

  __device__ GroupRow(const CudaGroupRows& rows, int64_t row)
      : rows_(rows), channels_(rows.groups.groups * rows.groups.per_group) {
    const GroupRows& groups = rows.groups;
    const int64_t sample = row / groups.groups;
    first_channel_ = (row - sample * groups.groups) * groups.per_group;
    first_ = groups.side_by_side ? sample * groups.inner * channels_ + first_channel_ : row * groups.width();
  }
  // Returns where number i lies, and of which channel it is.
  __device__ Number At(int64_t i) const {
    const GroupRows& groups = rows_.groups;
    const int64_t outer = rows_.side.Divide(i);
    if (!groups.side_by_side) return {first_ + i, first_channel_ + outer};
    const int64_t channel = i - outer * groups.per_group;
    return {first_ + outer * channels_ + channel, first_channel_ + channel};
  }

 private:
  const CudaGroupRows& rows_;
  int64_t channels_, first_channel_, first_;
};

// weight and bias may be null. y may be x.
template <class T, class Team>
__global__ void GroupNormKernel(CudaGroupRows rows, int64_t count, double epsilon, const T* x,
                                const Float32Port<T>* weight, const Float32Port<T>* bias, T* y, Float32Port<T>* means,
                                Float32Port<T>* inv_stds) {
  using A = Accumulator<T>;
  const int64_t n = rows.groups.width();
  const double numbers = static_cast<double>(n);
  for (int64_t r = Team::FirstRow(); r < count; r += Team::RowStep()) {
    const GroupRow row(rows, r);
    const auto at = [&](int64_t i) { return static_cast<A>(x[row.At(i).at]); };
    const A mean = static_cast<A>(TeamReduce<Team, SumOp, A>(n, at) / numbers);
    const double squares = TeamReduce<Team, SumOp, A>(n, [&](int64_t i) {
      const A d = at(i) - mean;
      return d * d;
    });
    const A inv_std = static_cast<A>(1 / sqrt(squares / numbers + epsilon));
    if (Team::First() == 0) {
      means[r] = mean;
      inv_stds[r] = inv_std;
    }
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      const auto [j, channel] = row.At(i);
      A v = (static_cast<A>(x[j]) - mean) * inv_std;
      if (weight != nullptr) v *= weight[channel];
      if (bias != nullptr) v += bias[channel];
      y[j] = static_cast<T>(v);
    }
  }
}

// dx = inv_std (g - mean(g) - x' mean(g x')), as above. dx may be x or dy.
template <class T, class Team>
__global__ void GroupNormGradKernel(CudaGroupRows rows, int64_t count, const T* x, const Float32Port<T>* weight,
                                    const Float32Port<T>* means, const Float32Port<T>* inv_stds, const T* dy, T* dx) {
  using A = Accumulator<T>;
  const int64_t n = rows.groups.width();
  const A numbers = static_cast<A>(n);
  for (int64_t r = Team::FirstRow(); r < count; r += Team::RowStep()) {
    const GroupRow row(rows, r);
    const A inv_std = inv_stds[r];
    const A mean = means[r];
    const auto g = [&](const GroupRow::Number& number) {
      const A d = static_cast<A>(dy[number.at]);
      return weight != nullptr ? d * weight[number.channel] : d;
    };
    const auto centred = [&](const GroupRow::Number& number) { return static_cast<A>(x[number.at]) - mean; };
    const A mean_g = static_cast<A>(TeamReduce<Team, SumOp, A>(n, [&](int64_t i) { return g(row.At(i)); })) / numbers;
    const double products = TeamReduce<Team, SumOp, A>(n, [&](int64_t i) {
      const GroupRow::Number number = row.At(i);
      return g(number) * centred(number);
    });
    const A mean_gx = static_cast<A>(products) * inv_std / numbers;
    for (int64_t i = Team::First(); i < n; i += Team::Step()) {
      const GroupRow::Number number = row.At(i);
      dx[number.at] = static_cast<T>(inv_std * (g(number) - mean_g - centred(number) * inv_std * mean_gx));
    }
  }
}

// What group_norm's dweight and dbias are summed of.
template <class Type>
struct GroupNormChannels {
  using T = Type;
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  static constexpr int kSums = 2;
  GroupRows groups;
  CudaDivisor rows_of_sample;
  const T *x, *dy;
  const S *means, *inv_stds;
  S *dweight, *dbias;

  template <int kPack>
  struct Row {
    CudaPack<T, kPack> x, dy;
    int64_t sample;
  };
  template <int kPack>
  struct Columns {
    int group[kPack];
  };
  template <int kPack>
  __device__ Columns<kPack> ColumnOf(int64_t channel) const {
    Columns<kPack> columns;
    const auto group = static_cast<int>(channel / groups.per_group);
    for (int j = 0; j < kPack; ++j) columns.group[j] = group;
    return columns;
  }
  template <int kPack>
  __device__ Columns<kPack> ColumnsOfBlock(int64_t column, int count) const {
    Columns<kPack> columns;
    for (int j = 0; j < kPack; ++j) {
      columns.group[j] = j < count ? static_cast<int>((column + j) / groups.per_group) : 0;
    }
    return columns;
  }
  template <bool kWhole, int kPack>
  __device__ Row<kPack> Load(int64_t row, int64_t at, int count) const {
    return {LoadPack<kWhole, kPack>(x + at, count), LoadPack<kWhole, kPack>(dy + at, count),
            rows_of_sample.Divide(row)};
  }
  template <bool kWhole, int kPack, class Sums>
  __device__ void Use(const Columns<kPack>& columns, const Row<kPack>& row, int64_t, int, Sums& sums) const {
    for (int j = 0; j < kPack; ++j) {
      const int64_t group = row.sample * groups.groups + columns.group[j];
      const A g = static_cast<A>(row.dy.values[j]);
      sums[0][j] += g * ((static_cast<A>(row.x.values[j]) - static_cast<A>(means[group])) * inv_stds[group]);
      sums[1][j] += g;
    }
  }
  __device__ void Take(int64_t channel, const double (&totals)[2]) const {
    dweight[channel] = static_cast<S>(totals[0]);
    dbias[channel] = static_cast<S>(totals[1]);
  }
};

// ChannelWindow as kernels walk it.
struct CudaChannelWindow : ChannelWindow {
  CudaChannelWindow(const ChannelWindow& window, int64_t elements)
      : ChannelWindow(window), by_inner(window.inner, elements), by_channels(window.channels, elements) {}
  CudaDivisor by_inner, by_channels;
};

// Sums load(j) over the channels j of the window around element i. Mirrored, it is the window of those whose windows
// have i.
template <class A, class Load>
__device__ A SumWindow(const CudaChannelWindow& window, int64_t i, bool mirrored, const Load& load) {
  const int64_t run = window.by_inner.Divide(i);
  const int64_t channel = run - window.by_channels.Divide(run) * window.channels;
  const int64_t before = mirrored ? window.after : window.before;
  const int64_t after = mirrored ? window.before : window.after;
  const int64_t first = channel < before ? -channel : -before;
  const int64_t last = channel + after < window.channels ? after : window.channels - 1 - channel;
  A sum = 0;
  for (int64_t j = first; j <= last; ++j) sum += load(i + j * window.inner);
  return sum;
}

// Returns what local_response_norm takes the power of.
template <class A, class T>
__device__ A ResponseAround(const CudaChannelWindow& window, int64_t i, const T* x) {
  const A squares = SumWindow<A>(window, i, /*mirrored=*/false, [&](int64_t j) {
    const A v = static_cast<A>(x[j]);
    return v * v;
  });
  return static_cast<A>(window.k) + static_cast<A>(window.alpha) * squares;
}

template <class T>
__global__ void ResponseKernel(int64_t n, CudaChannelWindow window, const T* x, T* y) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    y[i] = static_cast<T>(static_cast<A>(x[i]) * power);
  }
}

// Computes for each element what it passes on to the others in its window: dy x response^(-beta - 1).
template <class T>
__global__ void ResponsePassedKernel(int64_t n, CudaChannelWindow window, const T* x, const T* dy,
                                     Accumulator<T>* passed) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A response = ResponseAround<A>(window, i, x);
    const A power = Pow(response, static_cast<A>(-window.beta));
    passed[i] = static_cast<A>(dy[i]) * static_cast<A>(x[i]) * power / response;
  }
}

// dx may be dy.
template <class T>
__global__ void ResponseGradKernel(int64_t n, CudaChannelWindow window, const T* x, const T* dy,
                                   const Accumulator<T>* passed, T* dx) {
  using A = Accumulator<T>;
  SNUG_CUDA_FOR(i, n) {
    const A power = Pow(ResponseAround<A>(window, i, x), static_cast<A>(-window.beta));
    const A sum = SumWindow<A>(window, i, /*mirrored=*/true, [&](int64_t j) { return passed[j]; });
    const A factor = static_cast<A>(2 * window.alpha * window.beta);
    dx[i] = static_cast<T>(static_cast<A>(dy[i]) * power - factor * static_cast<A>(x[i]) * sum);
  }
}
template <class T>
absl::Status Softmax(const KernelContext& k, const CudaRows& rows, bool log_of) {
  const T* x = k.input<T>(0);
  T* y = k.output<T>(0);
  if (rows.inner > 1) {
    return k.cuda()->Launch(SoftmaxApartKernel<T>, ShapeFor(rows.count()), rows, log_of, x, y);
  }
  return DealRows<T, true>(rows.outer, rows.width, IsAligned(x) && IsAligned(y), [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(SoftmaxKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows.outer, rows.width,
                            log_of, x, y);
  });
}

template <class T>
absl::Status SoftmaxGrad(const KernelContext& k, const CudaRows& rows, bool log_of) {
  const T* y = k.input<T>(0);
  const T* dy = k.input<T>(1);
  T* dx = k.output<T>(0);
  if (rows.inner > 1) {
    return k.cuda()->Launch(SoftmaxApartGradKernel<T>, ShapeFor(rows.count()), rows, log_of, y, dy, dx);
  }
  return DealRows<T, true>(
      rows.outer, rows.width, IsAligned(y) && IsAligned(dy) && IsAligned(dx), [&]<class Deal>(Deal, int64_t blocks) {
        return k.cuda()->Launch(SoftmaxGradKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows.outer,
                                rows.width, log_of, y, dy, dx);
      });
}

template <class T>
const Float32Port<T>* PortOrNull(const KernelContext& k, int i) {
  return k.has_input(i) ? k.input<Float32Port<T>>(i) : nullptr;
}

template <class T>
absl::Status RowNorm(const KernelContext& k, int64_t rows, int64_t width, double epsilon, const Float32Port<T>* bias,
                     Float32Port<T>* means, Float32Port<T>* inv_stds) {
  const T* x = k.input<T>(0);
  const Float32Port<T>* weight = PortOrNull<T>(k, 1);
  T* y = k.output<T>(0);
  return DealRows<T, true>(rows, width, AllAligned(x, weight, bias, y), [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(RowNormKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, width, epsilon,
                            x, weight, bias, y, means, inv_stds);
  });
}

// Sets dx and what `columns` sums.
template <class T>
absl::Status RowNormGrad(const KernelContext& k, int64_t rows, int64_t width, const RowNormColumns<T>& columns) {
  const Float32Port<T>* weight = PortOrNull<T>(k, 1);
  T* dx = k.output<T>(0);
  const bool aligned = AllAligned(columns.x, weight, columns.dy, dx);
  SNUG_RETURN_IF_ERROR(
      SumColumns<4>(k, ColumnTiles(rows, width), columns, aligned && width % kCudaPack<T> == 0, k.workspace<double>()));
  return DealRows<T, true>(rows, width, aligned, [&]<class Deal>(Deal, int64_t blocks) {
    return k.cuda()->Launch(RowNormGradKernel<T, Deal>, {.blocks = blocks, .threads = kCudaThreads}, rows, width,
                            columns.x, weight, columns.means, columns.inv_stds, columns.dy, dx);
  });
}

}  // namespace

absl::Status SoftmaxCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return Softmax<decltype(zero)>(k, {outer, axis, inner}, log);
  });
}

absl::Status SoftmaxGradCuda(const KernelContext& k, bool log, int64_t outer, int64_t axis, int64_t inner) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    return SoftmaxGrad<decltype(zero)>(k, {outer, axis, inner}, log);
  });
}

absl::Status LayerNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNorm<T>(k, rows, width, epsilon, PortOrNull<T>(k, 2), k.output<S>(1), k.output<S>(2));
  });
}

int64_t LayerNormGradCudaWorkspace(int64_t rows, int64_t width) { return ColumnTiles(rows, width).WorkspaceBytes(2); }

absl::Status LayerNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNormGrad<T>(k, rows, width,
                          {.x = k.input<T>(0),
                           .dy = k.input<T>(4),
                           .means = k.input<S>(2),
                           .inv_stds = k.input<S>(3),
                           .dweight = k.output<S>(1),
                           .dbias = k.output<S>(2)});
  });
}

absl::Status RmsNormCuda(const KernelContext& k, int64_t rows, int64_t width, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return RowNorm<T>(k, rows, width, epsilon, /*bias=*/nullptr, /*means=*/nullptr, k.output<Float32Port<T>>(1));
  });
}

int64_t RmsNormGradCudaWorkspace(int64_t rows, int64_t width) { return LayerNormGradCudaWorkspace(rows, width); }

absl::Status RmsNormGradCuda(const KernelContext& k, int64_t rows, int64_t width) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    return RowNormGrad<T>(k, rows, width,
                          {.x = k.input<T>(0),
                           .dy = k.input<T>(3),
                           .means = nullptr,
                           .inv_stds = k.input<S>(2),
                           .dweight = k.output<S>(1),
                           .dbias = nullptr});
  });
}

absl::Status GroupNormCuda(const KernelContext& k, const GroupRows& rows, double epsilon) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const int64_t count = rows.samples * rows.groups;
    return LaunchRows(k, {.outer = count, .width = rows.width()}, GroupNormKernel<T, ThreadTeam>,
                      GroupNormKernel<T, BlockTeam>, rows, count, epsilon, k.input<T>(0), PortOrNull<T>(k, 1),
                      PortOrNull<T>(k, 2), k.output<T>(0), k.output<S>(1), k.output<S>(2));
  });
}

int64_t GroupNormGradCudaWorkspace(const ValueType& x) { return ChannelSumsBytes(ChannelView(x), 2); }

absl::Status GroupNormGradCuda(const KernelContext& k, const GroupRows& rows) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const ChannelView view(k.input_type(0));
    const GroupNormChannels<T> terms = {.groups = rows,
                                        .rows_of_sample = {view.outer / std::max<int64_t>(rows.samples, 1), view.outer},
                                        .x = k.input<T>(0),
                                        .dy = k.input<T>(4),
                                        .means = k.input<S>(2),
                                        .inv_stds = k.input<S>(3),
                                        .dweight = k.output<S>(1),
                                        .dbias = k.output<S>(2)};
    SNUG_RETURN_IF_ERROR(SumChannels<2>(k, view, terms, AllAligned(terms.x, terms.dy), k.workspace<double>()));
    const int64_t count = rows.samples * rows.groups;
    return LaunchRows(k, {.outer = count, .width = rows.width()}, GroupNormGradKernel<T, ThreadTeam>,
                      GroupNormGradKernel<T, BlockTeam>, rows, count, terms.x, PortOrNull<T>(k, 1), terms.means,
                      terms.inv_stds, terms.dy, k.output<T>(0));
  });
}

absl::Status LocalResponseNormCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    const CudaChannelWindow walked(window, n);
    return k.cuda()->Launch(ResponseKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.output<T>(0));
  });
}

absl::Status LocalResponseNormGradCuda(const KernelContext& k, const ChannelWindow& window) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t n = k.input_type(0).num_elements();
    const CudaChannelWindow walked(window, n);
    auto* passed = k.workspace<Accumulator<T>>();
    SNUG_RETURN_IF_ERROR(
        k.cuda()->Launch(ResponsePassedKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.input<T>(1), passed));
    return k.cuda()->Launch(ResponseGradKernel<T>, ShapeFor(n), n, walked, k.input<T>(0), k.input<T>(1), passed,
                            k.output<T>(0));
  });
}

}  // namespace snug::core
