#include "bench/step_work.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <map>
#include <string>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"

namespace snug::core::bench {
namespace {

using Kind = LibraryCall::Kind;

LibraryCall Conv(Kind kind, const NodeTypes& types) {
  const Options& options = types.options;
  const bool fused = options.type() == proto::FusedConv::descriptor()->full_name();
  const bool grad = options.type() == proto::ConvGrad::descriptor()->full_name();
  const proto::Conv& conv = fused  ? options.Get<proto::FusedConv>().conv()
                            : grad ? options.Get<proto::ConvGrad>().conv()
                                   : options.Get<proto::Conv>();
  const Shape& x = kind == Kind::kConvBackwardData ? types.output(0).shape : types.input(0).shape;
  auto geometry = ops::MakeConvGeometry(conv, x);
  SNUG_CHECK_OK(geometry.status());
  return {.kind = kind, .dtype = types.input(0).dtype, .conv = *geometry};
}

int64_t Rows(const Shape& shape) { return shape.Count(0, shape.rank() - 1); }
int64_t Width(const Shape& shape) { return shape[shape.rank() - 1]; }

LibraryCall Product(const NodeTypes& types, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  return {.dtype = types.input(0).dtype, .batch = batch, .m = m, .n = n, .k = k, .transpose_a = ta, .transpose_b = tb};
}

LibraryCall MatMul(const NodeTypes& types) {
  const auto& options = types.options.Get<proto::MatMul>();
  const Shape& a = types.input(0).shape;
  const Shape& y = types.output(0).shape;
  return Product(types, y.Count(0, y.rank() - 2), y[y.rank() - 2], Width(y),
                 a[a.rank() - (options.transpose_a() ? 2 : 1)], options.transpose_a(), options.transpose_b());
}

// q k^T and p v; their four gradients. The halves that a causal mask empties are counted: a library cannot skip them.
std::vector<LibraryCall> Attention(const NodeTypes& types, bool gradient) {
  const auto& options = types.options.Get<proto::Attention>();
  const Shape& q = types.input(0).shape;
  const Shape& k = types.input(1).shape;
  const int rank = q.rank();
  const bool heads_inside = options.heads() > 0;  // [batch, length, heads * width]
  const int64_t batch = heads_inside ? q[0] * options.heads() : q.Count(0, rank - 2);
  const int64_t width = heads_inside ? Width(q) / options.heads() : Width(q);
  const int64_t rows = q[rank - 2];
  const int64_t columns = k[rank - 2];
  if (!gradient) {
    return {Product(types, batch, rows, columns, width, false, true),
            Product(types, batch, rows, width, columns, false, false)};
  }
  return {Product(types, batch, rows, columns, width, false, true),   // dp = dy v^T
          Product(types, batch, columns, width, rows, true, false),   // dv = p^T dy
          Product(types, batch, rows, width, columns, false, false),  // dq = ds k
          Product(types, batch, columns, width, rows, true, false)};  // dk = ds^T q
}

// What a node asks of the library; empty: it is one of the others.
std::vector<LibraryCall> CallsOf(const std::string& op, const NodeTypes& types) {
  if (op == "conv" || op == "conv_fused" || op == "conv_statistics") return {Conv(Kind::kConvForward, types)};
  if (op == "conv_grad_input" || op == "conv_grad_input_sums") return {Conv(Kind::kConvBackwardData, types)};
  if (op == "conv_grad_weight") return {Conv(Kind::kConvBackwardWeights, types)};
  if (op == "dense" || op == "dense_fused") {
    const Shape& w = types.input(1).shape;
    return {Product(types, 1, Rows(types.input(0).shape), w[0], w[1], false, true)};
  }
  if (op == "dense_grad_input") {
    const Shape& w = types.input(1).shape;
    return {Product(types, 1, Rows(types.input(0).shape), w[1], w[0], false, false)};
  }
  if (op == "dense_grad_weight") {
    const Shape& w = types.output(0).shape;
    return {Product(types, 1, w[0], w[1], Rows(types.input(0).shape), true, false)};
  }
  if (op == "matmul") return {MatMul(types)};
  if (op == "attention") return Attention(types, false);
  if (op == "attention_grad") return Attention(types, true);
  return {};
}

}  // namespace

StepWork FindStepWork(const Compiled& compiled, const OpRegistry& registry) {
  StepWork work;
  std::map<std::string, size_t> known;
  for (const Step& step : compiled.executable.steps) {
    const std::string& name = compiled.graph.node(step.node).op;
    if (name == "reorder" || compiled.kernels[static_cast<size_t>(step.node.index)].inserted_for.valid()) continue;
    const std::vector<LibraryCall> calls = CallsOf(name, step.types);
    if (calls.empty()) work.other_bytes += CostOf(*registry.Find(name), step.types).bytes;
    for (const LibraryCall& call : calls) {
      const auto [place, is_new] = known.emplace(call.ToString(), work.calls.size());
      if (is_new) {
        work.calls.push_back({call});
      } else {
        ++work.calls[place->second].count;
      }
    }
  }
  return work;
}

double LibraryCall::multiply_adds() const {
  if (kind != Kind::kMatMul) return conv.multiply_adds();
  return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

std::string LibraryCall::ToString() const {
  if (kind == Kind::kMatMul) {
    return absl::StrCat("matmul ", Name(dtype), " ", batch, " x [", m, ", ", k, "]", transpose_a ? "^T" : "", " [", k,
                        ", ", n, "]", transpose_b ? "^T" : "");
  }
  const auto join = [](const auto& numbers) { return absl::StrJoin(numbers, "x"); };
  return absl::StrCat("conv ",
                      kind == Kind::kConvForward        ? "forward "
                      : kind == Kind::kConvBackwardData ? "backward data "
                                                        : "backward weights ",
                      Name(dtype), " ", conv.input_shape().ToString(), " ", conv.weight_shape().ToString(), " groups ",
                      conv.groups, " stride ", join(conv.stride), " dilation ", join(conv.dilation), " pad ",
                      join(conv.pad_begin), ":", join(conv.pad_end));
}

}  // namespace snug::core::bench
