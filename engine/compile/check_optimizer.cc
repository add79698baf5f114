#include "engine/compile/check_optimizer.h"

#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/source_loc.h"
#include "engine/base/status.h"
#include "proto/network.pb.h"

namespace snug {
namespace {

// `field` is the optimizer's field that holds the option: the option itself, or sgd, adam, adamw.
class Checker {
 public:
  explicit Checker(const SourceMap& locations) : locations_(locations) {}

  absl::Status AtLeast0(absl::string_view field, absl::string_view option, double value) const {
    return Check(value >= 0 && std::isfinite(value), field, option, "a number of at least 0", value);
  }
  absl::Status MoreThan0(absl::string_view field, absl::string_view option, double value) const {
    return Check(value > 0, field, option, "more than 0", value);
  }
  absl::Status Fraction(absl::string_view field, absl::string_view option, double value) const {
    return Check(value >= 0 && value < 1, field, option, "at least 0 and less than 1", value);
  }

 private:
  absl::Status Check(bool good, absl::string_view field, absl::string_view option, absl::string_view expected,
                     double value) const {
    if (good) return absl::OkStatus();
    return At(locations_.OptimizerLoc(field),
              absl::InvalidArgumentError(
                  absl::StrCat("optimizer: \"", option, "\": expected ", expected, ", found ", value)));
  }

  const SourceMap& locations_;
};

absl::Status CheckAdam(const Checker& check, absl::string_view field, const proto::Adam& adam) {
  SNUG_RETURN_IF_ERROR(check.Fraction(field, "beta1", adam.beta1()));
  SNUG_RETURN_IF_ERROR(check.Fraction(field, "beta2", adam.beta2()));
  return check.AtLeast0(field, "epsilon", adam.epsilon());
}

}  // namespace

absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const SourceMap& locations) {
  const Checker check(locations);
  SNUG_RETURN_IF_ERROR(check.AtLeast0("learning_rate", "learning_rate", optimizer.learning_rate()));
  SNUG_RETURN_IF_ERROR(check.AtLeast0("weight_decay", "weight_decay", optimizer.weight_decay()));
  if (optimizer.has_clip_norm()) {
    SNUG_RETURN_IF_ERROR(check.MoreThan0("clip_norm", "clip_norm", optimizer.clip_norm()));
  }
  SNUG_RETURN_IF_ERROR(check.Fraction("sgd", "momentum", optimizer.sgd().momentum()));
  SNUG_RETURN_IF_ERROR(CheckAdam(check, "adam", optimizer.adam()));
  return CheckAdam(check, "adamw", optimizer.adamw());
}

}  // namespace snug
