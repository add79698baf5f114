#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/compile/import/layer_importer.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

using Kind = Initializer::Kind;

Initializer Default(const ParameterSpec& spec) {
  switch (spec.init) {
    case ParameterSpec::Init::kConstant:
      return {.kind = Kind::kConstant, .value = spec.value};
    case ParameterSpec::Init::kNormal:
      return {.kind = Kind::kNormal, .value = spec.value};
    case ParameterSpec::Init::kTorchLinear:
      break;
  }
  return {.kind = Kind::kUniform, .value = 1 / std::sqrt(static_cast<double>(spec.fan_in))};
}

double Fan(const ParameterSpec& spec, const proto::Initializer& init, proto::Initializer::Fan fallback) {
  const auto in = static_cast<double>(spec.fan_in);
  const auto out = static_cast<double>(spec.fan_out);
  switch (init.has_fan() ? init.fan() : fallback) {
    case proto::Initializer::FAN_IN:
      return in;
    case proto::Initializer::FAN_OUT:
      return out;
    case proto::Initializer::FAN_AVERAGE:
      return (in + out) / 2;
  }
  return in;
}

}  // namespace

absl::StatusOr<Initializer> ResolveInitializer(const ParameterSpec& spec, const proto::Initializer* chosen) {
  using P = proto::Initializer;
  if (chosen == nullptr || chosen->kind() == P::DEFAULT) return Default(spec);
  const bool scaled_by_value =
      chosen->kind() == P::UNIFORM || chosen->kind() == P::NORMAL || chosen->kind() == P::TRUNCATED_NORMAL;
  if (scaled_by_value && (!chosen->has_value() || chosen->value() < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer ", P::Kind_Name(chosen->kind()), " of parameter \"", spec.name,
                     "\": expected `value` of at least 0, ",
                     chosen->has_value() ? absl::StrCat("found ", chosen->value()) : "found none"));
  }
  const double gain = chosen->gain();
  switch (chosen->kind()) {
    case P::DEFAULT:
      break;
    case P::CONSTANT:
      return Initializer{.kind = Kind::kConstant, .value = chosen->value()};
    case P::UNIFORM:
      return Initializer{.kind = Kind::kUniform, .value = chosen->value()};
    case P::NORMAL:
      return Initializer{.kind = Kind::kNormal, .value = chosen->value()};
    case P::TRUNCATED_NORMAL:
      return Initializer{.kind = Kind::kTruncatedNormal, .value = chosen->value()};
    case P::XAVIER_UNIFORM:
      return Initializer{.kind = Kind::kUniform, .value = gain * std::sqrt(3 / Fan(spec, *chosen, P::FAN_AVERAGE))};
    case P::XAVIER_NORMAL:
      return Initializer{.kind = Kind::kNormal, .value = gain * std::sqrt(1 / Fan(spec, *chosen, P::FAN_AVERAGE))};
    case P::HE_UNIFORM:
      return Initializer{.kind = Kind::kUniform, .value = gain * std::sqrt(6 / Fan(spec, *chosen, P::FAN_IN))};
    case P::HE_NORMAL:
      return Initializer{.kind = Kind::kNormal, .value = gain * std::sqrt(2 / Fan(spec, *chosen, P::FAN_IN))};
    case P::TORCH_LINEAR:
      return Initializer{.kind = Kind::kUniform, .value = gain / std::sqrt(static_cast<double>(spec.fan_in))};
  }
  return Default(spec);
}

}  // namespace snug::core
