// What is asked of a plan file before it is loaded (plan_memory.h).
#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace snug::core {

// Returns the name of the strategy that made the plan, without the policy of its streams.
absl::StatusOr<std::string> StrategyOfPlan(const std::string& path);

}  // namespace snug::core
