// matmul: c = a b over the last two axes, each of which may be transposed; leading axes are broadcast. Its gradients
// are products again, summed over what was broadcast.
#include <absl/strings/str_cat.h>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/infer_context.h"
#include "ops/kernels/matmul/node.h"
#include "ops/kit/elementwise.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::matmul {
namespace {

using proto::ParseOptions;

// The last two axes as they are multiplied, after a transposition.
struct Matrix {
  int64_t rows, columns;
};
Matrix MatrixOf(const Shape& shape, bool transposed) {
  const int64_t before_last = shape[shape.rank() - 2];
  const int64_t last = shape[shape.rank() - 1];
  return transposed ? Matrix{last, before_last} : Matrix{before_last, last};
}

Shape LeadingAxes(const Shape& shape) { return Shape(shape.dims().subspan(0, static_cast<size_t>(shape.rank()) - 2)); }

absl::Status Infer(InferContext& c) {
  const proto::MatMul& options = c.options<proto::MatMul>();
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckRank(1, 2, kMaxRank));
  const Matrix a = MatrixOf(c.shape(0), options.transpose_a());
  const Matrix b = MatrixOf(c.shape(1), options.transpose_b());
  if (a.columns != b.rows) {
    return c.InputError(1, absl::StrCat("expected ", a.columns, options.transpose_b() ? " columns" : " rows",
                                        options.transpose_a() ? " like the rows" : " like the columns",
                                        " of input 0 \"a\" ", c.shape(0).ToString(), ", found ", b.rows));
  }
  const absl::StatusOr<Shape> batch = BroadcastShapes(LeadingAxes(c.shape(0)), LeadingAxes(c.shape(1)));
  if (!batch.ok()) return c.InputError(1, batch.status().message());
  Shape shape = *batch;
  shape.Append(a.rows);
  shape.Append(b.columns);
  c.SetOutput(0, c.input(0).dtype, shape);
  return absl::OkStatus();
}

// Returns how far apart x's matrices are along the axes of `batch`.
Strides BatchStrides(const Shape& x, const Shape& batch) {
  const Strides strides = PlainStrides(x);
  const int missing = batch.rank() - (x.rank() - 2);
  Strides result = {};
  for (int axis = missing; axis < batch.rank(); ++axis) {
    if (x[axis - missing] > 1) result[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis - missing)];
  }
  return result;
}

MatMulNode Describe(const NodeTypes& types) {
  const proto::MatMul& options = types.options.Get<proto::MatMul>();
  const Shape& a = types.input(0).shape;
  const Shape& b = types.input(1).shape;
  const Matrix left = MatrixOf(a, options.transpose_a());
  MatMulNode node = {.m = left.rows,
                     .n = MatrixOf(b, options.transpose_b()).columns,
                     .k = left.columns,
                     .transpose_a = options.transpose_a(),
                     .transpose_b = options.transpose_b()};
  if (b.rank() == 2 && !options.transpose_a()) {  // all matrices of a are the rows of one product
    node.m *= LeadingAxes(a).num_elements();
    return node;
  }
  node.batch = LeadingAxes(types.output(0).shape);
  node.a_batch = BatchStrides(a, node.batch);
  node.b_batch = BatchStrides(b, node.batch);
  return node;
}

Options Transposed(bool a, bool b) {
  proto::MatMul options;
  if (a) options.set_transpose_a(true);
  if (b) options.set_transpose_b(true);
  return proto::MakeOptions(options);
}

absl::Status Gradient(GradContext& g) {
  const proto::MatMul& options = g.options<proto::MatMul>();
  const bool ta = options.transpose_a();
  const bool tb = options.transpose_b();
  const ValueId a = g.input(0), b = g.input(1), dc = g.output_grad(0);
  if (g.wants(0)) {  // da = dc b^T, or its transpose
    const ValueId da =
        ta ? g.Op("matmul", {b, dc}, Transposed(tb, true)) : g.Op("matmul", {dc, b}, Transposed(false, !tb));
    g.SetInputGrad(0, SumToShape(g, da, g.input_type(0).shape));
  }
  if (g.wants(1)) {  // db = a^T dc, or its transpose
    const bool one_product = g.input_type(1).shape.rank() == 2 && !ta;
    ValueId db;
    if (one_product) {  // the sum over leading axes is part of the product, as in a dense layer
      db = tb ? g.Op("dense_grad_weight", {a, dc}) : g.Op("dense_grad_weight", {dc, a});
    } else {
      db = tb ? g.Op("matmul", {dc, a}, Transposed(true, ta)) : g.Op("matmul", {a, dc}, Transposed(!ta, false));
      db = SumToShape(g, db, g.input_type(1).shape);
    }
    g.SetInputGrad(1, db);
  }
  return g.status();
}

void Samples(SampleBuilder& s) {
  const auto ta = [] { return ParseOptions<proto::MatMul>("transpose_a: true"); };
  const auto tb = [] { return ParseOptions<proto::MatMul>("transpose_b: true"); };
  const auto both = [] { return ParseOptions<proto::MatMul>("transpose_a: true transpose_b: true"); };
  s.Case("plain").Input({5, 7}).Input({7, 33});
  s.Case("transpose_a").Input({7, 5}).Input({7, 18}).With(ta());
  s.Case("transpose_b").Input({5, 7}).Input({18, 7}).With(tb());
  s.Case("transpose_both").Input({7, 5}).Input({18, 7}).With(both());
  s.Case("larger_transpose_a").Input({17, 20}).Input({17, 33}).With(ta());
  s.Case("larger_transpose_both").Input({17, 20}).Input({33, 17}).With(both());
  s.Case("larger_batch").Input({2, 20, 17}).Input({2, 17, 33});
  s.Case("batch").Input({3, 2, 5, 7}).Input({3, 2, 7, 4});
  s.Case("batch_transpose_a").Input({2, 3, 7, 5}).Input({2, 3, 7, 4}).With(ta());
  s.Case("batch_transpose_b").Input({2, 3, 5, 7}).Input({2, 3, 4, 7}).With(tb());
  s.Case("batch_transpose_both").Input({2, 7, 5}).Input({2, 4, 7}).With(both());
  s.Case("shared_b").Input({3, 5, 7}).Input({7, 4});
  s.Case("shared_b_transposed").Input({3, 2, 5, 7}).Input({4, 7}).With(tb());
  s.Case("shared_b_transpose_a").Input({3, 7, 5}).Input({7, 4}).With(ta());
  s.Case("shared_a").Input({5, 7}).Input({3, 7, 4});
  s.Case("broadcast_both_ways").Input({2, 1, 5, 7}).Input({3, 7, 4});
  s.Case("broadcast_inside").Input({2, 1, 3, 5, 7}).Input({2, 2, 1, 7, 4});
  s.Case("ones").Input({1, 1, 1}).Input({1, 1});
  s.Case("outer").Input({18, 1}).Input({1, 35});
  s.Case("known").Input({2, 2}).Values({1, 2, 3, 4}).Input({2, 1}).Values({10, 1}).Expect(0, {12, 34});
  s.Case("vector").Input({4}).Input({4, 2}).Fails("dimensions");
  s.Case("inner_mismatch")
      .Input({5, 7})
      .Input({6, 4})
      .Fails("input 1 \"b\" [6, 4]: expected 7 rows like the columns of input 0 \"a\" [5, 7], found 6");
  s.Case("inner_mismatch_transposed").Input({5, 7}).Input({4, 6}).With(tb()).Fails("expected 7 columns");
  s.Case("batch_mismatch").Input({2, 5, 7}).Input({3, 7, 4}).Fails("[3]");
}

}  // namespace

SNUG_OPS(matmul) {
  return {{.name = "matmul",
           .doc = "c = a b over the last two axes (transpose_a, transpose_b); leading axes broadcast",
           .inputs = {{"a"}, {"b"}},
           .outputs = {{"c"}},
           .infer = Infer,
           .gradient = Gradient,
           .cost = MatMulCost<Describe, true>,
           .kernels = MatMulKernels(Describe),
           .samples = Samples}};
}

}  // namespace snug::core::ops::matmul
