// What dropout and stochastic depth have in common.
#pragma once

#include <absl/status/status.h>

#include "ops/layer_context.h"

namespace snug {

absl::Status CheckDropRate(double rate);

// Makes one node of `op` that also reads the random state, or none outside training or where nothing is ever dropped.
absl::Status DropLayer(LayerContext& c, absl::string_view op, double rate);

}  // namespace snug
