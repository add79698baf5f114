// From what the model file and the op say about a parameter's first content to the Graph's Initializer: fans and gains
// are resolved here, so that the run-time sees plain distributions.
#pragma once

#include <absl/status/statusor.h>

#include "engine/graph/graph.h"
#include "ops/layer_context.h"

namespace snug {
namespace proto {
class Initializer;
}

// `chosen` may be null: the op's default.
absl::StatusOr<Initializer> ResolveInitializer(const ParameterSpec& spec, const proto::Initializer* chosen);

}  // namespace snug
