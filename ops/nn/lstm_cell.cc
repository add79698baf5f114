// lstm_cell: what an LSTM does element by element in a step, in one sweep. Only the pass recurrent_cells makes it, of
// the layers with which a network writes the cell down.
//
//   i, f, o = sigmoid, g = tanh of the parts of x + h;  c' = f c + i g;  h' = o tanh(c')
//
// The gates as they are after their functions are an output: the gradient reads them, and they may take the place of
// what they were computed from.
#include <absl/strings/str_cat.h>

#include <array>
#include <type_traits>

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

namespace snug::core::ops::lstm_cell {
namespace {

using proto::ParseOptions;

enum Input { kX, kH, kC };
enum Output { kNextH, kNextC, kGates };
enum GradInput { kGradGates, kGradC, kGradNextC, kDNextH, kDNextC };

int64_t WidthOf(const Shape& state) { return state[state.rank() - 1]; }

Shape PartsOf(const Shape& state) {
  const int last = state.rank() - 1;
  return state.WithDim(last, 4 * state[last]);
}

absl::Status CheckOrder(const InferContext& c, const proto::LstmCell& options) {
  std::array<int, 4> times = {};
  for (const int part : {options.input(), options.forget(), options.candidate(), options.output()}) {
    if (part < 0 || part > 3 || times[static_cast<size_t>(part)]++ > 0) {
      return c.OptionError("input", "expected the parts 0 to 3, one for each of input, forget, candidate and output");
    }
  }
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOrder(c, c.options<proto::LstmCell>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kC, 1, kMaxRank));
  const Shape parts = PartsOf(c.shape(kC));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kX, parts));
  if (c.has_input(kH)) SNUG_RETURN_IF_ERROR(c.CheckShape(kH, parts));
  c.SetOutput(kNextH, c.input(kC));
  c.SetOutput(kNextC, c.input(kC));
  c.SetOutput(kGates, c.input(kX));
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckOrder(c, c.options<proto::LstmCell>()));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kGradC, 1, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kGradGates, PartsOf(c.shape(kGradC))));
  if (!c.has_input(kDNextH) && !c.has_input(kDNextC)) {
    return c.InputError(kDNextH, "expected this one or dnext_c, found neither");
  }
  for (const int state : {kGradNextC, kDNextH, kDNextC}) {
    if (c.has_input(state)) SNUG_RETURN_IF_ERROR(c.CheckShape(state, c.shape(kGradC)));
  }
  c.SetOutput(0, c.input(kGradGates));
  c.SetOutput(1, c.input(kGradC));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  const std::vector<ValueId> grads = g.Ops(
      "lstm_cell_grad", {g.output(kGates), g.input(kC), g.output(kNextC), g.output_grad(kNextH), g.output_grad(kNextC)},
      g.options_handle());
  if (!g.status().ok()) return g.status();
  if (g.wants(kX)) g.SetInputGrad(kX, grads[0]);
  if (g.wants(kH)) g.SetInputGrad(kH, grads[0]);
  if (g.wants(kC)) g.SetInputGrad(kC, grads[1]);
  return g.status();
}

using Parts = LstmParts;

Parts PartsOf(const proto::LstmCell& options, int64_t width) {
  return {options.input() * width, options.forget() * width, options.candidate() * width, options.output() * width};
}

// One row. `gates` may lie on x or h.
template <class T, bool kTwo>
SNUG_INLINE void CellRow(int64_t width, const Parts p, const T* x, [[maybe_unused]] const T* h, const T* c, T* next_h,
                         T* next_c, T* gates) {
  using A = Accumulator<T>;
  const auto sum = [=](int64_t at) SNUG_LAMBDA {
    if constexpr (kTwo) return static_cast<A>(x[at]) + static_cast<A>(h[at]);
    return static_cast<A>(x[at]);
  };
  SNUG_INDEPENDENT
  for (int64_t j = 0; j < width; ++j) {
    const A i = Sigmoid(sum(p.i + j));
    const A f = Sigmoid(sum(p.f + j));
    const A g = Tanh(sum(p.g + j));
    const A o = Sigmoid(sum(p.o + j));
    const A next = f * static_cast<A>(c[j]) + i * g;
    next_c[j] = static_cast<T>(next);
    next_h[j] = static_cast<T>(o * Tanh(next));
    gates[p.i + j] = static_cast<T>(i);
    gates[p.f + j] = static_cast<T>(f);
    gates[p.g + j] = static_cast<T>(g);
    gates[p.o + j] = static_cast<T>(o);
  }
}

// One row; dh is null without kDH, dc without kDC. `dx` may lie on the gates, `dc_before` on what comes in.
template <bool kDH, bool kDC, class T>
SNUG_INLINE void GradRow(int64_t width, const Parts p, const T* gates, const T* c, const T* next_c,
                         [[maybe_unused]] const T* dh, [[maybe_unused]] const T* dc, T* dx, T* dc_before) {
  using A = Accumulator<T>;
  SNUG_INDEPENDENT
  for (int64_t j = 0; j < width; ++j) {
    const A i = static_cast<A>(gates[p.i + j]);
    const A f = static_cast<A>(gates[p.f + j]);
    const A g = static_cast<A>(gates[p.g + j]);
    const A o = static_cast<A>(gates[p.o + j]);
    const A bounded = Tanh(static_cast<A>(next_c[j]));
    A from_h = 0, from_c = 0;
    if constexpr (kDH) from_h = static_cast<A>(dh[j]);
    if constexpr (kDC) from_c = static_cast<A>(dc[j]);
    const A d = from_c + from_h * o * (A(1) - bounded * bounded);
    dx[p.i + j] = static_cast<T>(d * g * i * (A(1) - i));
    dx[p.f + j] = static_cast<T>(d * static_cast<A>(c[j]) * f * (A(1) - f));
    dx[p.g + j] = static_cast<T>(d * i * (A(1) - g * g));
    dx[p.o + j] = static_cast<T>(from_h * bounded * o * (A(1) - o));
    dc_before[j] = static_cast<T>(d * f);
  }
}

absl::Status CellCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(kNextH).dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& state = k.input_type(kC).shape;
    const int64_t n = WidthOf(state);
    const Parts parts = PartsOf(k.options<proto::LstmCell>(), n);
    const T *x = k.input<T>(kX), *h = k.has_input(kH) ? k.input<T>(kH) : nullptr, *c = k.input<T>(kC);
    T *next_h = k.output<T>(kNextH), *next_c = k.output<T>(kNextC), *gates = k.output<T>(kGates);
    ForEachStateRow(k.threads(), state, [=](int64_t r) SNUG_LAMBDA {
      const int64_t at = 4 * n * r;
      if (h != nullptr) {
        CellRow<T, true>(n, parts, x + at, h + at, c + n * r, next_h + n * r, next_c + n * r, gates + at);
      } else {
        CellRow<T, false>(n, parts, x + at, nullptr, c + n * r, next_h + n * r, next_c + n * r, gates + at);
      }
    });
    return absl::OkStatus();
  });
}

absl::Status GradCpu(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const Shape& state = k.input_type(kGradC).shape;
    const int64_t n = WidthOf(state);
    const Parts parts = PartsOf(k.options<proto::LstmCell>(), n);
    const T *gates = k.input<T>(kGradGates), *c = k.input<T>(kGradC), *next_c = k.input<T>(kGradNextC);
    const T* dh = k.has_input(kDNextH) ? k.input<T>(kDNextH) : nullptr;
    const T* dc = k.has_input(kDNextC) ? k.input<T>(kDNextC) : nullptr;
    T *dx = k.output<T>(0), *dc_before = k.output<T>(1);
    const auto run = [&](auto reads_dh, auto reads_dc) {
      constexpr bool kDH = decltype(reads_dh)::value, kDC = decltype(reads_dc)::value;
      ForEachStateRow(k.threads(), state, [=](int64_t r) SNUG_LAMBDA {
        GradRow<kDH, kDC, T>(n, parts, gates + 4 * n * r, c + n * r, next_c + n * r, kDH ? dh + n * r : nullptr,
                             kDC ? dc + n * r : nullptr, dx + 4 * n * r, dc_before + n * r);
      });
    };
    if (dh == nullptr) {
      run(std::false_type(), std::true_type());
    } else if (dc == nullptr) {
      run(std::true_type(), std::false_type());
    } else {
      run(std::true_type(), std::true_type());
    }
    return absl::OkStatus();
  });
}

void Samples(SampleBuilder& s) {
  s.Case("plain").Input({5, 28}).Input({5, 28}).Input({5, 7});
  s.Case("one_summand").Input({3, 76}).Absent().Input({3, 19});
  s.Case("sequence").Input({2, 3, 12}).Input({2, 3, 12}).Input({2, 3, 3});
  s.Case("many_rows").Input({40, 264}).Input({40, 264}).Input({40, 66});
  s.Case("other_order")
      .Input({2, 8})
      .Input({2, 8})
      .Input({2, 2})
      .With(ParseOptions<proto::LstmCell>("input: 3 forget: 0 candidate: 1 output: 2"));
  s.Case("known")  // the gates are open, and the candidate is 0
      .Input({1, 4})
      .Values({1000, 1000, 0, 1000})
      .NoGradient()
      .Absent()
      .Input({1, 1})
      .Values({0})
      .Expect(0, {0})
      .Expect(1, {0})
      .Expect(2, {1, 1, 0, 1});
  s.Case("keeps")  // of input, forget, candidate and output only forget and output are open
      .Input({1, 4})
      .Values({-500, 500, 3, 500})
      .NoGradient()
      .Input({1, 4})
      .Values({-500, 500, 2, 500})
      .NoGradient()
      .Input({1, 1})
      .Values({-1000})
      .NoGradient()
      .Expect(0, {-1})
      .Expect(1, {-1000});
  s.Case("same_part_twice")
      .Input({2, 8})
      .Absent()
      .Input({2, 2})
      .With(ParseOptions<proto::LstmCell>("input: 1"))
      .Fails("expected the parts 0 to 3");
  s.Case("three_parts").Input({2, 6}).Absent().Input({2, 2}).Fails("expected shape [2, 8]");
  s.Case("other_rows").Input({2, 8}).Input({3, 8}).Input({2, 2}).Fails("expected shape [2, 8]");
}

void GradSamples(SampleBuilder& s) {
  s.Case("both").Input({5, 28}).Range(0, 1).Input({5, 7}).Input({5, 7}).Input({5, 7}).Input({5, 7});
  s.Case("of_h").Input({5, 76}).Range(0, 1).Input({5, 19}).Input({5, 19}).Input({5, 19}).Absent();
  s.Case("of_c").Input({5, 76}).Range(0, 1).Input({5, 19}).Input({5, 19}).Absent().Input({5, 19});
  s.Case("many_rows").Input({40, 264}).Range(0, 1).Input({40, 66}).Input({40, 66}).Input({40, 66}).Input({40, 66});
  s.Case("known")
      .Input({1, 4})
      .Values({0.5, 0.5, 0.5, 0.5})
      .Input({1, 1})
      .Values({4})
      .Input({1, 1})
      .Values({0})
      .Input({1, 1})
      .Values({2})
      .Input({1, 1})
      .Values({1})
      .Expect(0, {0.25, 2, 0.75, 0})
      .Expect(1, {1});
  s.Case("other_state").Input({2, 8}).Input({2, 2}).Input({2, 3}).Input({2, 2}).Absent().Fails("expected shape [2, 2]");
  s.Case("neither").Input({2, 8}).Input({2, 2}).Input({2, 2}).Absent().Absent().Fails("found neither");
}

}  // namespace

SNUG_OPS(lstm_cell) {
  return {
      {.name = "lstm_cell",
       .doc = "i, f, o = sigmoid, g = tanh of the parts of x + h; next_c = f c + i g; next_h = o tanh(next_c)",
       .inputs = {{"x"}, {.name = "h", .optional = true}, {"c"}},
       .outputs = {{"next_h"}, {"next_c"}, {.name = "gates", .no_gradient = true}},
       .infer = Infer,
       .gradient = Gradient,
       .aliases = {{Alias::Kind::kMayShare, kGates, kX},
                   {Alias::Kind::kMayShare, kGates, kH},
                   {Alias::Kind::kMayShare, kNextC, kC}},
       .cost = FlopsPerElement<50, kC>,
       .kernels = {Plain(CellCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     const int64_t n = WidthOf(k.input_type(kC).shape);
                     return LstmCellCuda(k, n, PartsOf(k.options<proto::LstmCell>(), n));
                   }))},
       .samples = Samples},
      {.name = "lstm_cell_grad",
       .doc = "dx (which is dh too) and dc of lstm_cell",
       .inputs =
           {{"gates"}, {"c"}, {"next_c"}, {.name = "dnext_h", .optional = true}, {.name = "dnext_c", .optional = true}},
       .outputs = {{"dx"}, {"dc"}},
       .infer = InferGrad,
       .aliases = {{Alias::Kind::kMayShare, 0, kGradGates},
                   {Alias::Kind::kMayShare, 1, kDNextC},
                   {Alias::Kind::kMayShare, 1, kDNextH},
                   {Alias::Kind::kMayShare, 1, kGradC},
                   {Alias::Kind::kMayShare, 1, kGradNextC}},
       .cost = FlopsPerElement<40, kGradC>,
       .kernels = {Plain(GradCpu), OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                     const int64_t n = WidthOf(k.input_type(kGradC).shape);
                     return LstmCellGradCuda(k, n, PartsOf(k.options<proto::LstmCell>(), n));
                   }))},
       .samples = GradSamples}};
}

}  // namespace snug::core::ops::lstm_cell
