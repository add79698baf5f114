// depthwise_block: a depthwise convolution with a convolution of 1 x 1 taps before and after it, and a shortcut. Only
// the pass join_depthwise makes it, in programs that keep what follows from their weights.
#include <absl/strings/str_cat.h>

#include <array>
#include <string>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/activation/in_place.h"
#include "ops/kernels/conv/depthwise/block.h"
#include "ops/kernels/conv/plain.h"
#include "ops/kit/dispatch.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace ops::depthwise_block {
namespace {

using enum DepthwiseBlockPorts::Input;
using proto::ParseOptions;

// ---- shapes ----

absl::StatusOr<DepthwiseBlock> Describe(const proto::DepthwiseBlock& options, const Shape& x) {
  const auto part = [](const proto::FusedConv& conv, const Shape& from) -> absl::StatusOr<DepthwiseBlock::Part> {
    SNUG_ASSIGN_OR_RETURN(const ConvGeometry g, MakeConvGeometry(conv.conv(), from));
    return DepthwiseBlock::Part{g, FromProto(conv.activation())};
  };
  DepthwiseBlock block;
  Shape from = x;
  if (options.has_expand()) {
    SNUG_ASSIGN_OR_RETURN(block.expand, part(options.expand(), from));
    from = block.expand->geometry.output_shape();
  }
  SNUG_ASSIGN_OR_RETURN(block.depthwise, part(options.depthwise(), from));
  SNUG_ASSIGN_OR_RETURN(block.project, part(options.project(), block.depthwise.geometry.output_shape()));
  return block;
}

DepthwiseBlock BlockOf(const NodeTypes& types) {  // of a node whose options inference has checked
  absl::StatusOr<DepthwiseBlock> block = Describe(types.options.Get<proto::DepthwiseBlock>(), types.input(kX).shape);
  SNUG_CHECK_OK(block.status());
  return *block;
}

absl::Status CheckPart(const InferContext& c, int weight, const DepthwiseBlock::Part& part) {
  SNUG_RETURN_IF_ERROR(c.CheckShape(weight, part.geometry.weight_shape()));
  if (!c.has_input(weight + 1)) return absl::OkStatus();
  return c.CheckShape(weight + 1, Shape({part.geometry.out_channels}));
}

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(kX, 3, 2 + kMaxSpatial));
  const auto& options = c.options<proto::DepthwiseBlock>();
  SNUG_ASSIGN_OR_RETURN(const DepthwiseBlock block, Describe(options, c.shape(kX)));
  if (block.expand.has_value() != c.has_input(kExpand)) {
    return absl::InvalidArgumentError(
        block.expand.has_value() ? "input 1 \"expand\": expected weights for option \"expand\", found none"
                                 : "option \"expand\": expected a convolution for input 1 \"expand\", found none");
  }
  if (block.expand.has_value()) SNUG_RETURN_IF_ERROR(CheckPart(c, kExpand, *block.expand));
  SNUG_RETURN_IF_ERROR(CheckPart(c, kDepthwise, block.depthwise));
  SNUG_RETURN_IF_ERROR(CheckPart(c, kProject, block.project));
  if (c.has_input(kShortcut)) SNUG_RETURN_IF_ERROR(c.CheckShape(kShortcut, block.project.geometry.output_shape()));
  c.SetOutput(0, c.input(kX).dtype, block.project.geometry.output_shape(), c.input(kX).layout);
  return absl::OkStatus();
}

Cost BlockCost(const NodeTypes& types) {
  const DepthwiseBlock block = BlockOf(types);
  double multiply_adds = block.depthwise.geometry.multiply_adds() + block.project.geometry.multiply_adds();
  if (block.expand.has_value()) multiply_adds += block.expand->geometry.multiply_adds();
  return {.flops = 2 * multiply_adds, .multiply_adds = multiply_adds};
}

// ---- the plain kernel: one convolution after the other ----

// What the first ones give, in the workspace.
std::array<ValueType, 2> Between(const NodeTypes& types, const DepthwiseBlock& block) {
  const ValueType& x = types.input(kX);
  const Shape wide = block.depthwise.geometry.input_shape();
  return {ValueType{x.dtype, wide, x.layout}, ValueType{x.dtype, block.depthwise.geometry.output_shape(), x.layout}};
}

absl::Status PreparePlain(PrepareContext& c) {
  const DepthwiseBlock block = BlockOf(c.types());
  const auto [wide, narrow] = Between(c.types(), block);
  c.SetWorkspaceBytes((block.expand.has_value() ? wide.size_bytes() : 0) + narrow.size_bytes());
  return absl::OkStatus();
}

absl::Status RunPlain(const KernelContext& k) {
  const DepthwiseBlock block = BlockOf(k.types());
  const auto [wide, narrow] = Between(k.types(), block);
  return DispatchFloating(k.output_type(0).dtype, [&, wide = wide, narrow = narrow](auto zero) {
    using T = decltype(zero);
    const auto convolve = [&](const DepthwiseBlock::Part& part, const ValueType& from, const ValueType& to, const T* x,
                              int weight, T* y) {
      const T* bias = k.has_input(weight + 1) ? k.input<T>(weight + 1) : nullptr;
      PlainConv(k.threads(), part.geometry, from, to, x, k.input<T>(weight), bias, y);
      ActivateInPlace(k.threads(), to.num_elements(), part.activation, y);
    };
    const T* x = k.input<T>(kX);
    T* after = k.workspace<T>();
    if (block.expand.has_value()) {
      convolve(*block.expand, k.input_type(kX), wide, x, kExpand, after);
      x = after;
      after += wide.num_elements();
    }
    convolve(block.depthwise, wide, narrow, x, kDepthwise, after);
    T* y = k.output<T>(0);
    convolve(block.project, narrow, k.output_type(0), after, kProject, y);
    if (!k.has_input(kShortcut)) return absl::OkStatus();
    const T* shortcut = k.input<T>(kShortcut);
    for (int64_t i = 0; i < k.output_type(0).num_elements(); ++i) {
      y[i] = static_cast<T>(static_cast<Accumulator<T>>(y[i]) + static_cast<Accumulator<T>>(shortcut[i]));
    }
    return absl::OkStatus();
  });
}

// ---- samples ----

void Samples(SampleBuilder& s) {
  const auto project = [](int64_t filters) {
    return absl::StrCat(" project { conv { filters: ", filters, " kernel: 1 } }");
  };
  const auto sample = [&](const char* name, const std::string& options, const Shape& x) -> auto& {
    return s.Case(name).With(ParseOptions<proto::DepthwiseBlock>(options.c_str())).Input(x).Range(-3, 3);
  };
  // One whose data are expanded to so many channels, with or without biases.
  const auto expanded = [&](const char* name, int64_t wide, const char* activation, const std::string& depthwise,
                            int64_t filters, const Shape& x, bool biases) -> auto& {
    auto& made = sample(name,
                        absl::StrCat("expand { conv { filters: ", wide, " kernel: 1 } activation: ", activation, " } ",
                                     depthwise, project(filters)),
                        x);
    const auto bias = [&](int64_t channels) { biases ? made.Input({channels}) : made.Absent(); };
    made.Input({wide, x[1], 1, 1});
    bias(wide);
    made.Input({wide, 1, 3, 3});
    bias(wide);
    made.Input({filters, wide, 1, 1});
    bias(filters);
    return made;
  };
  const std::string expand = "expand { conv { filters: 32 kernel: 1 } activation: RELU6 } ";
  const std::string depthwise = "depthwise { conv { kernel: 3 depthwise: true pad: 1 } activation: RELU6 }";
  const std::string strided = "depthwise { conv { kernel: 3 stride: 2 depthwise: true pad: 1 } activation: RELU }";
  expanded("block", 32, "RELU6", depthwise, 5, {2, 5, 9, 7}, true).Input({2, 5, 9, 7});
  expanded("strided", 32, "RELU6", strided, 40, {2, 6, 8, 11}, true);
  sample("without_expand", depthwise + project(16), {3, 16, 2, 3})
      .Absent()
      .Absent()
      .Input({16, 1, 3, 3})
      .Input({16})
      .Input({16, 16, 1, 1})
      .Absent()
      .Input({3, 16, 2, 3});
  sample("unpadded", "depthwise { conv { kernel: 3 depthwise: true } }" + project(3), {1, 43, 6, 9})
      .Absent()
      .Absent()
      .Input({43, 1, 3, 3})
      .Absent()
      .Input({3, 43, 1, 1})
      .Absent();
  // So many channels that an image is several strips.
  expanded("strips", 1536, "RELU", depthwise, 8, {2, 4, 13, 8}, true);
  expanded("strips_in_steps", 1536, "RELU", strided, 8, {2, 4, 21, 8}, false);
  // Images of few rows: two threads have as many each, or share the channels.
  expanded("few_rows_evenly", 96, "RELU6", depthwise, 6, {1, 6, 6, 5}, true).Input({1, 6, 6, 5});
  expanded("few_rows", 96, "RELU6", depthwise, 6, {1, 6, 5, 6}, true).Input({1, 6, 5, 6});
  expanded("few_rows_in_steps", 96, "RELU6", strided, 70, {1, 6, 9, 5}, false);
  sample("other_channels", "depthwise { conv { kernel: 3 depthwise: true pad: 1 } }" + project(3), {1, 5, 4, 4})
      .Absent()
      .Absent()
      .Input({5, 1, 3, 3})
      .Absent()
      .Input({3, 5, 1, 1})
      .Absent();
  sample("known",
         "depthwise { conv { kernel: 1 depthwise: true } activation: RELU } project { conv { filters: 1 kernel: 1 } }",
         {1, 2, 1, 2})
      .Values({1, -2, 3, 4})
      .Absent()
      .Absent()
      .Input({2, 1, 1, 1})
      .Values({2, 10})
      .Input({2})
      .Values({0, 1})
      .Input({1, 2, 1, 1})
      .Values({1, 100})
      .Input({1})
      .Values({0.5})
      .Input({1, 1, 1, 2})
      .Values({1000, 2000})
      .Expect(0, {4102.5, 6100.5});
  sample("no_expand", expand + depthwise + project(16), {1, 16, 4, 4})
      .Absent()
      .Absent()
      .Input({32, 1, 3, 3})
      .Absent()
      .Input({16, 32, 1, 1})
      .Absent()
      .Fails("expected weights for option \"expand\", found none");
  sample("bad_shortcut", depthwise + project(16), {1, 16, 4, 4})
      .Absent()
      .Absent()
      .Input({16, 1, 3, 3})
      .Absent()
      .Input({16, 16, 1, 1})
      .Absent()
      .Input({1, 16, 4, 5})
      .Fails("expected shape [1, 16, 4, 4]");
}

}  // namespace
}  // namespace ops::depthwise_block

bool IsDoneInStrips(const proto::DepthwiseBlock& options, const ValueType& x) {
  const absl::StatusOr<ops::DepthwiseBlock> block = ops::depthwise_block::Describe(options, x.shape);
  return block.ok() && !ops::WhyNotStrips(*block, x).has_value();
}

namespace ops::depthwise_block {

SNUG_OPS(depthwise_block) {
  return {{.name = "depthwise_block",
           .doc = "y = project(depthwise(expand(x))) + shortcut: three convolutions, each with an activation",
           .inputs = {{"x"},
                      {.name = "expand", .optional = true, .plain_layout = true},
                      {.name = "expand_bias", .optional = true},
                      {.name = "depthwise", .plain_layout = true},
                      {.name = "depthwise_bias", .optional = true},
                      {.name = "project", .plain_layout = true},
                      {.name = "project_bias", .optional = true},
                      {.name = "shortcut", .optional = true}},
           .outputs = {{"y"}},
           .infer = Infer,
           .traits = {.layout = LayoutRule::kPrefers},
           .cost = BlockCost,
           .kernels = {StripsRow(BlockOf), {.name = "plain", .prepare = PreparePlain, .run = RunPlain}},
           .samples = Samples}};
}

}  // namespace ops::depthwise_block
}  // namespace snug::core
