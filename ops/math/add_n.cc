// add_n: the sum of any number of values, from left to right. Gradients of a value with several readers meet here.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/expression.h"
#include "ops/kit/isa.h"
#include "ops/math/values_cuda.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::add_n {
namespace {

constexpr int64_t kChunk = 1 << 15;
constexpr int64_t kBlock = 1024;  // so many sums stay in the first-level cache while the inputs pass by

absl::Status Infer(InferContext& c) {
  if (c.num_inputs() == 0) return absl::InvalidArgumentError("expected at least 1 input (x...), found 0");
  for (int i = 1; i < c.num_inputs(); ++i) SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Gradient(GradContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (g.wants(i)) g.SetInputGrad(i, g.output_grad(0));
  }
  return g.status();
}

Cost CostOfSum(const NodeTypes& types) {
  return {.flops = static_cast<double>(types.output(0).num_elements() * (types.num_inputs() - 1))};
}

template <class T>
void Sum(const KernelContext& k) {
  using A = Accumulator<T>;
  T* y = k.output<T>(0);
  ParallelFor(k.threads(), k.output_type(0).num_elements(), kChunk, [&k, y](int64_t begin, int64_t end) {
    WithIsa([&k, y, begin, end]() SNUG_LAMBDA {
      A sums[kBlock];
      for (int64_t i = begin; i < end; i += kBlock) {
        const int64_t n = std::min(kBlock, end - i);
        const T* x = k.input<T>(0) + i;
        for (int64_t j = 0; j < n; ++j) sums[j] = static_cast<A>(x[j]);
        for (int input = 1; input < k.num_inputs(); ++input) {
          x = k.input<T>(input) + i;
          for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<A>(x[j]);
        }
        for (int64_t j = 0; j < n; ++j) y[i + j] = static_cast<T>(sums[j]);
      }
    });
  });
}

absl::Status Kernel(const KernelContext& k) {
  return DispatchFloating(k.output_type(0).dtype, [&](auto zero) {
    Sum<decltype(zero)>(k);
    return absl::OkStatus();
  });
}

std::string Expression(const NodeTypes& types, absl::string_view x) {
  return absl::StrCat("Sum<", CppName(types.output(0).dtype), ">(", x, ")");
}

void Samples(SampleBuilder& s) {
  s.Case("one").Input({5});
  s.Case("two").Input({5, 7}).Input({5, 7});
  s.Case("five").Input({2, 3, 4, 5}).Input({2, 3, 4, 5}).Input({2, 3, 4, 5}).Input({2, 3, 4, 5}).Input({2, 3, 4, 5});
  s.Case("longer_than_a_block").Input({1031}).Input({1031}).Input({1031});
  s.Case("known").Input({2}).Values({1, 2}).Input({2}).Values({3, 4}).Input({2}).Values({5, 6}).Expect(0, {9, 12});
  s.Case("none").Fails("at least 1");
  s.Case("shape_mismatch").Input({4}).Input({4}).Input({1}).Fails("expected shape [4]");
}

}  // namespace

SNUG_OPS(add_n) {
  return {{.name = "add_n",
           .doc = "y = x0 + x1 + ..., from left to right",
           .inputs = {{.name = "x", .variadic = true}},
           .outputs = {{"y"}},
           .infer = Infer,
           .gradient = Gradient,
           .aliases = {{Alias::Kind::kMayShare, 0, 0}},
           .traits = {.layout = LayoutRule::kAgnostic},
           .cost = CostOfSum,
           .elementwise = {Expression},
           .kernels = {Plain(Kernel), OwnOnCuda(SNUG_IF_CUDA(AddNCuda))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::add_n
