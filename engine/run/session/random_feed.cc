#include "engine/run/session/random_feed.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/hash.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

// Returns the smallest bound that a reader sets; 0: none is known.
int64_t IndexBound(const Graph& graph, const OpRegistry& registry, ValueId input) {
  int64_t bound = 0;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    const OpDef& op = registry.Get(node.op);
    if (op.index_bound == nullptr) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!(node.inputs[i] == input)) continue;
      const int64_t limit = op.index_bound(TypesOf(graph, node), static_cast<int>(i));
      if (limit > 0) bound = bound == 0 ? limit : std::min(bound, limit);
    }
  }
  return bound;
}

}  // namespace

absl::Status FeedRandom(Session& session, const OpRegistry& registry, uint64_t seed) {
  const Graph& graph = session.compiled().graph;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    const Philox random{MixKeys(seed, HashName(value.name))};
    std::vector<double> data(static_cast<size_t>(value.type.num_elements()));
    if (IsFloating(value.type.dtype)) {
      for (size_t i = 0; i < data.size(); ++i) {
        const auto words = random(1, i);
        data[i] = ToNormals(words[0], words[1])[0];
      }
    } else {
      const int64_t bound = value.max_value > 0 ? value.max_value : IndexBound(graph, registry, id);
      if (bound <= 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input \"", value.name,
            "\" holds integers, and nothing says how large they may be: give it `max_value: N` in the model file"));
      }
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<double>(random(1, i)[0] % static_cast<uint64_t>(bound));
    }
    SNUG_RETURN_IF_ERROR(session.Feed(value.name, data));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
