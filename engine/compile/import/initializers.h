// Turns what the model file and the op say about a parameter's first content into the Graph's Initializer. Fans and
// gains are resolved here, so that the run-time only sees plain distributions.
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/graph.h"
#include "ops/layer_context.h"

namespace snug::proto {
class Initializer;
}

namespace snug::core {

// `chosen` may be null, which stands for the op's default.
absl::StatusOr<Initializer> ResolveInitializer(const ParameterSpec& spec, const proto::Initializer* chosen);

}  // namespace snug::core
