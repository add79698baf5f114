// local_response_norm: divides each element by a power of the mean of squares of the channels around it (Krizhevsky et
// al. 2012), as PyTorch does; and its gradient. Work is done in tiles that have all channels of some positions: in
// plain layout a line of positions for each channel, otherwise the channels of one position. Either way the window's
// next channel lies a fixed step away, so its sums are loops over the whole tile.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/rows_cuda.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::local_response_norm {
namespace {

using proto::ParseOptions;

constexpr int64_t kTileElements = 1 << 13;
constexpr int64_t kPieces = 64;  // of the work, each with a workspace of its own

// How x is cut. Tiles are counted through all samples.
struct Tiles {
  explicit Tiles(const ValueType& x) : channels(x.shape[1]), inner(x.shape.Count(2, x.shape.rank())) {
    side_by_side = x.layout.channels_last() || inner == 1;
    width = side_by_side ? 1 : std::clamp<int64_t>(kTileElements / std::max<int64_t>(1, channels), 16, 512);
    width = std::min(width, std::max<int64_t>(1, inner));
    of_sample = (inner + width - 1) / width;
    count = x.shape[0] * of_sample;
    pieces = std::min(kPieces, count);
  }
  int64_t elements() const { return channels * width; }  // the most that a tile has
  ChannelWindow OnCuda(const proto::LocalResponseNorm& options) const {
    return {.outer = count / of_sample * (side_by_side ? inner : 1),
            .channels = channels,
            .inner = side_by_side ? 1 : inner,
            .before = options.size() / 2,
            .after = (options.size() - 1) / 2,
            .alpha = options.alpha() / static_cast<double>(options.size()),
            .beta = options.beta(),
            .k = options.k()};
  }

  int64_t channels, inner;  // `inner` positions
  bool side_by_side;
  int64_t width;  // positions of a tile
  int64_t of_sample, count, pieces;
};

// One tile: `lines` of `length` numbers, which begin `stride` apart in memory. In the workspace they follow each other.
struct Tile {
  SNUG_INLINE Tile(const Tiles& tiles, int64_t i) {
    const int64_t sample = i / tiles.of_sample;
    const int64_t first = i % tiles.of_sample * tiles.width;
    const int64_t positions = tiles.inner - first < tiles.width ? tiles.inner - first : tiles.width;
    begin = sample * tiles.channels * tiles.inner + (tiles.side_by_side ? first * tiles.channels : first);
    lines = tiles.side_by_side ? 1 : tiles.channels;
    length = tiles.side_by_side ? tiles.channels : positions;
    stride = tiles.inner;
    step = tiles.side_by_side ? 1 : positions;
  }
  SNUG_INLINE int64_t size() const { return lines * length; }

  int64_t begin, lines, length, stride;
  int64_t step;  // from a channel to the next one, in the workspace
};

// Which channels an output sees, and what the sum of their squares becomes.
template <class A>
struct Response {
  Response(const proto::LocalResponseNorm& options, int64_t channels)
      : before(std::min(options.size() / 2, channels - 1)),
        after(std::min((options.size() - 1) / 2, channels - 1)),
        k(static_cast<A>(options.k())),
        alpha(static_cast<A>(options.alpha() / static_cast<double>(options.size()))),
        beta(static_cast<A>(options.beta())) {}
  int64_t before, after;
  A k, alpha, beta;
};

// Sets sums[i] to the sum of values[i + j step] for j from -before to after, as far as the tile goes.
template <class A>
SNUG_INLINE void SumWindows(const Tile& tile, int64_t before, int64_t after, const A* values, A* sums) {
  const int64_t n = tile.size();
  for (int64_t i = 0; i < n; ++i) sums[i] = 0;
  for (int64_t j = -before; j <= after; ++j) {
    const int64_t shift = j * tile.step;
    const int64_t end = shift > 0 ? n - shift : n;
    SNUG_INDEPENDENT
    for (int64_t i = shift < 0 ? -shift : 0; i < end; ++i) sums[i] += values[i + shift];
  }
}

// Calls element(where it lies in memory, where in the workspace) for all of a tile.
template <class Element>
SNUG_INLINE void ForEach(const Tile& tile, Element element) {
  for (int64_t line = 0; line < tile.lines; ++line) {
    const int64_t from = tile.begin + line * tile.stride;
    const int64_t to = line * tile.length;
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < tile.length; ++i) element(from + i, to + i);
  }
}

// Sets `responses`, using `squares` for its own.
template <class T, class A>
SNUG_INLINE void Respond(const Tile& tile, const Response<A>& response, const T* x, A* squares, A* responses) {
  ForEach(tile, [=](int64_t i, int64_t w) SNUG_LAMBDA {
    const A v = static_cast<A>(x[i]);
    squares[w] = v * v;
  });
  SumWindows(tile, response.before, response.after, squares, responses);
  const A k = response.k;
  const A alpha = response.alpha;
  for (int64_t w = 0; w < tile.size(); ++w) responses[w] = k + alpha * responses[w];
}

// Calls body(tile, workspace of the piece) for all tiles; the workspace has `arrays` arrays of tiles.elements().
template <class A, class Body>
void ForEachTile(int threads, const Tiles& tiles, int64_t arrays, A* workspace, Body body) {
  ParallelFor(threads, tiles.pieces, 1, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t i = tiles.count * begin / tiles.pieces; i < tiles.count * end / tiles.pieces; ++i) {
        body(Tile(tiles, i), workspace + begin * arrays * tiles.elements());
      }
    });
  });
}

absl::Status CheckOptions(const InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  const int64_t size = c.options<proto::LocalResponseNorm>().size();
  if (size >= 1) return absl::OkStatus();
  return c.OptionError("size", absl::StrCat("expected at least 1 (channels), found ", size));
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOptions(c));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOptions(c));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  c.SetOutput(0, c.input(1));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {  // keeps x alone: the powers are computed again
  return GradientFromInput(g, "local_response_norm_grad");
}

template <int kArrays>
absl::Status Prepare(PrepareContext& c) {
  const ValueType& x = c.types().input(0);
  const Tiles tiles(x);
  const int64_t bytes = x.dtype == DType::kFloat64 ? sizeof(double) : sizeof(float);
  c.SetWorkspaceBytes(tiles.pieces * kArrays * tiles.elements() * bytes);
  return absl::OkStatus();
}

Cost CostOf(const NodeTypes& types, double for_each_of_window, double others) {
  const double size = static_cast<double>(types.options.Get<proto::LocalResponseNorm>().size());
  return {.flops = (for_each_of_window * size + others) * static_cast<double>(types.input(0).num_elements())};
}
Cost CostOfNode(const NodeTypes& types) { return CostOf(types, 1, 24); }
Cost CostOfGrad(const NodeTypes& types) { return CostOf(types, 2, 30); }

constexpr int64_t kForwardArrays = 2, kBackwardArrays = 3;

absl::Status ForwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Tiles tiles(k.input_type(0));
    const Response<A> response(k.options<proto::LocalResponseNorm>(), tiles.channels);
    const T* x = k.input<T>(0);
    T* y = k.output<T>(0);
    ForEachTile(k.threads(), tiles, kForwardArrays, k.workspace<A>(), [=](const Tile& tile, A* space) SNUG_LAMBDA {
      A* responses = space + tile.size();
      Respond(tile, response, x, space, responses);
      const A power = -response.beta;
      ForEach(tile, [=](int64_t i, int64_t w)
                        SNUG_LAMBDA { y[i] = static_cast<T>(static_cast<A>(x[i]) * Pow(responses[w], power)); });
    });
    return absl::OkStatus();
  });
}

// Let r = k + alpha / size (sum of the window's x^2). Then dx = dy r^-beta - 2 alpha beta / size x (sum of
// dy x r^(-beta - 1) over those channels whose windows have this one).
absl::Status BackwardCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Tiles tiles(k.input_type(0));
    const Response<A> response(k.options<proto::LocalResponseNorm>(), tiles.channels);
    const T* x = k.input<T>(0);
    const T* dy = k.input<T>(1);
    T* dx = k.output<T>(0);
    ForEachTile(k.threads(), tiles, kBackwardArrays, k.workspace<A>(), [=](const Tile& tile, A* space) SNUG_LAMBDA {
      A* passed = space;
      A* powers = passed + tile.size();
      A* sums = powers + tile.size();
      Respond(tile, response, x, passed, powers);
      const A power = -response.beta;
      ForEach(tile, [=](int64_t i, int64_t w) SNUG_LAMBDA {
        const A r = powers[w];
        const A p = Pow(r, power);
        powers[w] = p;
        passed[w] = static_cast<A>(dy[i]) * static_cast<A>(x[i]) * p / r;
      });
      SumWindows(tile, response.after, response.before, passed, sums);
      const A factor = A(2) * response.alpha * response.beta;
      ForEach(tile, [=](int64_t i, int64_t w) SNUG_LAMBDA {
        dx[i] = static_cast<T>(static_cast<A>(dy[i]) * powers[w] - factor * static_cast<A>(x[i]) * sums[w]);
      });
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& x) {
    s.Case(name).With(ParseOptions<proto::LocalResponseNorm>(options)).Input(x);
  };
  with("image", "size: 5 alpha: 0.5", {2, 11, 4, 3});
  with("even_size", "size: 4 alpha: 2 beta: 0.5 k: 2", {3, 9, 5, 5});
  with("larger_than_the_channels", "size: 9 alpha: 1", {2, 3, 7});
  with("size_1", "size: 1 alpha: 1 beta: 1.5", {2, 5, 3, 3});
  with("one_channel", "size: 3 alpha: 1", {2, 1, 6, 7});
  with("vector", "size: 3 alpha: 1", {7, 19});
  with("volume", "size: 3 alpha: 1", {2, 5, 2, 3, 4});
  with("one_element", "size: 3 alpha: 1", {1, 1, 1, 1});
  with("tiles", "size: 5 alpha: 1", {3, 70, 17, 19});
  s.Case("known")  // k + alpha / size times the sums of squares are 6, 15, 14
      .With(ParseOptions<proto::LocalResponseNorm>("size: 3 alpha: 3 beta: 1"))
      .Input({1, 3, 1})
      .Values({1, 2, 3})
      .NoGradient()
      .Expect(0, {1.0 / 6, 2.0 / 15, 3.0 / 14});
  s.Case("known_even_size")  // the window has one channel more before than after: 2, 6, 14
      .With(ParseOptions<proto::LocalResponseNorm>("size: 2 alpha: 2 beta: 1"))
      .Input({1, 3, 1})
      .Values({1, 2, 3})
      .NoGradient()
      .Expect(0, {1.0 / 2, 1.0 / 3, 3.0 / 14});
  s.Case("size").Input({2, 3, 4}).Fails("option \"size\": expected at least 1 (channels), found 0");
  s.Case("rank").With(ParseOptions<proto::LocalResponseNorm>("size: 3")).Input({5}).Fails("expected 2 to 8 dimensions");
}

void GradSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const char* options, const Shape& x) {
    s.Case(name).With(ParseOptions<proto::LocalResponseNorm>(options)).Input(x).Input(x);
  };
  with("image", "size: 5 alpha: 0.5", {2, 11, 4, 3});
  with("even_size", "size: 4 alpha: 2 beta: 0.5 k: 2", {3, 9, 5, 5});
  with("tiles", "size: 5 alpha: 1", {3, 70, 17, 19});
  s.Case("known")  // dy x / r^2 are 1, 2, 0, and r are 6, 15, 14
      .With(ParseOptions<proto::LocalResponseNorm>("size: 3 alpha: 3 beta: 1"))
      .Input({1, 3, 1})
      .Values({1, 2, 3})
      .Input({1, 3, 1})
      .Values({36, 225, 0})
      .Expect(0, {0, 3, -12});
  s.Case("dy")
      .With(ParseOptions<proto::LocalResponseNorm>("size: 3"))
      .Input({2, 3, 4})
      .Input({2, 3, 5})
      .Fails("input 1 \"dy\" [2, 3, 5]: expected shape [2, 3, 4]");
}

}  // namespace

SNUG_OPS(local_response_norm) {
  return {{.name = "local_response_norm",
           .doc = "y = x / (k + alpha mean(x^2))^beta, the mean over `size` channels around each",
           .inputs = {{"x"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfNode,
           .kernels = {{.name = "plain", .prepare = Prepare<kForwardArrays>, .run = ForwardCpu},
                       OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const auto& options = k.options<proto::LocalResponseNorm>();
                         return LocalResponseNormCuda(k, Tiles(k.input_type(0)).OnCuda(options));
                       }))},
           .samples = Samples},
          {.name = "local_response_norm_grad",
           .doc = "dx of local_response_norm",
           .inputs = {{"x"}, {"dy"}},
           .outputs = {{"dx"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 0, 1}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfGrad,
           .kernels = {{.name = "plain", .prepare = Prepare<kBackwardArrays>, .run = BackwardCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA([](PrepareContext& c) {
                          const ValueType& x = c.types().input(0);
                          const int64_t bytes = x.dtype == DType::kFloat64 ? sizeof(double) : sizeof(float);
                          c.SetWorkspaceBytes(x.num_elements() * bytes);
                          return absl::OkStatus();
                        }),
                        .run = SNUG_IF_CUDA([](const KernelContext& k) {
                          const auto& options = k.options<proto::LocalResponseNorm>();
                          return LocalResponseNormGradCuda(k, Tiles(k.input_type(0)).OnCuda(options));
                        })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::local_response_norm
