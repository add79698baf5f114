// Makes an optimizer's update op of a function of update_functions.h. Its ports: the parameter, its slots, the
// gradient, the learning rate, the random state {seed, step} where the op counts steps, the gate, and the random state
// for rounding where it does not.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kit/cuda/together.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/update_functions.h"
#include "ops/optim/update_numbers.h"
#include "ops/optim/updates_cuda.h"

namespace snug::proto {
class Update;
}

namespace snug::core {

template <template <class> class F>
absl::Status InferUpdate(InferContext& c) {
  return CheckUpdate(c, F<float>::kSlots, F<float>::kCounts);
}

template <template <class> class F>
absl::Status UpdateCpu(const KernelContext& k) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  constexpr int kSlots = F<float>::kSlots;
  return DispatchKept(k, kSlots, [&](auto zero, auto grad_zero) {
    using P = decltype(zero);
    using T = Accumulator<P>;
    const UpdateNumbers numbers = NumbersOf(k.options<proto::Update>());
    const double rate = static_cast<double>(*k.input<T>(kSlots + 2)) * numbers.lr_mult;
    const double step = F<T>::kCounts ? static_cast<double>(k.input<int64_t>(kSlots + 3)[1] + 1) : 1;
    const F<T> update(numbers, rate, step);
    const auto* g = k.input<decltype(grad_zero)>(kSlots + 1);
    UpdateVariables<1 + kSlots, P>(k, 0, F<float>::kSquares << 1, [=](int64_t i, T& p, auto&... slots) SNUG_LAMBDA {
      update(static_cast<T>(g[i]), p, slots...);
    });
    return absl::OkStatus();
  });
}

template <template <class> class F>
OpDef UpdateOp(absl::string_view name, absl::string_view doc, const std::vector<absl::string_view>& slots,
               SamplesFn samples) {
  constexpr bool kCounts = F<float>::kCounts;
  OpDef op{.name = name,
           .doc = doc,
           .inputs = {{"param", PortType::kKept}},
           .outputs = {},
           .infer = InferUpdate<F>,
           .aliases = {{Alias::Kind::kMutates, 0, 0}},
           .kernels = {{.name = "plain", .run = UpdateCpu<F>},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareUpdateCuda<proto::Update>),
                        .run = SNUG_IF_CUDA(Alone<UpdateCuda<F>>),
                        .together = SNUG_IF_CUDA(UpdateCuda<F>)}},
           .samples = samples};
  for (const absl::string_view slot : slots) {
    op.aliases.push_back({Alias::Kind::kMutates, 0, static_cast<int>(op.inputs.size())});
    op.inputs.push_back({slot, PortType::kKept});
  }
  op.inputs.push_back({"grad"});
  op.inputs.push_back({"lr", PortType::kFloat32});
  if (kCounts) op.inputs.push_back({"state", PortType::kInteger});
  op.inputs.push_back({"gate", PortType::kBytes});
  if (!kCounts) op.inputs.push_back(kRoundingPort);
  return op;
}

}  // namespace snug::core
