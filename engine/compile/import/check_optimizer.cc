#include "engine/compile/import/check_optimizer.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <string>

#include "engine/base/status.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

class Checker {
 public:
  explicit Checker(const OptionPlaces& places) : places_(places) {}

  absl::Status AtLeast0(absl::string_view option, double value) const {
    return Check(value >= 0 && std::isfinite(value), option, "a number of at least 0", value);
  }
  absl::Status MoreThan0(absl::string_view option, double value) const {
    return Check(value > 0, option, "more than 0", value);
  }
  absl::Status Fraction(absl::string_view option, double value) const {
    return Check(value >= 0 && value < 1, option, "at least 0 and less than 1", value);
  }

 private:
  absl::Status Check(bool good, absl::string_view option, absl::string_view expected, double value) const {
    if (good) return absl::OkStatus();
    return places_.Error(absl::StrCat("optimizer.", option), absl::StrCat("expected ", expected, ", found ", value));
  }

  const OptionPlaces& places_;
};

template <class Adam>
absl::Status CheckAdam(const Checker& check, absl::string_view kind, const Adam& adam) {
  SNUG_RETURN_IF_ERROR(check.Fraction(absl::StrCat(kind, ".beta1"), adam.beta1()));
  SNUG_RETURN_IF_ERROR(check.Fraction(absl::StrCat(kind, ".beta2"), adam.beta2()));
  return check.AtLeast0(absl::StrCat(kind, ".epsilon"), adam.epsilon());
}

}  // namespace

absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const OptionPlaces& places) {
  const Checker check(places);
  SNUG_RETURN_IF_ERROR(check.AtLeast0("learning_rate", optimizer.learning_rate()));
  SNUG_RETURN_IF_ERROR(check.AtLeast0("weight_decay", optimizer.weight_decay()));
  if (optimizer.has_clip_norm()) SNUG_RETURN_IF_ERROR(check.MoreThan0("clip_norm", optimizer.clip_norm()));
  SNUG_RETURN_IF_ERROR(check.Fraction("average.decay", optimizer.average().decay()));
  SNUG_RETURN_IF_ERROR(check.Fraction("sgd.momentum", optimizer.sgd().momentum()));
  SNUG_RETURN_IF_ERROR(check.Fraction("rmsprop.alpha", optimizer.rmsprop().alpha()));
  SNUG_RETURN_IF_ERROR(check.AtLeast0("rmsprop.epsilon", optimizer.rmsprop().epsilon()));
  SNUG_RETURN_IF_ERROR(check.Fraction("rmsprop.momentum", optimizer.rmsprop().momentum()));
  const proto::Adagrad& adagrad = optimizer.adagrad();
  SNUG_RETURN_IF_ERROR(check.AtLeast0("adagrad.lr_decay", adagrad.lr_decay()));
  SNUG_RETURN_IF_ERROR(check.AtLeast0("adagrad.initial_accumulator_value", adagrad.initial_accumulator_value()));
  SNUG_RETURN_IF_ERROR(check.AtLeast0("adagrad.epsilon", adagrad.epsilon()));
  SNUG_RETURN_IF_ERROR(check.Fraction("lion.beta1", optimizer.lion().beta1()));
  SNUG_RETURN_IF_ERROR(check.Fraction("lion.beta2", optimizer.lion().beta2()));
  SNUG_RETURN_IF_ERROR(CheckAdam(check, "lamb", optimizer.lamb()));
  SNUG_RETURN_IF_ERROR(CheckAdam(check, "adam", optimizer.adam()));
  SNUG_RETURN_IF_ERROR(CheckAdam(check, "adamw", optimizer.adamw()));
  const std::string& state = optimizer.state();
  if (!optimizer.has_state() || state == "float32" || state == "bfloat16" || state == kStateIn8Bits) {
    return absl::OkStatus();
  }
  return places.Error("optimizer.state",
                      absl::StrCat("expected float32, bfloat16 or ", kStateIn8Bits, ", found \"", state, "\""));
}

absl::Status CheckState(const proto::Optimizer& optimizer, DType precision, const OptionPlaces& places) {
  if (!optimizer.has_state()) return absl::OkStatus();
  if (precision == DType::kFloat64) {
    return places.Error("optimizer.state", absl::StrCat("is for the precisions float32 and bfloat16, found float64, "
                                                        "which is computed and kept in float64"));
  }
  const bool is_sgd =
      optimizer.kind_case() == proto::Optimizer::kSgd || optimizer.kind_case() == proto::Optimizer::KIND_NOT_SET;
  if (is_sgd && optimizer.sgd().momentum() == 0) {
    return places.Error("optimizer.state",
                        "expected an optimizer that keeps something for each parameter, found sgd without momentum, "
                        "which keeps nothing");
  }
  const double initial = optimizer.adagrad().initial_accumulator_value();
  if (optimizer.kind_case() == proto::Optimizer::kAdagrad && optimizer.state() == kStateIn8Bits && initial != 0) {
    return places.Error("optimizer.adagrad.initial_accumulator_value",
                        absl::StrCat("expected 0, with which sums of squares begin that are kept in 8 bits "
                                     "(optimizer.state), found ",
                                     initial));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
