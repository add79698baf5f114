// embedding: y = rows of a table, chosen by integers. Its gradient adds rows back to where they came from.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/layer_context.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::embedding {
namespace {

using proto::ParseOptions;

absl::Status CheckOptions(InferContext& c, const proto::Embedding& options) {
  if (options.entries() < 1) {
    return c.OptionError("entries", absl::StrCat("expected at least 1, found ", options.entries()));
  }
  if (options.width() < 1) return c.OptionError("width", absl::StrCat("expected at least 1, found ", options.width()));
  return absl::OkStatus();
}

absl::Status Infer(InferContext& c) {
  const proto::Embedding& options = c.options<proto::Embedding>();
  SNUG_RETURN_IF_ERROR(CheckOptions(c, options));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 0, kMaxRank - 1));
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, {options.entries(), options.width()}));
  Shape shape = c.shape(0);
  shape.Append(options.width());
  c.SetOutput(0, c.input(1).dtype, shape);
  return absl::OkStatus();
}

absl::Status InferGrad(InferContext& c) {
  const proto::Embedding& options = c.options<proto::Embedding>();
  SNUG_RETURN_IF_ERROR(CheckOptions(c, options));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 0, kMaxRank - 1));
  Shape shape = c.shape(0);
  shape.Append(options.width());
  SNUG_RETURN_IF_ERROR(c.CheckShape(1, shape));
  c.SetOutput(0, c.input(1).dtype, {options.entries(), options.width()});
  return absl::OkStatus();
}

absl::Status Layer(LayerContext& c) {
  const proto::Embedding& options = c.options<proto::Embedding>();
  if (c.num_inputs() != 1) {
    c.Fail(absl::InvalidArgumentError(absl::StrCat("expected 1 input (ids), found ", c.num_inputs())));
    return c.status();
  }
  if (options.entries() < 1 || options.width() < 1) {  // the table would have no shape, so inference has to say why
    c.Op("embedding", {c.input(0), c.input(0)}, c.options_handle());
    return c.status();
  }
  const ValueId weight = c.Parameter({.name = "weight",
                                      .shape = {options.entries(), options.width()},
                                      .init = ParameterSpec::Init::kNormal,
                                      .value = 1,
                                      .fan_in = options.entries(),
                                      .fan_out = options.width()});
  c.SetOutput(0, c.Op("embedding", {c.input(0), weight}, c.options_handle()));
  return c.status();
}

absl::Status Gradient(GradContext& g) {  // only the table has one, and it keeps nothing but the ids
  if (g.wants(1)) g.SetInputGrad(1, g.Op("embedding_grad", {g.input(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

absl::Status EmbeddingCpu(const KernelContext& k) { return GatherRows(k, 1, 0, 0, "ids"); }

absl::Status PrepareGrad(PrepareContext& c) {
  c.SetWorkspaceBytes(ScatterAddWorkspaceBytes(c.types(), 0, 0));
  return absl::OkStatus();
}

absl::Status PrepareGradCuda(PrepareContext& c) {
  c.SetWorkspaceBytes(ScatterAddCudaWorkspaceBytes(c.types(), 0));
  return absl::OkStatus();
}

absl::Status EmbeddingGradCpu(const KernelContext& k) { return ScatterAddRows(k, 0, 1, 0, "ids"); }

Cost CostOf(const NodeTypes& types) {  // it counts the rows that are read, not the whole table
  const double rows = static_cast<double>(types.output(0).size_bytes());
  return {.flops = 0, .bytes = 2 * rows + static_cast<double>(types.input(0).size_bytes())};
}

Cost GradCostOf(const NodeTypes& types) {
  return {.flops = static_cast<double>(types.input(1).num_elements()),
          .bytes = static_cast<double>(types.input(0).size_bytes() + types.input(1).size_bytes() +
                                       types.output(0).size_bytes())};
}

void Samples(SampleBuilder& s) {
  const auto table = [] { return ParseOptions<proto::Embedding>("entries: 6 width: 19"); };
  s.Case("matrix").Int({4, 3}, 0, 6).Input({6, 19}).With(table());
  s.Case("int64").Int({5}, 0, 6, DType::kInt64).Input({6, 19}).With(table());
  s.Case("one_id").Int({}, 0, 6).Input({6, 19}).With(table());
  s.Case("whole_packs").Int({3, 2}, 0, 5).Input({5, 64}).With(ParseOptions<proto::Embedding>("entries: 5 width: 64"));
  s.Case("wide").Int({3}, 0, 2).Input({2, 300}).With(ParseOptions<proto::Embedding>("entries: 2 width: 300"));
  s.Case("known")
      .Int({3}, 0, 2)
      .Values({1, 0, 1})
      .Input({2, 2})
      .Values({1, 2, 3, 4})
      .With(ParseOptions<proto::Embedding>("entries: 2 width: 2"))
      .Expect(0, {3, 4, 1, 2, 3, 4});
  s.Case("id_too_large")
      .Int({2, 2}, 0, 6)
      .Values({0, 5, 6, 1})
      .Input({6, 19})
      .With(table())
      .FailsAtRun("ids[1, 0]: expected an entry in [0, 6), found 6");
  s.Case("id_negative").Int({2}, 0, 6).Values({0, -1}).Input({6, 19}).With(table()).FailsAtRun("ids[1]: expected");
  s.Case("no_entries")
      .Int({2}, 0, 6)
      .Input({6, 19})
      .With(ParseOptions<proto::Embedding>("width: 19"))
      .Fails("option \"entries\": expected at least 1, found 0");
  s.Case("no_width")
      .Int({2}, 0, 6)
      .Input({6, 19})
      .With(ParseOptions<proto::Embedding>("entries: 6"))
      .Fails("option \"width\": expected at least 1, found 0");
  s.Case("wrong_table").Int({2}, 0, 6).Input({6, 18}).With(table()).Fails("expected shape [6, 19]");
}

void GradSamples(SampleBuilder& s) {
  const auto table = [] { return ParseOptions<proto::Embedding>("entries: 6 width: 19"); };
  s.Case("repeated").Int({4, 5}, 0, 6).Input({4, 5, 19}).With(table());
  s.Case("many").Int({2500}, 0, 700).Input({2500, 8}).With(ParseOptions<proto::Embedding>("entries: 700 width: 8"));
  s.Case("int64").Int({3}, 0, 6, DType::kInt64).Input({3, 19}).With(table());
  s.Case("known")
      .Int({3}, 0, 3)
      .Values({2, 0, 2})
      .Input({3, 1})
      .Values({1, 2, 4})
      .With(ParseOptions<proto::Embedding>("entries: 3 width: 1"))
      .Expect(0, {2, 0, 5});
  s.Case("id_too_large").Int({2}, 0, 6).Values({0, 6}).Input({2, 19}).With(table()).FailsAtRun("ids[1]: expected");
  s.Case("wrong_gradient").Int({2}, 0, 6).Input({3, 19}).With(table()).Fails("expected shape [2, 19]");
}

}  // namespace

SNUG_OPS(embedding) {
  return {{.name = "embedding",
           .doc = "y = w[ids]; w: [entries, width]",
           .inputs = {{"ids", PortType::kInteger}, {"weight"}},
           .outputs = {{"y"}},
           .infer = Infer,
           .layer = Layer,
           .gradient = Gradient,
           .index_bound = [](const NodeTypes& types, int input) { return input == 0 ? types.input(1).shape[0] : 0; },
           .cost = CostOf,
           .kernels = {Plain(EmbeddingCpu),
                       OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) { return GatherRowsCuda(k, 1, 0, 0); }))},
           .samples = Samples},
          {.name = "embedding_grad",
           .doc = "dw[e] = sum of dy over the positions where ids = e",
           .inputs = {{"ids", PortType::kInteger}, {"dy"}},
           .outputs = {{"dw"}},
           .infer = InferGrad,
           .cost = GradCostOf,
           .kernels = {{.name = "plain", .prepare = PrepareGrad, .run = EmbeddingGradCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = PrepareGradCuda,
                        .run = SNUG_IF_CUDA([](const KernelContext& k) { return ScatterAddRowsCuda(k, 0, 1, 0); })}},
           .samples = GradSamples}};
}

}  // namespace snug::core::ops::embedding
