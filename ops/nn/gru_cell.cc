// gru_cell: what a GRU does element by element in a step, in one sweep. Only the pass recurrent_cells makes it, of the
// layers with which a network writes the cell down. It is PyTorch's form, whose reset gate comes after the product:
//
//   r, z = sigmoid of those parts of x + y, y being the product with h;  n = tanh(x_n + r y_n);  h' = n + z (h - n)
//
// What the gradient reads is an output: r, z, n and y_n, each of the state's width.
#include <absl/strings/str_cat.h>

#include <array>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/costs.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/kit/vec_math.h"
#include "ops/nn/cell_rows.h"
#include "ops/nn/cells_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops::gru_cell {
namespace {

using proto::ParseOptions;

enum Input { kX, kY, kH };
enum GradInput { kKept, kGradH, kDNextH };

int64_t WidthOf(const Shape& state) { return state[state.rank() - 1]; }

Shape PartsOf(const Shape& state, int64_t parts) {
  const int last = state.rank() - 1;
  return state.WithDim(last, parts * state[last]);
}

absl::Status CheckOrder(const InferContext& c, const proto::GruCell& options) {
  std::array<int, 3> times = {};
  for (const int part : {options.reset(), options.update(), options.candidate()}) {
    if (part < 0 || part > 2 || times[static_cast<size_t>(part)]++ > 0) {
      return c.OptionError("reset", "expected the parts 0 to 2, one for each of reset, update and candidate");
    }
  }
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOrder(c, c.options<proto::GruCell>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kH, 1, kMaxRank));
  for (const int parts : {kX, kY}) SNUG_RETURN_IF_ERROR(c.CheckShape(parts, PartsOf(c.shape(kH), 3)));
  c.SetOutput(0, c.input(kH));
  c.SetOutput(1, c.input(kH).dtype, PartsOf(c.shape(kH), 4));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOrder(c, c.options<proto::GruCell>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kGradH, 1, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kKept, PartsOf(c.shape(kGradH), 4)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kDNextH, c.shape(kGradH)));
  c.SetOutput(0, c.input(kGradH).dtype, PartsOf(c.shape(kGradH), 3));
  c.SetOutput(1, c.input(kGradH).dtype, PartsOf(c.shape(kGradH), 3));
  c.SetOutput(2, c.input(kGradH));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads =
      g.Ops("gru_cell_grad", {g.output(1), g.input(kH), g.output_grad(0)}, g.options_handle());
  if (!g.status().ok()) return g.status();
  for (const int input : {kX, kY, kH}) {
    if (g.wants(input)) g.SetInputGrad(input, grads[static_cast<size_t>(input)]);
  }
  return g.status();
}

using Parts = GruParts;

Parts PartsOf(const proto::GruCell& options, int64_t width) {
  return {options.reset() * width, options.update() * width, options.candidate() * width};
}

absl::Status CellCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Shape& state = k.input_type(kH).shape;
    const int64_t width = WidthOf(state);
    const Parts p = PartsOf(k.options<proto::GruCell>(), width);
    const T *all_x = k.input<T>(kX), *all_y = k.input<T>(kY), *all_h = k.input<T>(kH);
    T *all_next = k.output<T>(0), *all_kept = k.output<T>(1);
    ForEachStateRow(k.threads(), state, [=](int64_t row) SNUG_LAMBDA {
      const T *x = all_x + 3 * width * row, *y = all_y + 3 * width * row, *h = all_h + width * row;
      T *next = all_next + width * row, *kept = all_kept + 4 * width * row;
      SNUG_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) {
        const A r = Sigmoid(static_cast<A>(x[p.r + j]) + static_cast<A>(y[p.r + j]));
        const A z = Sigmoid(static_cast<A>(x[p.z + j]) + static_cast<A>(y[p.z + j]));
        const A before_reset = static_cast<A>(y[p.n + j]);
        const A n = Tanh(static_cast<A>(x[p.n + j]) + r * before_reset);
        next[j] = static_cast<T>(n + z * (static_cast<A>(h[j]) - n));
        kept[j] = static_cast<T>(r);
        kept[width + j] = static_cast<T>(z);
        kept[2 * width + j] = static_cast<T>(n);
        kept[3 * width + j] = static_cast<T>(before_reset);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status GradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(2).dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Shape& state = k.input_type(kGradH).shape;
    const int64_t width = WidthOf(state);
    const Parts p = PartsOf(k.options<proto::GruCell>(), width);
    const T *all_kept = k.input<T>(kKept), *all_h = k.input<T>(kGradH), *all_dnext = k.input<T>(kDNextH);
    T *all_dx = k.output<T>(0), *all_dy = k.output<T>(1), *all_dh = k.output<T>(2);
    ForEachStateRow(k.threads(), state, [=](int64_t row) SNUG_LAMBDA {
      const T *kept = all_kept + 4 * width * row, *h = all_h + width * row, *dnext = all_dnext + width * row;
      T *dx = all_dx + 3 * width * row, *dy = all_dy + 3 * width * row, *dh = all_dh + width * row;
      SNUG_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) {
        const A r = static_cast<A>(kept[j]), z = static_cast<A>(kept[width + j]);
        const A n = static_cast<A>(kept[2 * width + j]), before_reset = static_cast<A>(kept[3 * width + j]);
        const A d = static_cast<A>(dnext[j]);
        const A dn = d * (A(1) - z) * (A(1) - n * n);
        const A dr = dn * before_reset * r * (A(1) - r);
        const A dz = d * (static_cast<A>(h[j]) - n) * z * (A(1) - z);
        dh[j] = static_cast<T>(d * z);
        dx[p.r + j] = dy[p.r + j] = static_cast<T>(dr);
        dx[p.z + j] = dy[p.z + j] = static_cast<T>(dz);
        dx[p.n + j] = static_cast<T>(dn);
        dy[p.n + j] = static_cast<T>(dn * r);
      }
    });
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("plain").Input({5, 21}).Input({5, 21}).Input({5, 7});
  s.Case("sequence").Input({2, 3, 57}).Input({2, 3, 57}).Input({2, 3, 19});
  s.Case("many_rows").Input({40, 198}).Input({40, 198}).Input({40, 66});
  s.Case("other_order")
      .Input({2, 6})
      .Input({2, 6})
      .Input({2, 2})
      .With(ParseOptions<proto::GruCell>("reset: 1 update: 2 candidate: 0"));
  s.Case("known")  // it resets and keeps nothing: the candidate is tanh(0)
      .Input({1, 3})
      .Values({-500, -500, 0})
      .NoGradient()
      .Input({1, 3})
      .Values({-500, -500, 7})
      .NoGradient()
      .Input({1, 1})
      .Values({5})
      .Expect(0, {0})
      .Expect(1, {0, 0, 0, 7});
  s.Case("same_part_twice")
      .Input({2, 6})
      .Input({2, 6})
      .Input({2, 2})
      .With(ParseOptions<proto::GruCell>("reset: 1"))
      .Fails("expected the parts 0 to 2");
  s.Case("four_parts").Input({2, 8}).Input({2, 6}).Input({2, 2}).Fails("expected shape [2, 6]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("plain").Input({5, 28}).Range(0, 1).Input({5, 7}).Input({5, 7});
  s.Case("many_rows").Input({40, 264}).Range(0, 1).Input({40, 66}).Input({40, 66});
  s.Case("known")
      .Input({1, 4})
      .Values({0.5, 0.5, 0, 8})
      .Input({1, 1})
      .Values({4})
      .Input({1, 1})
      .Values({2})
      .Expect(0, {2, 2, 1})
      .Expect(1, {2, 2, 0.5})
      .Expect(2, {1});
  s.Case("three_parts").Input({2, 6}).Input({2, 2}).Input({2, 2}).Fails("expected shape [2, 8]");
}

}  // namespace

SNUG_OPS(gru_cell) {
  return {{.name = "gru_cell",
           .doc = "r, z = sigmoid of the parts of x + y; n = tanh(x_n + r y_n); next_h = n + z (h - n)",
           .inputs = {{"x"}, {"y"}, {"h"}},
           .outputs = {{"next_h"}, {.name = "kept", .no_gradient = true}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, kH}},
           .cost = FlopsPerElement<40, kH>,
           .kernels = {Plain(CellCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const int64_t width = WidthOf(k.input_type(kH).shape);
                         return GruCellCuda(k, width, PartsOf(k.options<proto::GruCell>(), width));
                       }))},
           .samples = Samples},
          {.name = "gru_cell_grad",
           .doc = "dx, dy and dh of gru_cell",
           .inputs = {{"kept"}, {"h"}, {"dnext_h"}},
           .outputs = {{"dx"}, {"dy"}, {"dh"}},
           .infer = InferGrad,
           .aliases = {{Alias::Kind::kMayShare, 2, kDNextH}, {Alias::Kind::kMayShare, 2, kGradH}},
           .cost = FlopsPerElement<20, kGradH>,
           .kernels = {Plain(GradCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         const int64_t width = WidthOf(k.input_type(kGradH).shape);
                         return GruCellGradCuda(k, width, PartsOf(k.options<proto::GruCell>(), width));
                       }))},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::gru_cell
