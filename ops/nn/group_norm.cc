// group_norm: normalises each group of neighbouring channels (axis 1) of each sample by its own mean and variance (Wu,
// He 2018); and its gradient. A group of a plain value lies together and is done from start to end, so what is read
// again comes from the cache. Where channels lie side by side (channels-last, or no axes after the channels) the
// positions of a sample are cut into chunks, by the shape alone: sums of each chunk and channel are left in the
// workspace and added in order. So the bits are the same on any number of threads.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/layer_context.h"
#include "ops/nn/norm_rows.h"
#include "ops/nn/rows_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::group_norm {
namespace {

using proto::ParseOptions;

constexpr int64_t kMaxRows = 512;  // a chunk has no more positions, as they are added up in float

struct View {
  View(const ValueType& x, const proto::GroupNorm& options)
      : samples(x.shape[0]), channels(x.shape[1]), inner(x.shape.Count(2, x.shape.rank())), groups(options.groups()) {
    per_group = channels / groups;
    side_by_side = x.layout.channels_last() || inner == 1;
    if (side_by_side) {
      rows_per_chunk = std::clamp(kNormChunk / std::max<int64_t>(1, channels), kMinNormRows, kMaxRows);
      chunks = (inner + rows_per_chunk - 1) / rows_per_chunk;
      at_once = AtOnce(std::min(inner, rows_per_chunk) * channels);
    }
  }
  // Returns how many pieces of work, of so many elements, are worth a thread.
  static int64_t AtOnce(int64_t elements) { return std::max<int64_t>(1, kNormChunk / std::max<int64_t>(1, elements)); }

  GroupRows OnCuda() const {
    return {.samples = samples, .groups = groups, .per_group = per_group, .inner = inner, .side_by_side = side_by_side};
  }

  int64_t elements_of_group() const { return per_group * inner; }
  // These are for chunks, which are counted through all samples.
  int64_t RowsOf(int64_t chunk) const { return std::min(rows_per_chunk, inner - chunk % chunks * rows_per_chunk); }
  int64_t Offset(int64_t chunk) const { return (chunk / chunks * inner + chunk % chunks * rows_per_chunk) * channels; }

  int64_t samples, channels, inner;  // `inner` positions
  int64_t groups, per_group;
  bool side_by_side;
  int64_t rows_per_chunk = 0, chunks = 1;  // of a sample
  int64_t at_once = 1;                     // chunks that are a piece of work
};

absl::Status CheckGroups(const InferContext& c) {
  const auto& options = c.options<proto::GroupNorm>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const int64_t channels = c.shape(0)[1];
  if (options.groups() < 1 || channels % options.groups() != 0) {
    return c.OptionError("groups",
                         absl::StrCat("expected a divisor of ", channels, " (the channels), found ", options.groups()));
  }
  if (!(options.epsilon() >= 0)) {
    return c.OptionError("epsilon", absl::StrCat("expected at least 0, found ", options.epsilon()));
  }
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckGroups(c));
  const ValueType& x = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.has_input(i)) SNUG_RETURN_IF_ERROR(c.CheckShape(i, {x.shape[1]}));
  }
  c.SetOutput(0, x);
  const Shape statistics = {x.shape[0], c.options<proto::GroupNorm>().groups()};
  for (const int statistic : {1, 2}) c.SetOutput(statistic, Float32PortType(x.dtype), statistics);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckGroups(c));
  const ValueType& x = c.input(0);
  const Shape channels = {x.shape[1]};
  if (c.has_input(1)) SNUG_RETURN_IF_ERROR(c.CheckShape(1, channels));
  const Shape statistics = {x.shape[0], c.options<proto::GroupNorm>().groups()};
  for (const int statistic : {2, 3}) SNUG_RETURN_IF_ERROR(c.CheckShape(statistic, statistics));
  SNUG_RETURN_IF_ERROR(c.CheckShape(4, x.shape));
  c.SetOutput(0, c.input(4));
  for (const int gradient : {1, 2}) c.SetOutput(gradient, Float32PortType(x.dtype), channels);
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const auto& options = c.options<proto::GroupNorm>();
  std::vector<ValueId> inputs = c.inputs();
  const bool valid = inputs.size() == 1 && c.type(inputs[0]).shape.rank() >= 2;
  if (valid && options.affine()) {  // otherwise shape inference says what is wrong
    const Shape channels = {c.type(inputs[0]).shape[1]};
    inputs.push_back(
        c.Parameter({.name = "weight", .shape = channels, .init = ParameterSpec::Init::kConstant, .value = 1}));
    inputs.push_back(c.Parameter({.name = "bias", .shape = channels, .init = ParameterSpec::Init::kConstant}));
  }
  c.SetOutput(0, c.Op("group_norm", inputs, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("group_norm_grad",
            {g.input(0), g.has_input(1) ? g.input(1) : ValueId(), g.output(1), g.output(2), g.output_grad(0)},
            g.options_handle());
  g.SetInputGrads(grads);
  return g.status();
}

// Makes room for two numbers of each chunk and channel, and `numbers` of each sample and channel.
void SetWorkspace(PrepareContext& c, const View& view, int64_t numbers) {
  c.SetWorkspaceBytes(view.samples * (view.chunks * 2 + numbers) * view.channels *
                      SizeOf(Float32PortType(c.types().input(0).dtype)));
}

absl::Status Prepare(PrepareContext& c) {
  const View view(c.types().input(0), c.options<proto::GroupNorm>());
  if (view.side_by_side) SetWorkspace(c, view, /*numbers=*/0);
  return absl::OkStatus();
}

constexpr int64_t kGradNumbers = 4;

absl::Status PrepareGrad(PrepareContext& c) {
  const View view(c.types().input(0), c.options<proto::GroupNorm>());
  SetWorkspace(c, view, view.side_by_side ? kGradNumbers : 0);
  return absl::OkStatus();
}

Cost CostOfNode(const NodeTypes& types) { return {.flops = 8.0 * static_cast<double>(types.input(0).num_elements())}; }
Cost CostOfGrad(const NodeTypes& types) { return {.flops = 14.0 * static_cast<double>(types.input(0).num_elements())}; }

template <class T>
struct ForwardCall {
  explicit ForwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        bias(k.has_input(2) ? k.input<S>(2) : nullptr),
        y(k.output<T>(0)),
        means(k.output<S>(1)),
        inv_stds(k.output<S>(2)),
        epsilon(k.options<proto::GroupNorm>().epsilon()) {}
  using S = Float32Port<T>;
  const T* x;
  const S *weight, *bias;
  T* y;
  S *means, *inv_stds;  // [samples, groups]
  double epsilon;
};

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')), means over the group;
// dweight and dbias are the sums over samples and positions of dy x' and dy. The sums over positions, for each channel,
// give the group's means too.
template <class T>
struct BackwardCall {
  explicit BackwardCall(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        means(k.input<S>(2)),
        inv_stds(k.input<S>(3)),
        dy(k.input<T>(4)),
        dx(k.output<T>(0)) {}
  using S = Float32Port<T>;
  const T* x;
  const S* weight;
  const S *means, *inv_stds;
  const T* dy;
  T* dx;
};

// A channel's gradient is dx = dy scale + (x - mean) slope + offset; the last two are the same for the whole group.
template <class A>
struct GroupGradient {
  // `g` and `gx` are the sums of g and of g (x - mean) over the group.
  SNUG_INLINE GroupGradient(double g, double gx, double inv_std, int64_t count)
      : slope(static_cast<A>(-inv_std * inv_std * inv_std * gx / static_cast<double>(count))),
        offset(static_cast<A>(-inv_std * g / static_cast<double>(count))) {}
  A slope, offset;
};

// ---- plain values ----

template <class T>
void ForwardPlain(int threads, const View& view, const ForwardCall<T>& call) {
  using A = Accumulator<T>;
  const int64_t n = view.elements_of_group();
  const int64_t inner = view.inner;
  ParallelFor(threads, view.samples * view.groups, View::AtOnce(n), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t group = begin; group < end; ++group) {
        const T* x = call.x + group * n;
        T* y = call.y + group * n;
        const double count = static_cast<double>(n);
        const A mean =
            static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(x[i]); }) / count);
        const double squares = LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA {
          const A d = static_cast<A>(x[i]) - mean;
          return d * d;
        });
        const A inv_std = static_cast<A>(1 / std::sqrt(squares / count + call.epsilon));
        call.means[group] = mean;
        call.inv_stds[group] = inv_std;
        const int64_t first = group % view.groups * view.per_group;
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = x + c * inner;
          T* b = y + c * inner;
          const A scale = call.weight != nullptr ? inv_std * call.weight[first + c] : inv_std;
          const A bias = call.bias != nullptr ? call.bias[first + c] : A(0);
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < inner; ++i) b[i] = static_cast<T>((static_cast<A>(a[i]) - mean) * scale + bias);
        }
      }
    });
  });
}

// Leaves the sums of dy x' and of dy over the positions in `sums`, [samples][2][channels].
template <class T>
void BackwardPlain(int threads, const View& view, const BackwardCall<T>& call, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  const int64_t n = view.elements_of_group();
  const int64_t inner = view.inner;
  ParallelFor(threads, view.samples * view.groups, View::AtOnce(n), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t group = begin; group < end; ++group) {
        const A mean = call.means[group];
        const A inv_std = call.inv_stds[group];
        const int64_t first = group % view.groups * view.per_group;
        A* products = sums + group / view.groups * 2 * view.channels + first;
        A* dys = products + view.channels;
        double g = 0, gx = 0;
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = call.x + group * n + c * inner;
          const T* d = call.dy + group * n + c * inner;
          const double dy = LaneSum<A>(inner, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(d[i]); });
          const double product = LaneSum<A>(
              inner, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(d[i]) * (static_cast<A>(a[i]) - mean); });
          const double weight = call.weight != nullptr ? static_cast<double>(call.weight[first + c]) : 1;
          g += weight * dy;
          gx += weight * product;
          dys[c] = static_cast<A>(dy);
          products[c] = static_cast<A>(product * static_cast<double>(inv_std));
        }
        const GroupGradient<A> gradient(g, gx, static_cast<double>(inv_std), n);
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = call.x + group * n + c * inner;
          const T* d = call.dy + group * n + c * inner;
          T* b = call.dx + group * n + c * inner;
          const A scale = call.weight != nullptr ? inv_std * call.weight[first + c] : inv_std;
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < inner; ++i) {
            b[i] = static_cast<T>(static_cast<A>(d[i]) * scale +
                                  ((static_cast<A>(a[i]) - mean) * gradient.slope + gradient.offset));
          }
        }
      }
    });
  });
}

// ---- channels side by side ----

// Adds up element(offset, channel) over the rows of a chunk, for each channel.
template <class A, class Element>
SNUG_INLINE void SumRows(int64_t rows, int64_t channels, A* sums, Element element) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const int64_t i = row * channels;
    SNUG_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += (element(i + c, c) + element(i + channels + c, c)) +
                 (element(i + 2 * channels + c, c) + element(i + 3 * channels + c, c));
    }
  }
  for (; row < rows; ++row) {
    const int64_t i = row * channels;
    SNUG_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) sums[c] += element(i + c, c);
  }
}

template <class A>
SNUG_INLINE double SumOf(const A* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// `workspace` is [chunks of all samples][2][channels]: first, for each chunk, the means of its groups, once for each of
// their channels, and the sums of squares around these, in a group's first channel. Then the first chunk of each sample
// has the sample's means and scales instead.
template <class T>
void ForwardSideBySide(int threads, const View& view, const ForwardCall<T>& call, Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  const int64_t channels = view.channels;
  const int64_t per_group = view.per_group;
  const int64_t all_chunks = view.samples * view.chunks;
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const T* x = call.x + view.Offset(chunk);
        const int64_t rows = view.RowsOf(chunk);
        A* means = workspace + chunk * 2 * channels;
        A* squares = means + channels;
        SumRows(rows, channels, means, [=](int64_t i, int64_t) SNUG_LAMBDA { return static_cast<A>(x[i]); });
        for (int64_t first = 0; first < channels; first += per_group) {
          const A mean = static_cast<A>(SumOf(means + first, per_group) / static_cast<double>(rows * per_group));
          for (int64_t c = 0; c < per_group; ++c) means[first + c] = mean;
        }
        SumRows(rows, channels, squares, [=](int64_t i, int64_t c) SNUG_LAMBDA {
          const A d = static_cast<A>(x[i]) - means[c];
          return d * d;
        });
        for (int64_t first = 0; first < channels; first += per_group) {
          squares[first] = static_cast<A>(SumOf(squares + first, per_group));
        }
      }
    });
  });
  const int64_t samples_at_once = View::AtOnce(view.chunks * channels);
  ParallelFor(threads, view.samples, samples_at_once, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin * view.groups; group < end * view.groups; ++group) {
      const int64_t sample = group / view.groups;
      A* numbers = workspace + sample * view.chunks * 2 * channels + group % view.groups * per_group;
      const double count = static_cast<double>(view.elements_of_group());
      double sum = 0;
      for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
        sum += static_cast<double>(numbers[chunk * 2 * channels]) * static_cast<double>(view.RowsOf(chunk) * per_group);
      }
      const double mean = sum / count;
      double squares = 0;
      for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
        const A* of_chunk = numbers + chunk * 2 * channels;
        const double d = static_cast<double>(of_chunk[0]) - mean;
        squares +=
            static_cast<double>(of_chunk[channels]) + d * d * static_cast<double>(view.RowsOf(chunk) * per_group);
      }
      const A inv_std = static_cast<A>(1 / std::sqrt(squares / count + call.epsilon));
      call.means[group] = static_cast<A>(mean);
      call.inv_stds[group] = inv_std;
      const auto* weight = call.weight != nullptr ? call.weight + group % view.groups * per_group : nullptr;
      for (int64_t c = 0; c < per_group; ++c) {
        numbers[c] = static_cast<A>(mean);
        numbers[channels + c] = weight != nullptr ? inv_std * weight[c] : inv_std;
      }
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const A* means = workspace + chunk / view.chunks * view.chunks * 2 * channels;
        const A* scales = means + channels;
        const auto* bias = call.bias;
        for (int64_t row = 0; row < view.RowsOf(chunk); ++row) {
          const T* x = call.x + view.Offset(chunk) + row * channels;
          T* y = call.y + view.Offset(chunk) + row * channels;
          if (bias != nullptr) {
            SNUG_INDEPENDENT
            for (int64_t c = 0; c < channels; ++c) {
              y[c] = static_cast<T>((static_cast<A>(x[c]) - means[c]) * scales[c] + bias[c]);
            }
          } else {
            SNUG_INDEPENDENT
            for (int64_t c = 0; c < channels; ++c) y[c] = static_cast<T>((static_cast<A>(x[c]) - means[c]) * scales[c]);
          }
        }
      }
    });
  });
}

// `sums` is [chunks of all samples][2][channels]: of dy (x - mean) and of dy. Then the first chunk of each sample has
// the sums of dy x' and dy over all of them. `numbers` is [samples][kGradNumbers][channels]: means, scales, slopes,
// offsets.
template <class T>
void BackwardSideBySide(int threads, const View& view, const BackwardCall<T>& call, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  const int64_t channels = view.channels;
  const int64_t per_group = view.per_group;
  const int64_t all_chunks = view.samples * view.chunks;
  A* const numbers = sums + all_chunks * 2 * channels;
  const int64_t samples_at_once = View::AtOnce(view.chunks * channels);
  ParallelFor(threads, view.samples * view.groups, samples_at_once * view.groups, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      A* means = numbers + group / view.groups * kGradNumbers * channels + group % view.groups * per_group;
      for (int64_t c = 0; c < per_group; ++c) means[c] = call.means[group];
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const T* x = call.x + view.Offset(chunk);
        const T* dy = call.dy + view.Offset(chunk);
        const A* means = numbers + chunk / view.chunks * kGradNumbers * channels;
        A* products = sums + chunk * 2 * channels;
        SumRows(view.RowsOf(chunk), channels, products, [=](int64_t i, int64_t c) SNUG_LAMBDA {
          return static_cast<A>(dy[i]) * (static_cast<A>(x[i]) - means[c]);
        });
        SumRows(view.RowsOf(chunk), channels, products + channels,
                [=](int64_t i, int64_t) SNUG_LAMBDA { return static_cast<A>(dy[i]); });
      }
    });
  });
  ParallelFor(threads, view.samples, samples_at_once, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin * view.groups; group < end * view.groups; ++group) {
      const int64_t sample = group / view.groups;
      const int64_t first = group % view.groups * per_group;
      A* products = sums + sample * view.chunks * 2 * channels + first;
      const A inv_std = call.inv_stds[group];
      const auto* weight = call.weight != nullptr ? call.weight + first : nullptr;
      double g = 0, gx = 0;
      for (int64_t c = 0; c < per_group; ++c) {
        double product = 0, dy = 0;
        for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
          product += static_cast<double>(products[chunk * 2 * channels + c]);
          dy += static_cast<double>(products[chunk * 2 * channels + channels + c]);
        }
        const double factor = weight != nullptr ? static_cast<double>(weight[c]) : 1;
        g += factor * dy;
        gx += factor * product;
        products[c] = static_cast<A>(product * static_cast<double>(inv_std));
        products[channels + c] = static_cast<A>(dy);
      }
      const GroupGradient<A> gradient(g, gx, static_cast<double>(inv_std), view.elements_of_group());
      A* scales = numbers + (sample * kGradNumbers + 1) * channels + first;
      for (int64_t c = 0; c < per_group; ++c) {
        scales[c] = weight != nullptr ? inv_std * weight[c] : inv_std;
        scales[channels + c] = gradient.slope;
        scales[2 * channels + c] = gradient.offset;
      }
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const A* means = numbers + chunk / view.chunks * kGradNumbers * channels;
        const A* scales = means + channels;
        const A* slopes = scales + channels;
        const A* offsets = slopes + channels;
        for (int64_t row = 0; row < view.RowsOf(chunk); ++row) {
          const int64_t at = view.Offset(chunk) + row * channels;
          const T* x = call.x + at;
          const T* dy = call.dy + at;
          T* dx = call.dx + at;
          SNUG_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            dx[c] = static_cast<T>(static_cast<A>(dy[c]) * scales[c] +
                                   ((static_cast<A>(x[c]) - means[c]) * slopes[c] + offsets[c]));
          }
        }
      }
    });
  });
}

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const View view(k.input_type(0), k.options<proto::GroupNorm>());
    const ForwardCall<T> call(k);
    if (view.side_by_side) {
      ForwardSideBySide(k.threads(), view, call, k.workspace<Accumulator<T>>());
    } else {
      ForwardPlain(k.threads(), view, call);
    }
    return absl::OkStatus();
  });
}

absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using S = Float32Port<T>;
    const View view(k.input_type(0), k.options<proto::GroupNorm>());
    const BackwardCall<T> call(k);
    S* const sums = k.workspace<S>();
    if (view.side_by_side) {
      BackwardSideBySide(k.threads(), view, call, sums);
    } else {
      BackwardPlain(k.threads(), view, call, sums);
    }
    const int64_t step = view.chunks * 2 * view.channels;
    AddNormChunks(k.threads(), view.samples, step, view.channels, sums, k.output<S>(1));
    AddNormChunks(k.threads(), view.samples, step, view.channels, sums + view.channels, k.output<S>(2));
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, const char* options, const Shape& x) -> Sample& {
    return s.Case(name)
        .With(ParseOptions<proto::GroupNorm>(options))
        .Input(x)
        .Input({x[1]})
        .Range(0.5, 2)
        .Input({x[1]});
  };
  affine("image", "groups: 2", {3, 6, 4, 3});
  affine("one_group", "groups: 1 epsilon: 0.01", {2, 3, 5, 5});
  affine("group_for_each_channel", "groups: 5", {3, 5, 4, 7});
  affine("signal", "groups: 3", {2, 9, 19});
  affine("volume", "groups: 4", {2, 16, 3, 2, 5});
  affine("vector", "groups: 7", {5, 133});
  affine("one_pixel", "groups: 11", {2, 33, 1, 1});
  affine("one_channel", "groups: 1", {2, 1, 35, 37});
  affine("chunks", "groups: 2", {2, 68, 33, 31});
  affine("many_channels", "groups: 37", {2, 259, 3, 3});
  s.Case("no_affine").With(ParseOptions<proto::GroupNorm>("groups: 3 affine: false")).Input({3, 6, 4, 3});
  s.Case("no_bias").With(ParseOptions<proto::GroupNorm>("groups: 2")).Input({3, 6, 4}).Input({6});
  affine("far_from_zero", "groups: 2", {2, 4, 7, 5}).Tolerance(2e-5, 5e-2);
  s.Case("hot_pixel")  // a single number that is not 0 decides mean and variance
      .With(ParseOptions<proto::GroupNorm>("groups: 1"))
      .Input({1, 1, 2, 4})
      .Values({8, 0, 0, 0, 0, 0, 0, 0})
      .NoGradient();
  s.Case("known")
      .With(ParseOptions<proto::GroupNorm>("groups: 2 epsilon: 0"))
      .Input({1, 4, 1})
      .Values({1, 3, 5, 5.5})
      .NoGradient()
      .Input({4})
      .Values({1, 2, 3, 4})
      .NoGradient()
      .Input({4})
      .Values({0, 10, 20, 30})
      .NoGradient()
      .Expect(0, {-1, 12, 17, 34})
      .Expect(1, {2, 5.25})
      .Expect(2, {1, 4});
  s.Case("rank").With(ParseOptions<proto::GroupNorm>("groups: 1")).Input({5}).Fails("expected 2 to 8 dimensions");
  s.Case("groups")
      .With(ParseOptions<proto::GroupNorm>("groups: 4"))
      .Input({3, 6, 4})
      .Fails("option \"groups\": expected a divisor of 6 (the channels), found 4");
  s.Case("no_groups").Input({3, 6, 4}).Fails("option \"groups\": expected a divisor of 6 (the channels), found 0");
  s.Case("epsilon")
      .With(ParseOptions<proto::GroupNorm>("groups: 2 epsilon: -1"))
      .Input({3, 6})
      .Fails("option \"epsilon\": expected at least 0, found -1");
  s.Case("weight")
      .With(ParseOptions<proto::GroupNorm>("groups: 2"))
      .Input({3, 6, 4})
      .Input({4})
      .Fails("input 1 \"weight\" [4]: expected shape [6]");
}

void GradSamples(SampleBuilder& s) {
  const auto affine = [&s](const char* name, int64_t groups, const Shape& x) {
    proto::GroupNorm options;
    options.set_groups(groups);
    s.Case(name)
        .With(proto::MakeOptions(options))
        .Input(x)
        .Input({x[1]})
        .Input({x[0], groups})
        .Range(-0.1, 0.1)
        .Input({x[0], groups})
        .Range(0.5, 2)
        .Input(x);
  };
  affine("image", 2, {3, 6, 4, 3});
  affine("group_for_each_channel", 5, {3, 5, 4, 7});
  affine("vector", 7, {5, 133});
  affine("one_channel", 1, {2, 1, 35, 37});
  affine("chunks", 2, {2, 68, 33, 31});
  affine("many_channels", 37, {2, 259, 3, 3});
  s.Case("no_affine")
      .With(ParseOptions<proto::GroupNorm>("groups: 3"))
      .Input({3, 6, 4})
      .Absent()
      .Input({3, 3})
      .Input({3, 3})
      .Range(0.5, 2)
      .Input({3, 6, 4});
  s.Case("mean")
      .With(ParseOptions<proto::GroupNorm>("groups: 2"))
      .Input({3, 6})
      .Input({6})
      .Input({3, 6})
      .Input({3, 2})
      .Input({3, 6})
      .Fails("input 2 \"mean\" [3, 6]: expected shape [3, 2]");
}

}  // namespace

SNUG_OPS(group_norm) {
  return {{.name = "group_norm",
           .doc = "y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of each group of channels",
           .inputs = {{"x"}, {"weight", PortType::kFloat32, true}, {"bias", PortType::kFloat32, true}},
           .outputs = {{"y"},
                       {.name = "mean", .type = PortType::kFloat32, .no_gradient = true},
                       {.name = "inv_std", .type = PortType::kFloat32, .no_gradient = true}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfNode,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = ForwardCpu},
                       OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const auto& options = k.options<proto::GroupNorm>();
                         return GroupNormCuda(k, View(k.input_type(0), options).OnCuda(), options.epsilon());
                       }))},
           .samples = Samples},
          {.name = "group_norm_grad",
           .doc = "dx, dweight, dbias of group_norm",
           .inputs = {{"x"},
                      {"weight", PortType::kFloat32, true},
                      {"mean", PortType::kFloat32},
                      {"inv_std", PortType::kFloat32},
                      {"dy"}},
           .outputs = {{"dx"}, {"dweight", PortType::kFloat32}, {"dbias", PortType::kFloat32}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 4}, {Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfGrad,
           .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = BackwardCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                          c.SetWorkspaceBytes(GroupNormGradCudaWorkspace(c.types().input(0)));
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          return GroupNormGradCuda(k, View(k.input_type(0), k.options<proto::GroupNorm>()).OnCuda());
                        })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::group_norm
