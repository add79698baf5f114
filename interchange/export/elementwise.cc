// What works element by element, and activations.
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "interchange/export/writer.h"
#include "interchange/onnx.pb.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::TensorProto;

// A template's argument must have linkage: the ops are named by these.
#define SNUG_SAME_OP(Name) \
  absl::Status Name(ExportContext& c) { return c.Finish(#Name, Inputs(c)); }

std::vector<std::string> Inputs(ExportContext& c) {
  std::vector<std::string> names;
  for (int i = 0; i < c.num_inputs(); ++i) names.push_back(c.in(i));
  return names;
}

SNUG_SAME_OP(Abs)
SNUG_SAME_OP(Add)
SNUG_SAME_OP(Cos)
SNUG_SAME_OP(Div)
SNUG_SAME_OP(Exp)
SNUG_SAME_OP(Floor)
SNUG_SAME_OP(HardSwish)
SNUG_SAME_OP(Log)
SNUG_SAME_OP(Max)
SNUG_SAME_OP(Min)
SNUG_SAME_OP(Mul)
SNUG_SAME_OP(Neg)
SNUG_SAME_OP(Pow)
SNUG_SAME_OP(PRelu)
SNUG_SAME_OP(Relu)
SNUG_SAME_OP(Selu)
SNUG_SAME_OP(Sigmoid)
SNUG_SAME_OP(Sign)
SNUG_SAME_OP(Sin)
SNUG_SAME_OP(Softplus)
SNUG_SAME_OP(Sqrt)
SNUG_SAME_OP(Sub)
SNUG_SAME_OP(Sum)
SNUG_SAME_OP(Tanh)
#undef SNUG_SAME_OP

absl::Status Same(ExportContext& c) { return c.Finish("Identity", {c.in(0)}); }
absl::Status Square(ExportContext& c) { return c.Finish("Mul", {c.in(0), c.in(0)}); }
absl::Status HardSigmoid(ExportContext& c) {
  return c.Finish("HardSigmoid", {c.in(0)}, {{"alpha", 1. / 6}, {"beta", 0.5}});
}
absl::Status LeakyRelu(ExportContext& c) {
  return c.Finish("LeakyRelu", {c.in(0)}, {{"alpha", c.options<proto::LeakyRelu>().slope()}});
}
absl::Status Elu(ExportContext& c) { return c.Finish("Elu", {c.in(0)}, {{"alpha", c.options<proto::Elu>().alpha()}}); }
absl::Status Silu(ExportContext& c) { return c.Finish("Mul", {c.in(0), c.Add("Sigmoid", {c.in(0)})}); }

absl::Status Mish(ExportContext& c) {
  return c.Finish("Mul", {c.in(0), c.Add("Tanh", {c.Add("Softplus", {c.in(0)})})});
}

// Gelu is an op from version 20 on only.
absl::Status Gelu(ExportContext& c) {
  const std::string& x = c.in(0);
  std::string gate;
  if (c.options<proto::Gelu>().tanh()) {
    const std::string cube = c.Add("Mul", {c.Add("Mul", {x, x}), x});
    const std::string inner = c.Add("Add", {x, c.Add("Mul", {cube, c.Scalar(0.044715)})});
    gate = c.Add("Tanh", {c.Add("Mul", {inner, c.Scalar(std::sqrt(2 / 3.14159265358979323846))})});
  } else {
    gate = c.Add("Erf", {c.Add("Div", {x, c.Scalar(std::sqrt(2))})});
  }
  return c.Finish("Mul", {c.Add("Mul", {x, c.Add("Add", {gate, c.Scalar(1)})}), c.Scalar(0.5)});
}

absl::Status Clipped(ExportContext& c, bool has_min, double min, bool has_max, double max) {
  std::vector<std::string> inputs = {c.in(0), has_min ? c.Scalar(min) : ""};
  if (has_max) inputs.push_back(c.Scalar(max));
  return c.Finish("Clip", inputs);
}
absl::Status Relu6(ExportContext& c) { return Clipped(c, true, 0, true, 6); }
absl::Status HardTanh(ExportContext& c) {
  return Clipped(c, true, c.options<proto::HardTanh>().min(), true, c.options<proto::HardTanh>().max());
}
absl::Status Clip(ExportContext& c) {
  const auto& o = c.options<proto::Clip>();
  return Clipped(c, o.has_min(), o.min(), o.has_max(), o.max());
}

absl::Status Scale(ExportContext& c) {
  const auto& o = c.options<proto::Scale>();
  if (o.offset() == 0) return c.Finish("Mul", {c.in(0), c.Scalar(o.factor())});
  const std::string product = o.factor() == 1 ? c.in(0) : c.Add("Mul", {c.in(0), c.Scalar(o.factor())});
  return c.Finish("Add", {product, c.Scalar(o.offset())});
}

int64_t TypeNumber(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return TensorProto::INT32;
    case DType::kInt64:
      return TensorProto::INT64;
    case DType::kUint8:
      return TensorProto::UINT8;
    default:
      return TensorProto::FLOAT;
  }
}

absl::Status Cast(ExportContext& c) { return c.Finish("Cast", {c.in(0)}, {{"to", TypeNumber(c.out_dtype())}}); }

std::string AsTruth(ExportContext& c, const std::string& x) {
  return c.Add("Cast", {x}, {{"to", static_cast<int64_t>(TensorProto::BOOL)}});
}
absl::Status Where(ExportContext& c) { return c.Finish("Where", {AsTruth(c, c.in(0)), c.in(1), c.in(2)}); }

// ---- masks of rows, which loops and branches are made of ----

// A mask as truths that stand beside the rows of `x`.
std::string MaskBeside(ExportContext& c, int mask, const Shape& x) {
  std::string truth = AsTruth(c, c.in(mask));
  if (c.shape(mask).rank() != 1 || x.rank() < 2) return truth;
  std::vector<int64_t> axes;
  for (int i = 1; i < x.rank(); ++i) axes.push_back(i);
  return c.Add("Unsqueeze", {truth, c.List(axes)});
}

absl::Status Choose(ExportContext& c) { return c.Finish("Where", {MaskBeside(c, 0, c.shape(1)), c.in(1), c.in(2)}); }

std::string Zero(ExportContext& c, DType dtype) {
  const std::string zero = c.Scalar(0);
  return dtype == DType::kFloat32 ? zero : c.Add("Cast", {zero}, {{"to", TypeNumber(dtype)}});
}

absl::Status Keep(ExportContext& c) {
  const std::string mask = MaskBeside(c, 0, c.shape(1));
  const std::string zero = Zero(c, c.dtype(1));
  const bool inverted = c.options<proto::Keep>().inverted();
  return c.Finish("Where", {mask, inverted ? zero : c.in(1), inverted ? c.in(1) : zero});
}

absl::Status Compare(ExportContext& c) {
  const auto& o = c.options<proto::Compare>();
  const std::string x = c.Add("Cast", {c.in(0)}, {{"to", static_cast<int64_t>(TensorProto::INT64)}});
  const std::string truth =
      c.Add(o.kind() == proto::Compare::EQUAL ? "Equal" : "Greater", {x, c.writer().Ints({}, {o.value()})});
  return c.Finish("Cast", {truth}, {{"to", TypeNumber(c.out_dtype())}});
}

absl::Status StillHolds(ExportContext& c) {
  std::string truth = AsTruth(c, c.in(0));
  if (c.has(1)) truth = c.Add("And", {truth, AsTruth(c, c.in(1))});
  return c.Finish("Cast", {truth}, {{"to", TypeNumber(c.out_dtype())}});
}

}  // namespace

std::vector<NamedTranslation> ElementwiseTranslations() {
  return {{"abs", Abs},
          {"add", Add},
          {"add_n", Sum},
          {"cast", Cast},
          {"choose", Choose},
          {"clip", Clip},
          {"compare", Compare},
          {"cos", Cos},
          {"div", Div},
          {"elu", Elu},
          {"exp", Exp},
          {"floor", Floor},
          {"gate", Same},
          {"gelu", Gelu},
          {"hard_sigmoid", HardSigmoid},
          {"hard_swish", HardSwish},
          {"hard_tanh", HardTanh},
          {"keep", Keep},
          {"leaky_relu", LeakyRelu},
          {"log", Log},
          {"max", Max},
          {"min", Min},
          {"mish", Mish},
          {"mul", Mul},
          {"neg", Neg},
          {"pow", Pow},
          {"prelu", PRelu},
          {"relu", Relu},
          {"relu6", Relu6},
          {"scale", Scale},
          {"selu", Selu},
          {"sigmoid", Sigmoid},
          {"sign", Sign},
          {"silu", Silu},
          {"sin", Sin},
          {"softplus", Softplus},
          {"sqrt", Sqrt},
          {"square", Square},
          {"still_holds", StillHolds},
          {"stop_gradient", Same},
          {"sub", Sub},
          {"tanh", Tanh},
          {"where", Where}};
}

}  // namespace snug::core::onnx
