#include "engine/compile/import/decay.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/text/glob.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// A pattern that matches no parameter is an error, because it is most likely misspelt.
absl::Status ApplyPatterns(Graph& graph, const DecayOptions& options) {
  for (size_t p = 0; p < options.no_decay.size(); ++p) {
    const std::string& pattern = options.no_decay[p];
    bool matched = false;
    for (size_t i = 0; i < graph.variables().size(); ++i) {
      Variable& variable = graph.variable(VariableId{static_cast<int32_t>(i)});
      if (variable.role != VariableRole::kParameter || !GlobMatches(pattern, variable.name)) continue;
      variable.decay_mult = 0;
      matched = true;
    }
    if (matched) continue;
    return options.places.Error("training.no_decay", absl::StrCat("\"", pattern, "\": no parameter has such a name"),
                                static_cast<int>(p));
  }
  return absl::OkStatus();
}

bool DecayIsWritten(const proto::Layer& layer, absl::string_view parameter) {
  return std::any_of(layer.param().begin(), layer.param().end(),
                     [&](const proto::Param& param) { return param.name() == parameter && param.has_decay_mult(); });
}

}  // namespace

absl::string_view Name(DecayRule rule) { return rule == DecayRule::kAll ? "all" : "not-dense-biases"; }

std::optional<DecayRule> DecayRuleFromName(absl::string_view name) {
  for (const DecayRule rule : {DecayRule::kAll, DecayRule::kNotDenseBiases}) {
    if (name == Name(rule)) return rule;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<std::string>> ApplyDecay(Graph& graph, const proto::Network& network,
                                                    const DecayOptions& options) {
  const absl::Status status = ApplyPatterns(graph, options);
  if (!status.ok()) return status;
  std::vector<std::string> differ;
  for (const proto::Layer& layer : network.layer()) {
    if (!layer.has_dense() || DecayIsWritten(layer, "bias")) continue;
    const VariableId id = graph.FindVariable(absl::StrCat(layer.name(), ".bias"));
    if (!id.valid()) continue;  // the layer has no bias, or uses another layer's
    Variable& bias = graph.variable(id);
    if (bias.frozen || bias.decay_mult == 0) continue;
    differ.push_back(bias.name);
    if (options.rule == DecayRule::kNotDenseBiases) bias.decay_mult = 0;
  }
  return differ;
}

}  // namespace snug::core
