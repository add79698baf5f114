// Finds the node that first made something that is not finite.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"

namespace snug::proto {
class Network;
}

namespace snug::core {
class SourceMap;

// `session` must have run its first program just now to a loss that is not finite, which has changed no Variable. Runs
// the same step again on a copy of them, one node after the other and without sharing bytes. Describes the first node
// with an output that is not finite: its name, op and place in the file, and whether its inputs were finite. `feed`
// must feed the copy what the step was fed.
absl::StatusOr<std::string> DescribeNonFinite(const proto::Network& network, const SourceMap& locations,
                                              const OpRegistry& registry, const CompileOptions& options,
                                              Session& session,
                                              const std::function<absl::Status(Program& program)>& feed);

}  // namespace snug::core
