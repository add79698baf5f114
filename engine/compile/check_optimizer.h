// Whether an optimizer's numbers make sense: a learning rate of nan would train without a word.
#pragma once

#include <absl/status/status.h>

#include "proto/source_map.h"

namespace snug {

namespace proto {
class Optimizer;
}

absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const SourceMap& locations);

}  // namespace snug
