// state: what the network remembers from one training step to the next, a row for each sample: zeros at first, and then
// what the layer that `next` names put out in the step before. No gradient flows back into the step before: a recurrent
// network that carries its state so is trained by truncated back-propagation through time. It is only a layer; in
// training its content is a Variable, "<layer>.carried_state", which `store` writes when the step is known to be good
// (engine/compile/import/import.cc). Without `next`, and where nothing is trained, it is zeros.
#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/options.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/updates_cuda.h"
#include "ops/sample_builder.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::state {
namespace {

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  const auto& options = c.options<proto::State>();
  const Shape& like = c.type(c.input(0)).shape;
  if (like.rank() == 0) {
    return absl::InvalidArgumentError("input 0: expected a value with a row for each sample, found a number");
  }
  std::vector<int64_t> dims = {like[0]};
  dims.insert(dims.end(), options.dim().begin(), options.dim().end());
  const absl::StatusOr<Shape> shape = MakeShape(dims);
  if (!shape.ok()) return OptionError("dim", shape.status().message());
  if (options.has_next() && c.training()) {
    c.SetOutput(0, c.Statistic("carried_state", *shape, 0));
    return c.status();
  }
  proto::Fill zeros;
  SetShapeOption(*shape, &zeros);
  zeros.set_dtype(proto::FromDType(c.floating()));
  c.SetOutput(0, c.Op("fill", {}, proto::MakeOptions(zeros)));
  return c.status();
}

// The state is float32 also in a bfloat16 network.
absl::Status InferStore(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, c.shape(0)));
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, Shape()));
  const DType state = c.input(0).dtype, next = c.input(1).dtype;
  if (next == state || (state == DType::kFloat32 && next == DType::kBFloat16)) return absl::OkStatus();
  return c.InputError(1, absl::StrCat("expected ", Name(state), " like the state, found ", Name(next)));
}

absl::Status StoreCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  return DispatchUpdate(k.input_type(0).dtype, k.input_type(1).dtype, [&](auto zero, auto next_zero) {
    using T = decltype(zero);
    T* state = k.variable<T>(0);
    const auto* next = k.input<decltype(next_zero)>(1);
    ForEachElement(k.threads(), k.input_type(0).num_elements(),
                   [=](int64_t i) SNUG_LAMBDA { state[i] = static_cast<T>(next[i]); });
    return absl::OkStatus();
  });
}

void StoreSamples(SampleBuilder& s) {
  s.Case("some").Input({5, 7}).Input({5, 7}).Bytes({}).Values({1});
  s.Case("many").Input({3, 5, 1031}).Input({3, 5, 1031}).Bytes({}).Values({1});
  s.Case("whole_packs").Input({5, 32}).Input({5, 32}).Bytes({}).Values({1});
  s.Case("known").Input({2}).Values({1, 2}).Input({2}).Values({3, 5}).Bytes({}).Values({1}).ExpectMutated(0, {3, 5});
  s.Case("gate_closed").Input({2}).Values({1, 2}).Input({2}).Bytes({}).Values({0}).ExpectMutated(0, {1, 2});
  s.Case("shape").Input({4}).Input({5}).Bytes({}).Fails("input 1 \"next\" [5]: expected shape [4]");
  s.Case("gate").Input({4}).Input({4}).Bytes({2}).Fails("input 2 \"gate\" [2]: expected shape []");
}

}  // namespace

SNUG_OPS(state) {
  return {{.name = "state",
           .doc = "y = what `next` put out in the step before, a row for each sample of x; zeros at first",
           .inputs = {{"x", PortType::kAny}},
           .outputs = {{"y"}},
           .layer = Layer,
           .traits = {.layer_only = true}},
          {.name = "store",
           .doc = "state = next",
           .inputs = {{"state", PortType::kFloat32}, {"next"}, {"gate", PortType::kBytes}},
           .outputs = {},
           .infer = InferStore,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .kernels = {Plain(StoreCpu), OwnOnCuda(SNUG_IF_CUDA(StoreCuda))},
           .samples = StoreSamples}};
}

}  // namespace snug::core::ops::state
