// Says which parameters weight decay acts on: all of them, as much as their decay_mult says, which is 1 unless the
// model file says otherwise. It does not act on parameters that a pattern of no_decay matches.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "proto/option_places.h"

namespace snug::proto {
class Network;
}

namespace snug::core {

// A training must go on by the rule it began with, so checkpoints name their rule.
enum class DecayRule : uint8_t {
  kAll,
  // The bias of a `dense` layer does not decay unless its decay_mult is given. Checkpoints that name no rule come from
  // the time of this one.
  kNotDenseBiases,
};

absl::string_view Name(DecayRule rule);  // "all", "not-dense-biases"
std::optional<DecayRule> DecayRuleFromName(absl::string_view name);

struct DecayOptions {
  DecayRule rule = DecayRule::kAll;
  std::vector<std::string> no_decay;  // patterns (engine/base/text/glob.h)
  OptionPlaces places;                // where the patterns were written, for errors
};

// Sets decay_mult of the parameters that do not decay. Fails with InvalidArgument when a pattern matches none. Returns
// the names of those that would decay by one rule and not by the other.
absl::StatusOr<std::vector<std::string>> ApplyDecay(Graph& graph, const proto::Network& network,
                                                    const DecayOptions& options);

}  // namespace snug::core
