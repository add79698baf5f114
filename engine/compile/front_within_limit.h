// The first stages within a limit of what loops keep for gradients (control/stash_limit.h): they are tried until it is
// known which loops compute rounds anew.
#pragma once

#include <absl/status/statusor.h>

#include "engine/compile/front.h"

namespace snug::core {

// Looks for what keeps the limit of stashes, if there is one. Everything is kept where it fits. Where chunks of the
// outermost loops are not enough, the loops inside have chunks too, whose length is not searched for. That comes last,
// as a round of theirs is computed once more for each loop around it that computes its own anew.
absl::StatusOr<Front> MakeFrontWithinLimit(const proto::Network& network, const SourceMap& locations,
                                           const OpRegistry& registry, const proto::Optimizer& optimizer,
                                           const CompileOptions& options);

}  // namespace snug::core
