// Which of two values of a metric is better: what decides which state is best, when a training ends early, and what a
// comparison marks.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace snug::proto {
class Network;
}

namespace snug::core {

enum class Better : uint8_t { kUnknown, kLess, kMore };
const char* Name(Better better);  // "unknown", "least" or "most"
// Nothing where it is none of these names.
std::optional<Better> ParseBetter(absl::string_view name);

// A metric, and which of its values are better.
struct KnownMetric {
  std::string name;
  Better better = Better::kUnknown;
};

// Returns it by the op that makes the metric: of losses and of the network's objectives ("loss" is the sum of these)
// the least is best, of accuracies the most, and of what grows with one of them, as its mean, its root or a sum of
// such, the same. Unknown of all else.
Better BetterOf(const proto::Network& network, const std::string& metric);

// What an option that names a metric says: "name", or, where it is not known or not what is wanted, "name:least" or
// "name:most".
struct FollowedMetric {
  std::string name;
  std::optional<Better> better;  // as the user says it
};
FollowedMetric ParseFollowedMetric(const std::string& text);

}  // namespace snug::core
