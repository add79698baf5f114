// Which loops stay one node, and which become the straight line of their rounds.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::core {

enum class LoopRule : uint8_t {
  kBySize,    // a loop stays a node if the straight line of its rounds had more than kMostUnrolled nodes, or if its
              // gradient is to compute rounds anew; the bodies of a branch do if it is worth while to run only one
  kUnrolled,  // none does
  kRolled,    // all do that can
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
  bool bound = false;      // `rounds` are the most: how many run is known at run time
  bool of_branch = false;  // it is the body of a branch, and runs once or not at all
  int64_t chunk = 0;       // if its gradient computes rounds anew: so many at a time; 0: it does not
  std::string why_not;     // why it does not though it was asked for
  // What is kept of rounds until there are gradients, if it is trained: of all of them, or where chunks begin; and what
  // is kept while gradients are computed, of the rounds of one chunk. Of loops inside others, those around them say it.
  int64_t stash_bytes = 0, chunk_stash_bytes = 0;
};

absl::string_view LoopRuleName(LoopRule rule);  // "by-size", "unrolled", "rolled"
absl::StatusOr<LoopRule> ParseLoopRule(absl::string_view name);

}  // namespace snug::core
