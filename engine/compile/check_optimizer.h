// Whether an optimizer's numbers make sense: a learning rate of nan would train without a word.
#pragma once

#include <absl/status/status.h>

#include "proto/option_places.h"

namespace snug {

namespace proto {
class Optimizer;
}

// InvalidArgument that names the option, where it was written: `optimizer.sgd.momentum: expected ..., found ...`.
absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const OptionPlaces& places);

}  // namespace snug
