// cosine_similarity_loss: the mean of 1 - the cosine of the angles between the vectors of x and target along an axis. A
// layer made of other ops.
#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/kit/mean_loss.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::cosine_similarity_loss {
namespace {

// Its square is kept from 0 before the root is taken, whose gradient is then finite, and 0 for shorter vectors.
ValueId Length(LayerContext& c, ValueId x, const Options& axis, double least, const std::string& name) {
  const ValueId squares = c.Op("square", {x}, {}, name + ".squares");
  const ValueId sum = c.Op("reduce_sum", {squares}, axis, name + ".sum");
  proto::Clip clip;
  clip.set_min(least * least);
  return c.Op("sqrt", {c.Op("clip", {sum}, proto::MakeOptions(clip), name + ".clip")}, {}, name + ".length");
}

absl::Status Layer(LayerContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(2));
  const auto& options = c.options<proto::CosineSimilarityLoss>();
  const Shape shape = c.type(c.input(0)).shape;
  const absl::StatusOr<int> axis = NormalizeAxis(options.axis(), shape.rank());
  if (!axis.ok()) return OptionError("axis", axis.status().message());
  constexpr double kLeast = 1.1e-19;  // of whose square floats have all digits
  if (!(options.epsilon() >= kLeast)) {
    return OptionError("epsilon", absl::StrCat("expected at least ", kLeast, ", found ", options.epsilon()));
  }
  SNUG_RETURN_IF_ERROR(CheckTargetShape(c));
  proto::Reduce reduce;
  reduce.add_axis(*axis);
  const Options along = proto::MakeOptions(reduce);
  const std::vector<ValueId> inputs = Float32Inputs(c);
  const ValueId dot = c.Op("reduce_sum", {c.Op("mul", inputs, {}, "products")}, along, "dot");
  const ValueId lengths = c.Op(
      "mul",
      {Length(c, inputs[0], along, options.epsilon(), "x"), Length(c, inputs[1], along, options.epsilon(), "target")},
      {}, "lengths");
  const ValueId mean = c.Op("reduce_mean", {c.Op("div", {dot, lengths}, {}, "cosines")}, {}, "mean");
  proto::Scale rest;
  rest.set_factor(-1);
  rest.set_offset(1);
  c.SetOutput(0, c.Op("scale", {mean}, proto::MakeOptions(rest)));
  return c.status();
}

}  // namespace

SNUG_OPS(cosine_similarity_loss) {
  return {LossLayer(
      "cosine_similarity_loss",
      "loss = mean of 1 - x target / (max(|x|, epsilon) max(|target|, epsilon)) for the vectors along `axis`", Layer)};
}

}  // namespace snug::core::ops::cosine_similarity_loss
