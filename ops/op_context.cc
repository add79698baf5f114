#include "ops/op_context.h"

#include <utility>

namespace snug::core {

ValueId OpContext::Op(absl::string_view op, std::vector<ValueId> inputs, Options options, absl::string_view suffix) {
  const std::vector<ValueId> outputs = Ops(op, std::move(inputs), std::move(options), suffix);
  return outputs.empty() ? ValueId() : outputs.front();
}

std::vector<ValueId> OpContext::Ops(absl::string_view op, std::vector<ValueId> inputs, Options options,
                                    absl::string_view suffix) {
  if (!status_.ok()) return {};
  const OpDef& def = registry().Get(op);
  AdaptInputs(def, &inputs);
  if (!status_.ok()) return {};
  NodeSpec spec = Describe(op, suffix);
  spec.op = std::string(op);
  spec.inputs = std::move(inputs);
  spec.options = std::move(options);
  absl::StatusOr<NodeId> node = builder_.Add(std::move(spec));
  if (!node.ok()) {
    Fail(node.status());
    return {};
  }
  return builder_.graph().node(*node).outputs;
}

}  // namespace snug::core
