// Which loops stay one node, and which become the straight line of their rounds.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug::core {

enum class LoopRule : uint8_t {
  kBySize,    // a loop stays a node if the straight line of its rounds had more than kMostUnrolled nodes
  kUnrolled,  // none does
  kRolled,    // all do
};

inline constexpr int64_t kMostUnrolled = 2'000;
// Of a graph that is unrolled because it must be, whatever its size.
inline constexpr int64_t kMaxUnrolledNodes = 2'000'000;

absl::string_view LoopRuleName(LoopRule rule);  // "by-size", "unrolled", "rolled"
absl::StatusOr<LoopRule> ParseLoopRule(absl::string_view name);

}  // namespace snug::core
