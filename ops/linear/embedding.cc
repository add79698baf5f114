// embedding: y = rows of a table, chosen by integers. Its gradient adds rows back to where they came from: in an array
// of the table's shape (embedding_grad), or in a list of the rows that were chosen (embedding_grad_rows), where nothing
// but an update by rows reads it (engine/compile/differentiate/row_gradients.h).
#include <absl/strings/str_cat.h>

#include <cstring>
#include <limits>
#include <vector>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/dispatch.h"
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

absl::Status InferGradRows(InferContext& c) {
  SNUG_RETURN_IF_ERROR(InferGrad(c));
  const int64_t choices = c.shape(0).num_elements();
  const proto::Embedding& options = c.options<proto::Embedding>();
  if (!CanSumChosenRows(choices, options.entries())) {
    return c.OptionError("entries", absl::StrCat("expected a number of which ", choices,
                                                 " ids fit into keys of 64 bits, found ", options.entries()));
  }
  c.SetOutput(0, DType::kInt64, {choices});
  c.SetOutput(1, c.input(1).dtype, {choices, options.width()});
  return absl::OkStatus();
}

absl::Status PrepareGradRows(PrepareContext& c) {
  c.SetWorkspaceBytes(SumChosenRowsWorkspaceBytes(c.types().input(0).num_elements()));
  return absl::OkStatus();
}

absl::Status EmbeddingGradRowsCpu(const KernelContext& k) {
  return SumChosenRows(k, 0, 1, k.options<proto::Embedding>().entries(), "ids");
}

Cost GradRowsCostOf(const NodeTypes& types) {
  const auto& ids = types.input(0);
  return {.flops = static_cast<double>(types.input(1).num_elements()),
          .bytes = 2 * static_cast<double>(types.input(1).size_bytes()) +
                   static_cast<double>(ids.size_bytes() + SumChosenRowsWorkspaceBytes(ids.num_elements()))};
}

absl::Status InferAddRows(InferContext& c) {
  for (const int rows : {0, 2}) {
    SNUG_RETURN_IF_ERROR(c.CheckRank(rows, 1, 1));
    if (c.input(rows).dtype != DType::kInt64) {
      return c.InputError(rows, absl::StrCat("expected int64, found ", Name(c.input(rows).dtype)));
    }
    SNUG_RETURN_IF_ERROR(c.CheckRank(rows + 1, 2, 2));
    SNUG_RETURN_IF_ERROR(c.CheckShape(rows + 1, {c.shape(rows)[0], c.shape(1)[1]}));
  }
  const int64_t room = c.shape(0)[0] + c.shape(2)[0];
  c.SetOutput(0, DType::kInt64, {room});
  c.SetOutput(1, c.input(1).dtype, {room, c.shape(1)[1]});
  return absl::OkStatus();
}

absl::Status PrepareAddRows(PrepareContext& c) {
  c.SetWorkspaceBytes(2 * c.types().output(0).size_bytes());
  return absl::OkStatus();
}

absl::Status AddRowsCpu(const KernelContext& k) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  SNUG_RETURN_IF_ERROR(CheckRowList(k.input<int64_t>(0), k.input_type(0).shape[0], kAny));
  SNUG_RETURN_IF_ERROR(CheckRowList(k.input<int64_t>(2), k.input_type(2).shape[0], kAny));
  return AddRowLists(k);
}

absl::Status InferAddListedRows(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, 2));
  SNUG_RETURN_IF_ERROR(c.CheckRank(1, 1, 1));
  if (c.input(1).dtype != DType::kInt64) {
    return c.InputError(1, absl::StrCat("expected int64, found ", Name(c.input(1).dtype)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(2, {c.shape(1)[0], c.shape(0)[1]}));
  c.SetOutput(0, c.input(0));
  return absl::OkStatus();
}

absl::Status AddListedRowsCpu(const KernelContext& k) {
  const ValueType& whole = k.input_type(0);
  const auto* numbers = k.input<int64_t>(1);
  const int64_t room = k.input_type(1).shape[0];
  SNUG_RETURN_IF_ERROR(CheckRowList(numbers, room, whole.shape[0]));
  if (k.output<char>(0) != k.input<char>(0)) {
    std::memcpy(k.output<char>(0), k.input<char>(0), static_cast<size_t>(whole.size_bytes()));
  }
  return DispatchFloating(whole.dtype, [&](auto zero) {
    using T = decltype(zero);
    AddListedRows(k.threads(), numbers, CountRows(numbers, room), whole.shape[1], k.input<T>(2), 0, k.output<T>(0));
    return absl::OkStatus();
  });
}

Cost AddListedRowsCostOf(const NodeTypes& types) {
  const auto& listed = types.input(2);
  return {.flops = static_cast<double>(listed.num_elements()), .bytes = 3 * static_cast<double>(listed.size_bytes())};
}

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

void GradRowsSamples(SampleBuilder& s) {
  const auto table = [] { return ParseOptions<proto::Embedding>("entries: 6 width: 19"); };
  s.Case("repeated").Int({4, 5}, 0, 6).Input({4, 5, 19}).With(table());
  s.Case("one_id").Int({}, 0, 6).Input({19}).With(table());
  s.Case("one_entry").Int({7}, 0, 1).Input({7, 3}).With(ParseOptions<proto::Embedding>("entries: 1 width: 3"));
  s.Case("int64").Int({3}, 0, 6, DType::kInt64).Input({3, 19}).With(table());
  // Digits of 11 bits: three of them are sorted by, and all ids have the same in the middle.
  s.Case("long_numbers")
      .Int({6}, 0, 1000)
      .Values({8388611, 3, 8388610, 3, 8388611, 2})
      .Input({6, 2})
      .Values({1, 10, 2, 20, 4, 40, 8, 80, 16, 160, 32, 320})
      .With(ParseOptions<proto::Embedding>("entries: 9000000 width: 2"))
      .Expect(0, {2, 3, 8388610, 8388611, -1, -1})
      .Expect(1, {32, 320, 10, 100, 4, 40, 17, 170, 0, 0, 0, 0});
  s.Case("many").Int({2500}, 0, 700).Input({2500, 8}).With(ParseOptions<proto::Embedding>("entries: 700 width: 8"));
  s.Case("wide").Int({9}, 0, 3).Input({9, 300}).With(ParseOptions<proto::Embedding>("entries: 3 width: 300"));
  s.Case("id_too_large").Int({2}, 0, 6).Values({0, 6}).Input({2, 19}).With(table()).FailsAtRun("ids[1]: expected");
  s.Case("wrong_gradient").Int({2}, 0, 6).Input({3, 19}).With(table()).Fails("expected shape [2, 19]");
}

void AddRowsSamples(SampleBuilder& s) {
  const auto lists = [&s](const char* name, int64_t width, const std::vector<double>& a,
                          const std::vector<double>& b) -> Sample& {
    Sample& sample = s.Case(name);
    for (const std::vector<double>* rows : {&a, &b}) {
      const auto room = static_cast<int64_t>(rows->size());
      sample.Int({room}, 0, 9, DType::kInt64).Values(*rows).Input({room, width});
    }
    return sample;
  };
  lists("some_in_both", 19, {1, 3, 4, -1}, {0, 3, 5});
  lists("all_in_both", 300, {2, 7}, {2, 7});
  lists("none_in_one", 5, {-1, -1}, {6, 8, -1});
  s.Case("known")
      .Int({2}, 0, 9, DType::kInt64)
      .Values({4, 6})
      .Input({2, 1})
      .Values({1, 2})
      .Int({2}, 0, 9, DType::kInt64)
      .Values({6, -1})
      .Input({2, 1})
      .Values({4, 0})
      .Expect(0, {4, 6, -1, -1})
      .Expect(1, {1, 6, 0, 0});
  lists("not_ascending", 2, {4, 3}, {0, 1}).FailsAtRun("rows[1]: expected ascending rows");
  s.Case("width")
      .Int({2}, 0, 9, DType::kInt64)
      .Input({2, 3})
      .Int({1}, 0, 9, DType::kInt64)
      .Input({1, 4})
      .Fails("expected shape [1, 3]");
  s.Case("int32").Int({2}, 0, 9).Input({2, 3}).Int({2}, 0, 9).Input({2, 3}).Fails("expected int64, found int32");
}

void AddListedRowsSamples(SampleBuilder& s) {
  const auto list = [&s](const char* name, int64_t entries, int64_t width, const std::vector<double>& rows) -> Sample& {
    const auto room = static_cast<int64_t>(rows.size());
    return s.Case(name)
        .Input({entries, width})
        .Int({room}, 0, entries, DType::kInt64)
        .Values(rows)
        .Input({room, width});
  };
  list("some", 7, 19, {1, 3, 4, -1});
  list("all", 2, 300, {0, 1});
  list("none", 3, 5, {-1, -1});
  s.Case("known")
      .Input({3, 1})
      .Values({1, 2, 4})
      .Int({2}, 0, 3, DType::kInt64)
      .Values({2, -1})
      .Input({2, 1})
      .Values({8, 0})
      .Expect(0, {1, 2, 12});
  list("not_ascending", 7, 2, {4, 3}).FailsAtRun("rows[1]: expected ascending rows");
  list("row_too_large", 4, 2, {1, 4}).FailsAtRun("rows[1]: expected ascending rows in [0, 4)");
  s.Case("width").Input({4, 3}).Int({2}, 0, 4, DType::kInt64).Input({2, 2}).Fails("expected shape [2, 3]");
  s.Case("int32").Input({4, 3}).Int({2}, 0, 4).Input({2, 3}).Fails("expected int64, found int32");
}

}  // namespace

SNUG_OPS(embedding) {
  return {
      {.name = "embedding",
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
       .samples = GradSamples},
      {.name = "embedding_grad_rows",
       .doc = "the rows of dw that are not zero: their numbers, ascending, then -1; and what embedding_grad makes them",
       .inputs = {{"ids", PortType::kInteger}, {"dy"}},
       .outputs = {{"rows", PortType::kInteger}, {"dw"}},
       .infer = InferGradRows,
       .cost = GradRowsCostOf,
       .kernels = {{.name = "plain", .prepare = PrepareGradRows, .run = EmbeddingGradRowsCpu}},
       .samples = GradRowsSamples},
      {.name = "add_rows",
       .doc = "the sum of two lists of rows, as embedding_grad_rows makes them",
       .inputs = {{"rows_a", PortType::kInteger}, {"a"}, {"rows_b", PortType::kInteger}, {"b"}},
       .outputs = {{"rows", PortType::kInteger}, {"sum"}},
       .infer = InferAddRows,
       .kernels = {{.name = "plain", .prepare = PrepareAddRows, .run = AddRowsCpu}},
       .samples = AddRowsSamples},
      {.name = "add_listed_rows",
       .doc = "the sum of an array and a list of rows, as embedding_grad_rows makes them",
       .inputs = {{"whole"}, {"rows", PortType::kInteger}, {"listed"}},
       .outputs = {{"sum"}},
       .infer = InferAddListedRows,
       .aliases = {{Alias::Kind::kMayShare, 0, 0}},
       .cost = AddListedRowsCostOf,
       .kernels = {{.name = "plain", .run = AddListedRowsCpu}},
       .samples = AddListedRowsSamples}};
}

}  // namespace snug::core::ops::embedding
