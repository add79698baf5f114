// fused: a chain of elementwise ops as one node; and fused_reduce, a chain that a reduction ends. The pass
// fuse_elementwise makes them for CUDA, where NVRTC compiles their kernels (kernels/fused/cuda.h). The plain kernel
// runs the members one by one, each by its own plain kernel, with what lies between them in the workspace: other
// kernels have to give the same bits.
//
// The result of a chain may lie on an operand of its type, because element i of it is read before element i of the
// result is written. A reduction's may not: one result is written while another still needs all of the operand.
#include <absl/strings/str_cat.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/fused_chain.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/registry.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#if SNUG_HAS_CUDA
#include "ops/kernels/fused/cuda.h"
#endif

namespace snug::core::ops::fused {
namespace {

using proto::ParseOptions;

constexpr int64_t kAlignment = 64;  // everything in the workspace begins at a multiple of it

absl::StatusOr<FusedChain> ChainOf(const InferContext& c) {
  NodeTypes types;
  for (int i = 0; i < c.num_inputs(); ++i) {
    types.inputs.push_back(c.input(i));
    types.present.push_back(true);
  }
  types.options = c.options_handle();
  return ReadFusedChain(types);
}

absl::Status Infer(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const FusedChain chain, ChainOf(c));
  if (chain.reduces()) return absl::InvalidArgumentError("expected no reduction, which fused_reduce is for");
  c.SetOutput(0, chain.output());
  return absl::OkStatus();
}

absl::Status InferReduce(InferContext& c) {
  SNUG_ASSIGN_OR_RETURN(const FusedChain chain, ChainOf(c));
  if (!chain.reduces()) return absl::InvalidArgumentError("expected a reduction as the last member");
  c.SetOutput(0, chain.output());
  return absl::OkStatus();
}

struct Plain {
  FusedChain chain;
  // Indexed by member: where its result lies in the workspace. The last one's is the node's output instead.
  std::vector<int64_t> offsets;
};

absl::Status Prepare(PrepareContext& c) {
  auto plain = std::make_shared<Plain>();
  SNUG_ASSIGN_OR_RETURN(plain->chain, ReadFusedChain(c.types()));
  int64_t bytes = 0;
  for (const FusedMember& member : plain->chain.members) {
    plain->offsets.push_back(bytes);
    if (&member == &plain->chain.members.back()) break;
    bytes += (member.types.output(0).size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  c.SetWorkspaceBytes(bytes);
  c.SetKernel(std::move(plain));
  return absl::OkStatus();
}

absl::Status Kernel(const KernelContext& k) {
  const auto& [chain, offsets] = k.prepared<Plain>();
  std::array<void*, kMostFusedInputs + kMostFusedMembers> values = {};
  size_t count = 0;
  for (int i = 0; i < k.num_inputs(); ++i) values[count++] = k.variable<void>(i);
  for (size_t m = 0; m < chain.members.size(); ++m) {
    const FusedMember& member = chain.members[m];
    std::array<void*, kMostFusedInputs + kMostFusedMembers> operands = {};
    for (size_t o = 0; o < member.operands.size(); ++o) operands[o] = values[static_cast<size_t>(member.operands[o])];
    void* output = m + 1 == chain.members.size() ? k.output<void>(0) : k.workspace<std::byte>() + offsets[m];
    SNUG_RETURN_IF_ERROR(member.op->plain()->run(KernelContext(&member.types, {operands.data(), member.operands.size()},
                                                               {&output, 1}, nullptr, nullptr, k.threads(), 0)));
    values[count++] = output;
  }
  return absl::OkStatus();
}

Cost CostOfChain(const NodeTypes& types) {
  const absl::StatusOr<FusedChain> chain = ReadFusedChain(types);
  SNUG_CHECK_OK(chain.status());
  return {.flops = static_cast<double>(chain->members.size()) * static_cast<double>(chain->elements().num_elements())};
}

// Makes a member of one of this library's ops.
FusedMemberSpec Member(absl::string_view op, std::vector<int> operands, Options options = {}) {
  return {&OpRegistry::Builtin().Get(op), std::move(options), std::move(operands)};
}

void Samples(SampleBuilder& s) {
  s.Case("chain").Input({5, 8}).Input({5, 8}).With(
      FusedOptions({Member("mul", {0, 1}), Member("add", {2, 1}), Member("tanh", {3})}));
  s.Case("odd_count").Input({5, 7}).Input({5, 7}).With(FusedOptions({Member("relu", {0}), Member("add_n", {2, 1, 0})}));
  s.Case("broadcast")
      .Input({2, 3, 4, 4})
      .Input({3, 1, 1})
      .Input({})
      .With(FusedOptions({Member("mul", {0, 1}), Member("add", {2, 3}), Member("silu", {4})}));
  s.Case("bias").Input({2, 4, 3}).Input({4}).With(FusedOptions({Member("bias_add", {0, 1}), Member("gelu", {2})}));
  s.Case("options").Input({33}).With(
      FusedOptions({Member("scale", {0}, ParseOptions<proto::Scale>("factor: 2.5 offset: -1")),
                    Member("clip", {1}, ParseOptions<proto::Clip>("max: 0.25"))}));
  s.Case("casts")
      .Input({40})
      .As(DType::kBFloat16)
      .With(FusedOptions({Member("cast", {0}, ParseOptions<proto::Cast>("dtype: FLOAT32")), Member("sigmoid", {1}),
                          Member("cast", {2}, ParseOptions<proto::Cast>("dtype: BFLOAT16")), Member("add", {3, 0})}));
  s.Case("one").Input({4}).With(FusedOptions({Member("neg", {0})}));
  s.Case("known")
      .Input({3})
      .Values({1, -2, 3})
      .With(FusedOptions({Member("square", {0}), Member("neg", {1})}))
      .Expect(0, {-1, -4, -9});
  s.Case("none").Input({3}).Fails("1 to 32 members, found 1 and 0");
  s.Case("not_elementwise")
      .Input({3})
      .With(FusedOptions({Member("softmax", {0})}))
      .Fails("member 0 (softmax): expected an op that computes element by element");
  s.Case("reduction")
      .Input({3})
      .With(FusedOptions({Member("relu", {0}), Member("reduce_sum", {1})}))
      .Fails("expected no reduction, which fused_reduce is for");
  s.Case("later_value")
      .Input({3})
      .With(FusedOptions({Member("relu", {1})}))
      .Fails("member 0 (relu): expected inputs from 0 to 0, found 1");
  s.Case("two_shapes")
      .Input({3, 1})
      .Input({3})
      .With(FusedOptions({Member("relu", {0}), Member("add", {2, 1})}))
      .Fails("expected members of one shape and layout");
}

void ReduceSamples(SampleBuilder& s) {
  const auto reduced = [&s](const char* name, const std::vector<Shape>& shapes, absl::string_view reduction,
                            Options options) {
    auto& sample = s.Case(name);
    for (const Shape& shape : shapes) sample.Input(shape);
    sample.With(FusedOptions({Member("mul", {0, 1}), Member("relu", {2}), Member(reduction, {3}, std::move(options))}));
  };
  const auto reduce = ParseOptions<proto::Reduce>;
  reduced("sum_of_all", {{5, 7}, {5, 7}}, "reduce_sum", {});
  reduced("mean_of_rows", {{5, 70}, {70}}, "reduce_mean", reduce("axis: 1"));
  reduced("sum_of_columns", {{70, 19}, {70, 1}}, "reduce_sum", reduce("axis: 0 keep_dims: true"));
  reduced("largest_of_channels", {{2, 3, 4, 5}, {3, 1, 1}}, "reduce_max", reduce("axis: [0, 2, 3]"));
  reduced("to_shape", {{2, 3, 4, 5}, {}}, "reduce_to_shape", ParseOptions<proto::ShapeOf>("dim: [3, 1, 1]"));
  reduced("in_parts", {{300, 250}, {250}}, "reduce_sum", reduce("axis: 0"));
  reduced("in_parts_by_blocks", {{2, 20000}, {2, 1}}, "reduce_mean", reduce("axis: 1"));
  reduced("rows_of_packs", {{5, 64}, {64}}, "reduce_sum", reduce("axis: 1"));
  reduced("columns_of_packs", {{40, 32}, {40, 1}}, "reduce_max", reduce("axis: 0"));
  reduced("columns_in_parts", {{3000, 16}, {16}}, "reduce_sum", reduce("axis: 0"));
  reduced("single_run", {{1003}, {1003}}, "reduce_mean", {});
  // One operand has the result's type, but may not be overwritten, because every result needs all of it.
  reduced("rows_as_long_as_columns", {{64, 64}, {64}}, "reduce_sum", reduce("axis: 1"));
  s.Case("known")
      .Input({2, 2})
      .Values({1, -2, 3, 4})
      .With(FusedOptions({Member("square", {0}), Member("reduce_sum", {1}, ParseOptions<proto::Reduce>("axis: 1"))}))
      .Expect(0, {5, 25});
  s.Case("reduction_alone")
      .Input({3})
      .With(FusedOptions({Member("reduce_sum", {0})}))
      .Fails("member 0 (reduce_sum): expected an op that computes element by element, or a reduction after these");
  s.Case("reduction_in_between")
      .Input({3})
      .With(FusedOptions({Member("relu", {0}), Member("reduce_sum", {1}), Member("relu", {2})}))
      .Fails("member 1 (reduce_sum): expected an op that computes element by element");
  s.Case("reduction_of_another")
      .Input({3})
      .With(FusedOptions({Member("relu", {0}), Member("reduce_sum", {0})}))
      .Fails("member 1 (reduce_sum): expected value 1, which is the last, found 0");
  s.Case("no_reduction")
      .Input({3})
      .With(FusedOptions({Member("relu", {0})}))
      .Fails("expected a reduction as the last member");
}

}  // namespace

SNUG_OPS(fused) {
  OpDef fused = {.name = "fused",
                 .doc = "y = a chain of elementwise ops, as one kernel",
                 .inputs = {{.name = "x", .type = PortType::kAny, .variadic = true}},
                 .outputs = {{"y", PortType::kAny}},
                 .infer = Infer,
                 .traits = {.layout = LayoutRule::kAgnostic},
                 .cost = CostOfChain,
                 .kernels = {{.name = "plain", .prepare = Prepare, .run = Kernel}},
                 .samples = Samples};
#if SNUG_HAS_CUDA
  fused.kernels.push_back(FusedCudaRow());
#endif
  OpDef fused_reduce = fused;
  fused_reduce.name = "fused_reduce";
  fused_reduce.doc = "y = the sum, mean or maximum of what a chain of elementwise ops makes, which is not stored";
  fused_reduce.infer = InferReduce;
  fused_reduce.samples = ReduceSamples;
  for (int i = 0; i < kMostFusedInputs; ++i) fused.aliases.push_back({Alias::Kind::kMayShare, /*output=*/0, i});
  return {fused, fused_reduce};
}

}  // namespace snug::core::ops::fused
