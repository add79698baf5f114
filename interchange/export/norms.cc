// Normalisation, and softmax.
#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "interchange/export/writer.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

// An optional parameter; where there is none, the number that changes nothing.
std::string OrUsual(ExportContext& c, int input, const std::vector<int64_t>& dims, float usual) {
  if (c.has(input)) return c.in(input);
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return c.writer().Floats(dims, std::vector<float>(static_cast<size_t>(count), usual));
}

absl::Status BatchNorm(ExportContext& c) {
  const std::vector<int64_t> channels = {c.shape(0)[1]};
  return c.Finish("BatchNormalization",
                  {c.in(0), OrUsual(c, 1, channels, 1), OrUsual(c, 2, channels, 0), c.in(3), c.in(4)},
                  {{"epsilon", c.options<proto::BatchNorm>().epsilon()}});
}

absl::Status LayerNorm(ExportContext& c) {
  const auto& o = c.options<proto::LayerNorm>();
  const auto dims = c.shape(0).dims();
  const std::vector<int64_t> normed(dims.end() - o.axes(), dims.end());
  std::vector<std::string> inputs = {c.in(0), OrUsual(c, 1, normed, 1)};
  if (c.has(2)) inputs.push_back(c.in(2));
  return c.Finish("LayerNormalization", inputs, {{"axis", -o.axes()}, {"epsilon", o.epsilon()}});
}

// A group is a channel of an instance norm; then each channel has its own parameters.
absl::Status GroupNorm(ExportContext& c) {
  const auto& o = c.options<proto::GroupNorm>();
  const int64_t groups = o.groups();
  const std::vector<int64_t> of_groups = {groups};
  const std::string apart = c.Add("Reshape", {c.in(0), c.List({0, groups, -1})});
  const std::string normed =
      c.Add("InstanceNormalization", {apart, OrUsual(c, -1, of_groups, 1), OrUsual(c, -1, of_groups, 0)},
            {{"epsilon", o.epsilon()}});
  SNUG_ASSIGN_OR_RETURN(const std::string target, c.ReshapeTarget(c.out_shape(), c.out_shape()));
  std::string y = c.Add("Reshape", {normed, target});
  std::vector<int64_t> along(static_cast<size_t>(c.shape(0).rank()) - 1, 1);
  along[0] = c.shape(0)[1];
  if (c.has(1)) y = c.Add("Mul", {y, c.Add("Reshape", {c.in(1), c.List(along)})});
  if (c.has(2)) y = c.Add("Add", {y, c.Add("Reshape", {c.in(2), c.List(along)})});
  return c.Finish("Identity", {y});
}

absl::Status RmsNorm(ExportContext& c) {
  const auto& o = c.options<proto::RmsNorm>();
  std::vector<int64_t> axes;
  for (int64_t i = -o.axes(); i < 0; ++i) axes.push_back(i);
  const std::string mean =
      c.Add("ReduceMean", {c.Add("Mul", {c.in(0), c.in(0)})}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const std::string root = c.Add("Sqrt", {c.Add("Add", {mean, c.Scalar(o.epsilon())})});
  if (!c.has(1)) return c.Finish("Div", {c.in(0), root});
  return c.Finish("Mul", {c.Add("Div", {c.in(0), root}), c.in(1)});
}

absl::Status LocalResponseNorm(ExportContext& c) {
  const auto& o = c.options<proto::LocalResponseNorm>();
  if (o.size() % 2 == 0) {
    return absl::InvalidArgumentError(absl::StrCat("is of ", o.size(), " channels, and LRN of an odd number"));
  }
  return c.Finish("LRN", {c.in(0)}, {{"size", o.size()}, {"alpha", o.alpha()}, {"beta", o.beta()}, {"bias", o.k()}});
}

absl::Status Softmax(ExportContext& c) {
  return c.Finish("Softmax", {c.in(0)}, {{"axis", c.options<proto::Softmax>().axis()}});
}
absl::Status LogSoftmax(ExportContext& c) {
  return c.Finish("LogSoftmax", {c.in(0)}, {{"axis", c.options<proto::Softmax>().axis()}});
}

}  // namespace

std::vector<NamedTranslation> NormTranslations() {
  return {{"batch_norm_inference", BatchNorm},
          {"group_norm", GroupNorm},
          {"layer_norm", LayerNorm},
          {"local_response_norm", LocalResponseNorm},
          {"log_softmax", LogSoftmax},
          {"rms_norm", RmsNorm},
          {"softmax", Softmax}};
}

}  // namespace snug::core::onnx
