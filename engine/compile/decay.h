// Which parameters weight decay acts on: all of them, as much as their decay_mult says, which is 1 unless the model
// file says otherwise; none that a pattern of no_decay matches.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "proto/option_places.h"

namespace snug {
namespace proto {
class Network;
}  // namespace proto

// A training goes on by the rule it began with, so checkpoints name theirs.
enum class DecayRule : uint8_t {
  kAll,
  // Of a `dense` layer the bias does not decay unless its decay_mult is written down. Checkpoints that name no rule
  // were made by this one.
  kNotDenseBiases,
};

absl::string_view Name(DecayRule rule);  // "all", "not-dense-biases"
std::optional<DecayRule> DecayRuleFromName(absl::string_view name);

struct DecayOptions {
  DecayRule rule = DecayRule::kAll;
  std::vector<std::string> no_decay;  // patterns (engine/base/glob.h)
  OptionPlaces places;                // of these, for errors
};

// Sets decay_mult of the parameters that do not decay. InvalidArgument: a pattern matches none. Returns the names of
// those that would decay by one rule and not by the other.
absl::StatusOr<std::vector<std::string>> ApplyDecay(Graph& graph, const proto::Network& network,
                                                    const DecayOptions& options);

}  // namespace snug
