#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/differentiate_loop.h"
#include "engine/compile/differentiate/differentiate.h"
#include "ops/grad_context.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

class Backward {
 public:
  Backward(GraphBuilder& builder, const BackwardOptions& options)
      : builder_(builder),
        graph_(builder.graph()),
        options_(options),
        needed_(graph_.value_capacity(), false),
        contributions_(graph_.value_capacity()) {}

  absl::StatusOr<std::unordered_map<ValueId, ValueId>> Run() {
    const std::vector<NodeId> forward = graph_.ProgramOrder();
    MarkNeeded(forward);
    graph_.SetInsertionPoint(options_.group != nullptr ? options_.group->before : NodeId());
    SNUG_RETURN_IF_ERROR(SeedObjectives());
    for (auto it = forward.rbegin(); it != forward.rend(); ++it) {
      if (options_.group != nullptr && graph_.node(*it).phase != Phase::kForward) continue;
      SNUG_RETURN_IF_ERROR(Differentiate(*it));
    }
    SNUG_ASSIGN_OR_RETURN(auto gradients, Collect());
    graph_.SetInsertionPoint(NodeId());
    return gradients;
  }

 private:
  std::vector<ValueId>& contributions(ValueId id) { return contributions_[static_cast<size_t>(id.index)]; }
  bool needed(ValueId id) const { return id.valid() && needed_[static_cast<size_t>(id.index)]; }

  // A gradient is needed for a value that is wanted, and for one that depends on a wanted value.
  void MarkNeeded(const std::vector<NodeId>& forward) {
    for (const ValueId id : options_.wanted) needed_[static_cast<size_t>(id.index)] = true;
    for (const NodeId id : forward) {
      const Node& node = graph_.node(id);
      if (std::none_of(node.inputs.begin(), node.inputs.end(), [this](ValueId v) { return needed(v); })) continue;
      for (const ValueId output : node.outputs) {
        if (IsFloating(graph_.type(output).dtype)) needed_[static_cast<size_t>(output.index)] = true;
      }
    }
  }

  absl::Status SeedObjectives() {
    for (const auto& [value, seed] : options_.seeds) {
      if (needed(value)) contributions(value).push_back(seed);
    }
    for (const ValueId objective : options_.group != nullptr ? options_.group->objectives : graph_.objectives) {
      if (!needed(objective)) continue;
      SNUG_ASSIGN_OR_RETURN(const ValueId seed, Fill(objective, 1.0));
      contributions(objective).push_back(seed);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Fill(ValueId like, double value) {
    const ValueType& type = graph_.type(like);
    proto::Fill fill;
    for (const int64_t dim : type.shape.dims()) fill.add_dim(dim);
    fill.set_dtype(proto::FromDType(type.dtype));
    fill.set_value(value);
    return AddBackwardNode("fill", absl::StrCat("d(", graph_.value(like).name, ")/fill"), {}, proto::MakeOptions(fill),
                           like);
  }

  absl::StatusOr<ValueId> AddBackwardNode(absl::string_view op, std::string name, std::vector<ValueId> inputs,
                                          Options options, ValueId like) {
    const NodeId producer = graph_.value(like).producer;
    NodeSpec spec{.name = std::move(name),
                  .op = std::string(op),
                  .options = std::move(options),
                  .inputs = std::move(inputs),
                  .loc = producer.valid() ? graph_.node(producer).loc : SourceLoc(),
                  .phase = Phase::kBackward,
                  .forward = producer};
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add(std::move(spec)));
    return graph_.node(node).outputs[0];
  }

  // Returns the whole gradient of a value: nothing, its one contribution, or the sum of all in forward use order. They
  // were collected from the last reader to the first.
  absl::StatusOr<ValueId> Total(ValueId id) {
    std::vector<ValueId>& parts = contributions(id);
    if (parts.size() > 1) {
      std::reverse(parts.begin(), parts.end());
      SNUG_ASSIGN_OR_RETURN(const ValueId sum, AddBackwardNode("add_n", absl::StrCat("d(", graph_.value(id).name, ")"),
                                                               parts, Options(), id));
      parts = {sum};
    }
    return parts.empty() ? ValueId() : parts.front();
  }

  absl::Status Differentiate(NodeId id) {
    std::vector<ValueId> outputs = graph_.node(id).outputs;
    std::vector<ValueId> output_grads;
    bool any = false;
    for (const ValueId output : outputs) {
      SNUG_ASSIGN_OR_RETURN(const ValueId grad, Total(output));
      output_grads.push_back(grad);
      any = any || grad.valid();
    }
    std::vector<bool> wanted;
    for (const ValueId input : graph_.node(id).inputs)
      wanted.push_back(needed(input) && IsFloating(graph_.type(input).dtype));
    if (!any || std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return absl::OkStatus();

    const OpDef& op = builder_.registry().Get(graph_.node(id).op);
    if (op.traits.control) {
      absl::StatusOr<std::vector<ValueId>> grads = DifferentiateLoop(builder_, id, output_grads, wanted);
      if (!grads.ok()) return grads.status();
      AddContributions(id, wanted, *grads);
      return absl::OkStatus();
    }
    const auto located = [&](const absl::Status& status) {
      const Node& node = graph_.node(id);
      return NodeError(node.loc, node.name, node.op, status);
    };
    if (op.gradient == nullptr) {
      return located(
          absl::InvalidArgumentError("has no gradient, but an objective depends on trained values through it; put a "
                                     "stop_gradient layer before it, or freeze what lies upstream"));
    }
    GradContext context(builder_, id, std::move(output_grads), wanted);
    absl::Status status = op.gradient(context);
    if (status.ok()) status = context.status();
    if (!status.ok()) return located(Annotate(status, "gradient"));
    AddContributions(id, wanted, context.input_grads());
    return absl::OkStatus();
  }

  // Inputs are visited from the last to the first, because Total reverses all contributions.
  void AddContributions(NodeId id, const std::vector<bool>& wanted, const std::vector<ValueId>& grads) {
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (size_t i = std::min(inputs.size(), grads.size()); i-- > 0;) {
      if (wanted[i] && grads[i].valid()) contributions(inputs[i]).push_back(grads[i]);
    }
  }

  absl::StatusOr<std::unordered_map<ValueId, ValueId>> Collect() {
    std::unordered_map<ValueId, ValueId> gradients;
    for (const ValueId id : options_.wanted) {
      SNUG_ASSIGN_OR_RETURN(ValueId grad, Total(id));
      if (!grad.valid() && options_.no_path == BackwardOptions::NoPath::kZeros) {
        SNUG_ASSIGN_OR_RETURN(grad, Fill(id, 0.0));
      }
      if (grad.valid()) gradients[id] = grad;
    }
    return gradients;
  }

  GraphBuilder& builder_;
  Graph& graph_;
  const BackwardOptions& options_;
  std::vector<bool> needed_;                         // indexed by forward value
  std::vector<std::vector<ValueId>> contributions_;  // indexed by forward value; from the last reader to the first
};

}  // namespace

absl::StatusOr<std::unordered_map<ValueId, ValueId>> AddBackward(GraphBuilder& builder,
                                                                 const BackwardOptions& options) {
  return Backward(builder, options).Run();
}

std::vector<ValueId> TrainedParameters(const Graph& graph) {
  std::vector<ValueId> result;
  for (const Variable& variable : graph.variables()) {
    if (variable.role == VariableRole::kParameter && !variable.frozen) result.push_back(variable.value);
  }
  return result;
}

}  // namespace snug::core
