// embedding: y = rows of a table, chosen by integers; its gradient adds rows up again.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/layer_context.h"
#include "ops/lib/dispatch.h"
#include "ops/lib/isa.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::ops {
namespace {

using proto::ParseOptions;

constexpr int64_t kChunkElements = 1 << 15;
constexpr int64_t kStrip = 256;  // columns whose sums are kept together

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
  if (options.entries() < 1 || options.width() < 1) {  // no table has a shape then: let inference say why
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

absl::Status Gradient(GradContext& g) {  // of the table: the ids are all that is kept
  if (g.wants(1)) g.SetInputGrad(1, g.Op("embedding_grad", {g.input(0), g.output_grad(0)}, g.options_handle()));
  return g.status();
}

absl::Status IdError(const Shape& shape, int64_t position, int64_t id, int64_t entries) {
  std::string index;
  int64_t rest = position;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index = absl::StrCat(rest % shape[axis], index.empty() ? "" : ", ", index);
    rest /= shape[axis];
  }
  return absl::InvalidArgumentError(
      absl::StrCat("ids[", index, "]: expected an entry in [0, ", entries, "), found ", id));
}

// The first id that names no entry is the error.
template <class Id>
absl::Status CheckIds(const Shape& shape, const Id* ids, int64_t entries) {
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    if (ids[i] < 0 || ids[i] >= entries) return IdError(shape, i, ids[i], entries);
  }
  return absl::OkStatus();
}

absl::Status EmbeddingCpu(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto id_zero) -> absl::Status {
    using Id = decltype(id_zero);
    const Id* ids = k.input<Id>(0);
    const Shape& table = k.input_type(1).shape;
    SNUG_RETURN_IF_ERROR(CheckIds(k.input_type(0).shape, ids, table[0]));
    const int64_t row_bytes = table[1] * SizeOf(k.input_type(1).dtype);
    const char* w = k.input<char>(1);
    char* y = k.output<char>(0);
    ParallelFor(k.threads(), k.input_type(0).num_elements(), std::max<int64_t>(1, kChunkElements / table[1]),
                [=](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    std::copy_n(w + ids[i] * row_bytes, row_bytes, y + i * row_bytes);
                  }
                });
    return absl::OkStatus();
  });
}

// Workspace of the gradient: where each entry's positions begin (and end), then the positions, entry by entry.
absl::Status PrepareGrad(PrepareContext& c) {
  const int64_t entries = c.types().output(0).shape[0];
  const int64_t positions = c.types().input(0).num_elements();
  c.SetWorkspaceBytes((entries + 1 + positions) * static_cast<int64_t>(sizeof(int64_t)));
  return absl::OkStatus();
}

// One row of the table's gradient: the sum of dy's rows at `positions`, in that order.
template <class T>
SNUG_INLINE void SumRows(const int64_t* positions, int64_t count, int64_t width, const T* dy, T* row) {
  using Acc = Accumulator<T>;
  for (int64_t begin = 0; begin < width; begin += kStrip) {
    const int64_t columns = std::min(kStrip, width - begin);
    Acc sums[kStrip];
    for (int64_t j = 0; j < columns; ++j) sums[j] = Acc(0);
    for (int64_t p = 0; p < count; ++p) {
      const T* from = dy + positions[p] * width + begin;
      for (int64_t j = 0; j < columns; ++j) sums[j] += static_cast<Acc>(from[j]);
    }
    for (int64_t j = 0; j < columns; ++j) row[begin + j] = static_cast<T>(sums[j]);
  }
}

// The positions are sorted by entry (a counting sort), so that every row of the result is written once, by one thread.
template <class T, class Id>
absl::Status SumByEntry(const KernelContext& k) {
  const Id* ids = k.input<Id>(0);
  const T* dy = k.input<T>(1);
  T* dw = k.output<T>(0);
  const int64_t n = k.input_type(0).num_elements();
  const int64_t entries = k.output_type(0).shape[0];
  const int64_t width = k.output_type(0).shape[1];
  SNUG_RETURN_IF_ERROR(CheckIds(k.input_type(0).shape, ids, entries));

  int64_t* ends = k.workspace<int64_t>();  // ends[e + 1] counts, then walks from the begin to the end of entry e
  int64_t* sorted = ends + entries + 1;
  std::fill(ends, ends + entries + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++ends[ids[i] + 1];
  int64_t begin = 0;
  for (int64_t e = 0; e < entries; ++e) {
    const int64_t count = ends[e + 1];
    ends[e + 1] = begin;
    begin += count;
  }
  for (int64_t i = 0; i < n; ++i) sorted[ends[ids[i] + 1]++] = i;

  ParallelFor(k.threads(), entries, std::max<int64_t>(1, kChunkElements / width), [=](int64_t first, int64_t last) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t e = first; e < last; ++e) {
        SumRows(sorted + ends[e], ends[e + 1] - ends[e], width, dy, dw + e * width);
      }
    });
  });
  return absl::OkStatus();
}

absl::Status EmbeddingGradCpu(const KernelContext& k) {
  return DispatchInteger(k.input_type(0).dtype, [&](auto id_zero) {
    return DispatchFloating(k.output_type(0).dtype,
                            [&](auto zero) { return SumByEntry<decltype(zero), decltype(id_zero)>(k); });
  });
}

Cost CostOf(const NodeTypes& types) {  // the rows that are read, not the whole table
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
           .cpu = EmbeddingCpu,
           .samples = Samples},
          {.name = "embedding_grad",
           .doc = "dw[e] = sum of dy over the positions where ids = e",
           .inputs = {{"ids", PortType::kInteger}, {"dy"}},
           .outputs = {{"dw"}},
           .infer = InferGrad,
           .prepare = PrepareGrad,
           .cost = GradCostOf,
           .cpu = EmbeddingGradCpu,
           .samples = GradSamples}};
}

}  // namespace snug::ops
