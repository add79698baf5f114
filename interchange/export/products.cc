// Dense layers, products of matrices, and attention, which is several nodes in ONNX.
#include <absl/strings/str_cat.h>

#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "interchange/export/writer.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

// With its last two axes changed.
std::string Turned(ExportContext& c, const std::string& x, int rank) {
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  std::swap(axes[static_cast<size_t>(rank) - 1], axes[static_cast<size_t>(rank) - 2]);
  return c.Add("Transpose", {x}, {{"perm", axes}});
}

absl::Status Dense(ExportContext& c) {
  if (c.shape(0).rank() == 2) {
    std::vector<std::string> inputs = {c.in(0), c.in(1)};
    if (c.has(2)) inputs.push_back(c.in(2));
    return c.Finish("Gemm", inputs, {{"transB", int64_t{1}}});
  }
  const std::string weight = Turned(c, c.in(1), 2);
  if (!c.has(2)) return c.Finish("MatMul", {c.in(0), weight});
  return c.Finish("Add", {c.Add("MatMul", {c.in(0), weight}), c.in(2)});
}

absl::Status MatMul(ExportContext& c) {
  const auto& o = c.options<proto::MatMul>();
  const std::string a = o.transpose_a() ? Turned(c, c.in(0), c.shape(0).rank()) : c.in(0);
  const std::string b = o.transpose_b() ? Turned(c, c.in(1), c.shape(1).rank()) : c.in(1);
  return c.Finish("MatMul", {a, b});
}

// [batch, length, heads * width] as [batch, heads, length, width], or that with its last two axes changed.
std::string Heads(ExportContext& c, int input, int64_t heads, bool turned) {
  const Shape& shape = c.shape(input);
  if (heads == 0) return turned ? Turned(c, c.in(input), 4) : c.in(input);
  const std::string apart = c.Add("Reshape", {c.in(input), c.List({0, shape[1], heads, shape[2] / heads})});
  return c.Add("Transpose", {apart},
               {{"perm", turned ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3}}});
}

absl::Status Attention(ExportContext& c) {
  const auto& o = c.options<proto::Attention>();
  const int64_t heads = o.has_heads() ? o.heads() : 0;
  const int length_axis = heads > 0 ? 1 : 2;
  const int64_t width = heads > 0 ? c.shape(0)[2] / heads : c.shape(0)[3];
  const double scale = o.has_scale() ? o.scale() : 1 / std::sqrt(static_cast<double>(width));
  std::string scores = c.Add("MatMul", {Heads(c, 0, heads, false), Heads(c, 1, heads, true)});
  scores = c.Add("Mul", {scores, c.Scalar(scale)});
  if (c.has(3)) scores = c.Add("Add", {scores, c.in(3)});
  if (o.causal()) {  // query i sees keys 0 to i
    const int64_t queries = c.shape(0)[length_axis], keys = c.shape(1)[length_axis];
    std::vector<float> mask(static_cast<size_t>(queries * keys), 0);
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t k = i + 1; k < keys; ++k)
        mask[static_cast<size_t>(i * keys + k)] = -std::numeric_limits<float>::infinity();
    }
    scores = c.Add("Add", {scores, c.writer().Floats({queries, keys}, mask)});
  }
  const std::string shares = c.Add("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string v = Heads(c, 2, heads, false);
  if (heads == 0) return c.Finish("MatMul", {shares, v});
  const std::string rows =
      c.Add("Transpose", {c.Add("MatMul", {shares, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return c.Finish("Reshape", {rows, c.List({0, c.out_shape()[1], c.out_shape()[2]})});
}

}  // namespace

std::vector<NamedTranslation> ProductTranslations() {
  return {{"attention", Attention}, {"dense", Dense}, {"matmul", MatMul}};
}

}  // namespace snug::core::onnx
