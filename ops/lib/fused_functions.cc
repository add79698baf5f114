#include "ops/lib/fused_functions.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/base/status.h"
#include "proto/network.pb.h"

namespace snug {
namespace {

// As exact in C++ as it is here.
std::string Literal(double x) {
  if (std::isfinite(x)) return absl::StrFormat("%a", x);
  return absl::StrFormat("std::bit_cast<double>(0x%016xULL)", std::bit_cast<uint64_t>(x));
}

// With the function object's initialiser, from a node's options; null: it has none.
struct Function {
  absl::string_view op, name;
  std::string (*initializer)(const Options& options) = nullptr;
};

std::string OfScale(const Options& options) {
  const auto& scale = options.Get<proto::Scale>();
  return absl::StrCat(Literal(scale.factor()), ", ", Literal(scale.offset()));
}
std::string OfClip(const Options& options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto& clip = options.Get<proto::Clip>();
  return absl::StrCat("{", Literal(clip.has_min() ? clip.min() : -kInfinity), ", ",
                      Literal(clip.has_max() ? clip.max() : kInfinity), "}");
}
std::string OfLeakyRelu(const Options& options) { return Literal(options.Get<proto::LeakyRelu>().slope()); }

// tests/ops/fused_test.cc sees that no elementwise op is missing.
constexpr Function kFunctions[] = {
    {"abs", "Abs"},
    {"abs_grad", "AbsGrad"},
    {"add", "Add"},
    {"bias_add", "Add"},
    {"broadcast_to", "Same"},
    {"clip", "Clip", OfClip},
    {"clip_grad", "ClipGrad", OfClip},
    {"div", "Div"},
    {"div_grad", "DivGrad"},
    {"exp", "Exponential"},
    {"gelu", "Gelu"},
    {"gelu_grad", "GeluGrad"},
    {"hard_sigmoid", "HardSigmoid"},
    {"hard_sigmoid_grad", "HardSigmoidGrad"},
    {"hard_swish", "HardSwish"},
    {"hard_swish_grad", "HardSwishGrad"},
    {"leaky_relu", "LeakyRelu", OfLeakyRelu},
    {"leaky_relu_grad", "LeakyReluGrad", OfLeakyRelu},
    {"log", "Logarithm"},
    {"max", "Max"},
    {"max_grad", "MaxGrad"},
    {"min", "Min"},
    {"mul", "Mul"},
    {"neg", "Neg"},
    {"pow", "Power"},
    {"pow_base_grad", "PowerBaseGrad"},
    {"pow_exponent_grad", "PowerExponentGrad"},
    {"relu", "Relu"},
    {"relu_grad", "ReluGrad"},
    {"relu6", "Relu6"},
    {"relu6_grad", "Relu6Grad"},
    {"scale", "Scale", OfScale},
    {"sigmoid", "Sigmoid"},
    {"sigmoid_grad", "SigmoidGrad"},
    {"silu", "Silu"},
    {"silu_grad", "SiluGrad"},
    {"sqrt", "Sqrt"},
    {"sqrt_grad", "SqrtGrad"},
    {"square", "Square"},
    {"square_grad", "SquareGrad"},
    {"sub", "Sub"},
    {"tanh", "Tanh"},
    {"tanh_grad", "TanhGrad"},
};

const Function* Find(absl::string_view op) {
  for (const Function& function : kFunctions) {
    if (function.op == op) return &function;
  }
  return nullptr;
}

// gelu has one function with tanh, and one without.
std::string NameOf(const Function& function, const Options& options) {
  const bool gelu = function.op == "gelu" || function.op == "gelu_grad";
  if (!gelu || !options.Get<proto::Gelu>().tanh()) return std::string(function.name);
  return function.op == "gelu" ? "GeluByTanh" : "GeluByTanhGrad";
}

}  // namespace

bool CanFuse(absl::string_view op) { return op == "cast" || op == "add_n" || Find(op) != nullptr; }

std::string FusedExpression(absl::string_view op, const NodeTypes& types, absl::string_view operands) {
  const absl::string_view result = CppName(types.output(0).dtype);
  if (op == "cast") {
    return absl::StrCat("Convert<", result, ">(static_cast<Accumulator<", CppName(types.input(0).dtype), ">>(",
                        operands, "))");
  }
  if (op == "add_n") return absl::StrCat("Sum<", result, ">(", operands, ")");
  const Function* const function = Find(op);
  SNUG_CHECK_MSG(function != nullptr, op);
  return absl::StrCat("Apply<", result, ">(functions::", NameOf(*function, types.options), "{",
                      function->initializer != nullptr ? function->initializer(types.options) : "", "}, ", operands,
                      ")");
}

absl::string_view CppName(DType dtype) {
  switch (dtype) {
#define SNUG_CASE(enumerator, name, type) \
  case DType::enumerator:                 \
    return #type;
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return "";
}

}  // namespace snug
