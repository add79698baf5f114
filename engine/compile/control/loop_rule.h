// Which loops stay one node, and which become the straight line of their rounds.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::core {

enum class LoopRule : uint8_t {
  kBySize,    // a loop stays a node if the straight line of its rounds had more than kMostUnrolled nodes, or if its
              // gradient is to compute rounds anew
  kUnrolled,  // none does
  kRolled,    // all do
};

inline constexpr int64_t kMostUnrolled = 2'000;
inline constexpr int64_t kSquareRoot = -1;  // for CompileOptions::recompute_rounds
// Of a graph that is unrolled because it must be, whatever its size.
inline constexpr int64_t kMaxUnrolledNodes = 2'000'000;

// What becomes of a loop.
struct LoopChoice {
  std::string name;               // of its node, behind those of the loops around it
  int64_t rounds = 0, nodes = 0;  // of a round, in the forward pass
  bool rolled = false;
  int64_t chunk = 0;    // if its gradient computes rounds anew: so many at a time; 0: it does not
  std::string why_not;  // why it does not though it was asked for
};

absl::string_view LoopRuleName(LoopRule rule);  // "by-size", "unrolled", "rolled"
absl::StatusOr<LoopRule> ParseLoopRule(absl::string_view name);

}  // namespace snug::core
