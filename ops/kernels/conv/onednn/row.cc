#include "ops/kernels/conv/onednn/row.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/onednn/conv.h"
#include "ops/kernels/conv/onednn/faults.h"
#include "ops/kernels/conv/onednn/slices.h"
#include "ops/kernels/matmul/onednn_bfloat16.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace onednn_row {
namespace {

using onednn::ConvKernel;
using onednn::ConvSpec;
using Names = absl::StatusOr<std::vector<std::string>>;

// What the library is asked for a part of a convolution.
struct Calls {
  absl::StatusOr<ConvKernel> (*make)(const ConvSpec&);
  Names (*implementations)(const ConvSpec&);
};

Calls CallsOf(ConvPart part) {
  switch (part) {
    case ConvPart::kForward:
      return {onednn::MakeConv, onednn::ConvImplementations};
    case ConvPart::kGradInput:
      return {onednn::MakeConvGradInput, onednn::ConvGradInputImplementations};
    case ConvPart::kGradWeight:
      break;
  }
  return {onednn::MakeConvGradWeight, onednn::ConvGradWeightImplementations};
}

// For the gradient of weights in bfloat16 every thread has sums and transposed images of its own in the workspace. A
// small one takes less time than it takes to wake a thread.
int ThreadsFor(ConvPart part, const ConvNode& node, const NodeTypes& t, int threads) {
  constexpr double kSmall = 1 << 20;  // multiply-adds
  const bool small = part == ConvPart::kGradWeight && t.input(0).dtype == DType::kBFloat16 &&
                     static_cast<double>(node.geometry.multiply_adds()) <= kSmall;
  return small ? 1 : threads;
}

ConvSpec SpecOf(ConvPart part, const ConvNode& node, const NodeTypes& t, int all_threads) {
  ConvSpec spec = {
      .geometry = node.geometry, .activation = node.activation, .threads = ThreadsFor(part, node, t, all_threads)};
  switch (part) {
    case ConvPart::kForward:
      spec.x = t.input(0);
      spec.w = t.input(1);
      spec.y = t.output(0);
      spec.bias = t.has_input(2);
      return spec;
    case ConvPart::kGradInput:
      spec.x = t.output(0);
      spec.w = t.input(1);
      spec.y = t.input(0);
      return spec;
    case ConvPart::kGradWeight:
      break;
  }
  spec.x = t.input(0);
  spec.w = t.output(0);
  spec.y = t.input(1);
  return spec;
}

// What is wrong in bfloat16 alone is computed in float32 (Prepare).
std::optional<NotServed> WhyNot(ConvPart part, const NodeTypes& t, DescribeConv describe) {
  if (std::optional<NotServed> in_double = NotInDouble(t); in_double.has_value()) return in_double;
  std::optional<std::string> fault = OneDnnFaultOf(part, describe(t).geometry, DType::kFloat32);
  return fault.has_value() ? std::optional(Refused(*std::move(fault))) : std::nullopt;
}

// Hands over the kernel, or wishes for the layout that the weights should have, or declines.
absl::Status Settle(PrepareContext& c, ConvPart part, const absl::StatusOr<ConvKernel>& made) {
  if (onednn::Declines(c, made.status())) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(made.status());
  if (made->kernel != nullptr) {
    c.SetWorkspaceBytes(made->kernel->workspace_bytes());
    c.SetKernel(made->kernel);
  } else if (part == ConvPart::kGradWeight) {
    c.WantOutputLayout(0, made->weights);
  } else {
    c.WantInputLayout(1, made->weights);
  }
  return absl::OkStatus();
}

// Prepares a kernel for bfloat16 images that computes in float32 slice by slice, and says whether it can. Where it
// pays, the weights have to be float32, which the compiler is asked for first, and arranges where they are a parameter,
// or a gradient that updates alone read.
absl::StatusOr<bool> PreparesSlices(PrepareContext& c, ConvPart part, const ConvSpec& spec) {
  if (!c.unrounded()) {
    c.WantUnrounded();
    return true;
  }
  const bool weights_are_input = part != ConvPart::kGradWeight;
  const auto wide = [&](int i) { return !c.types().has_input(i) || c.types().input(i).dtype == DType::kFloat32; };
  const bool weights_wide = weights_are_input ? wide(1) && wide(2) : c.types().output(0).dtype == DType::kFloat32;
  if (!weights_wide || !onednn::ConvSlices(spec).pay(spec, weights_are_input)) return false;
  const absl::StatusOr<ConvKernel> made = onednn::MakeSlicedConv(spec, CallsOf(part).make, weights_are_input);
  if (absl::IsUnimplemented(made.status())) return false;
  SNUG_RETURN_IF_ERROR(Settle(c, part, made));
  return true;
}

absl::Status Prepare(PrepareContext& c, ConvPart part, DescribeConv describe) {
  ConvSpec spec = SpecOf(part, describe(c.types()), c.types(), c.threads());
  if (onednn::ComputesBFloat16InFloat32(c)) {
    SNUG_ASSIGN_OR_RETURN(const bool prepared, PreparesSlices(c, part, spec));
    if (!prepared) c.WantFloat32();  // between casts
    return absl::OkStatus();
  }
  if (OneDnnFaultOf(part, spec.geometry, spec.y.dtype).has_value()) {
    c.WantFloat32();
    return absl::OkStatus();
  }
  spec.implementation = std::string(onednn::ChosenImplementation(c));
  return Settle(c, part, CallsOf(part).make(spec));
}

Names Variants(const PrepareContext& c, ConvPart part, DescribeConv describe) {
  const DType dtype = c.types().output(0).dtype;
  if (!onednn::Supports(dtype)) return std::vector<std::string>();
  const ConvSpec spec = SpecOf(part, describe(c.types()), c.types(), c.threads());
  if (OneDnnFaultOf(part, spec.geometry, dtype).has_value()) return std::vector<std::string>();
  const Calls calls = CallsOf(part);
  SNUG_ASSIGN_OR_RETURN(std::vector<std::string> variants, calls.implementations(spec));
  SNUG_RETURN_IF_ERROR(onednn::OfferOtherWay(dtype, calls.make(spec).status(), variants));
  return variants;
}

// Every part has two inputs and one output; the convolution itself may have a bias, too.
absl::Status Run(const KernelContext& k) {
  const auto& kernel = k.prepared<onednn::Kernel>();
  const void* first = k.input<void>(0);
  const void* second = k.input<void>(1);
  if (!k.has_input(2)) return kernel.Run({first, second, k.output<void>(0)}, k.workspace());
  return kernel.Run({first, second, k.input<void>(2), k.output<void>(0)}, k.workspace());
}

}  // namespace
}  // namespace onednn_row

KernelRow OneDnnConvRow(ConvPart part, DescribeConv describe) {
  return {.name = "onednn",
          .library = "oneDNN",
          .serves = [=](const NodeTypes& t) { return onednn_row::WhyNot(part, t, describe); },
          .prepare = [=](PrepareContext& c) { return onednn_row::Prepare(c, part, describe); },
          .tunable = true,
          .variants = [=](const PrepareContext& c) { return onednn_row::Variants(c, part, describe); },
          .run = onednn_row::Run};
}

}  // namespace snug::core::ops
