// Checks that an optimizer's numbers make sense: with a learning rate of nan, training would fail silently.
#pragma once

#include <absl/status/status.h>

#include "proto/option_places.h"

namespace snug::proto {
class Optimizer;
}

namespace snug::core {

// Fails with InvalidArgument that names the option, and where it was written: `optimizer.sgd.momentum: expected ...,
// found ...`.
absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const OptionPlaces& places);

}  // namespace snug::core
