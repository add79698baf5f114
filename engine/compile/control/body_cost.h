// What it costs to run a body once, from the costs of its ops.
#pragma once

#include "engine/graph/graph.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"
#include "proto/loops.pb.h"

namespace snug::core {

// Views cost nothing. A loop inside costs what was noted of it when it was compiled, and until then its rounds.
inline Cost CostOfBody(const Graph& body, const OpRegistry& registry) {
  Cost all;
  for (NodeId id = body.first_node(); id.valid(); id = body.node(id).next) {
    const Node& node = body.node(id);
    const OpDef& op = registry.Get(node.op);
    if (op.traits.view) continue;
    Cost cost;
    double times = 1;
    if (node.op == "loop" && !node.options.Get<proto::NormalLoop>().has_flops()) {
      cost = CostOfBody(*node.subgraphs[0], registry);
      times = static_cast<double>(node.options.Get<proto::NormalLoop>().rounds());
    } else {
      cost = CostOf(op, TypesOf(body, node));
    }
    all.flops += cost.flops * times;
    all.bytes += cost.bytes * times;
    all.multiply_adds += cost.multiply_adds * times;
  }
  return all;
}

}  // namespace snug::core
