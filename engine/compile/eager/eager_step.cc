#include "engine/compile/eager/eager_step.h"

#include <absl/algorithm/container.h>
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/eager/saved_tensors.h"

namespace snug::core {
namespace {

// PyTorch's integers, labels and indices too, have 8 bytes.
int64_t TensorBytes(const ValueType& type) {
  return type.num_elements() * (IsFloating(type.dtype) ? SizeOf(type.dtype) : 8);
}

bool Holds(uint32_t ports, size_t port) { return port < 32 && (ports >> port & 1U) != 0; }

class Eager {
 public:
  Eager(const Graph& graph, bool training)
      : graph_(graph),
        training_(training),
        storage_(graph.value_capacity(), kNowhere),
        gradient_(graph.value_capacity(), kNowhere),
        wanted_(graph.value_capacity(), false),
        needs_gradient_(graph.value_capacity(), false),
        readers_(ReadersOf(graph)) {}

  absl::StatusOr<memory::Problem> Run() {
    FindNodes();
    SNUG_RETURN_IF_ERROR(FindOps());
    if (training_) FindGradients();
    TakeInputs();
    for (; position_ < static_cast<int32_t>(nodes_.size()); ++position_) Forward(static_cast<size_t>(position_));
    if (training_) {
      SeedObjectives();
      for (size_t i = nodes_.size(); i-- > 0;) Backward(i);
    }
    for (const int32_t storage : kept_to_end_) Use(storage);  // at the position of the optimizer
    return std::move(problem_);
  }

 private:
  static constexpr int32_t kNowhere = -1;  // on a Variable's bytes, or not there

  static size_t at(ValueId id) { return static_cast<size_t>(id.index); }
  bool needs_gradient(ValueId id) const { return id.valid() && needs_gradient_[at(id)]; }

  // Takes bytes at the current position, at which they also die unless they are used later.
  int32_t Take(std::string name, int64_t bytes) {
    problem_.buffers.push_back({.name = std::move(name), .size_bytes = bytes, .first = position_, .last = position_});
    references_.push_back(0);
    return static_cast<int32_t>(problem_.buffers.size()) - 1;
  }
  void Use(int32_t storage) {
    if (storage != kNowhere) problem_.buffers[static_cast<size_t>(storage)].last = position_;
  }

  // The nodes that objectives and outputs need, in program order.
  void FindNodes() {
    for (const ValueId objective : graph_.objectives) wanted_[at(objective)] = true;
    for (const Output& output : graph_.outputs) wanted_[at(output.value)] = true;
    std::vector<NodeId> all = graph_.ProgramOrder();
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (absl::c_none_of(node.outputs, [&](ValueId v) { return wanted_[at(v)]; })) continue;
      nodes_.push_back(*it);
      for (const ValueId input : node.inputs) {
        if (input.valid()) wanted_[at(input)] = true;
      }
    }
    std::reverse(nodes_.begin(), nodes_.end());
  }

  absl::Status FindOps() {
    for (const NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      ops_.push_back(FindEagerOp(node.op));
      if (ops_.back() == nullptr) {
        return absl::UnimplementedError(absl::StrCat("what PyTorch keeps of an op \"", node.op, "\" is not known"));
      }
      for (const ValueId output : node.outputs) {
        const DType dtype = graph_.type(output).dtype;
        if (IsFloating(dtype) && dtype != DType::kFloat32) {
          return absl::UnimplementedError(
              absl::StrCat("PyTorch's memory is told for float32: \"", node.name, "\" is in ", Name(dtype)));
        }
      }
    }
    return absl::OkStatus();
  }

  // Gradients are needed of values between the parameters and an objective.
  void FindGradients() {
    std::vector<char> reaches(graph_.value_capacity(), false);
    for (const ValueId objective : graph_.objectives) reaches[at(objective)] = true;
    for (auto it = nodes_.rbegin(); it != nodes_.rend(); ++it) {
      const Node& node = graph_.node(*it);
      if (node.op == "stop_gradient" || absl::c_none_of(node.outputs, [&](ValueId v) { return reaches[at(v)]; })) {
        continue;
      }
      for (const ValueId input : node.inputs) {
        if (input.valid()) reaches[at(input)] = true;
      }
    }
    for (const ValueId parameter : TrainedParameters(graph_)) needs_gradient_[at(parameter)] = reaches[at(parameter)];
    for (const NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      if (node.op == "stop_gradient" || absl::c_none_of(node.inputs, [&](ValueId v) { return needs_gradient(v); })) {
        continue;
      }
      for (const ValueId output : node.outputs) {
        needs_gradient_[at(output)] = reaches[at(output)] && IsFloating(graph_.type(output).dtype);
      }
    }
  }

  void TakeInputs() {
    for (const ValueId input : graph_.inputs()) {
      if (wanted_[at(input)]) storage_[at(input)] = Take(graph_.value(input).name, TensorBytes(graph_.type(input)));
    }
  }

  bool IsResult(ValueId id) const {
    return absl::c_linear_search(graph_.objectives, id) ||
           absl::c_any_of(graph_.outputs, [&](const Output& output) { return output.value == id; });
  }

  // Whether the node may write over the input: nobody else reads it, and whoever made it does not keep it.
  bool MayWriteOver(const Node& node, ValueId input) const {
    if (!input.valid() || storage_[at(input)] == kNowhere || IsResult(input)) return false;
    const Value& value = graph_.value(input);
    if (!value.producer.valid() || readers_[at(input)].size() > 1) return false;
    if (value.type.num_elements() != graph_.type(node.outputs[0]).num_elements()) return false;
    const EagerOp& producer = *ops_[static_cast<size_t>(order_.at(value.producer))];
    if (producer.output == EagerOp::Output::kView) return false;
    return !needs_gradient(input) || !Holds(producer.outputs_kept, static_cast<size_t>(value.output_index));
  }

  int32_t PlaceOutput(const Node& node, const EagerOp& op) {
    if (op.output == EagerOp::Output::kView) return storage_[at(node.inputs[0])];
    if (op.output == EagerOp::Output::kInPlace) {
      for (const ValueId input : node.inputs) {
        if (MayWriteOver(node, input)) return storage_[at(input)];
      }
    }
    return Take(node.name, TensorBytes(graph_.type(node.outputs[0])));
  }

  int64_t Elements(const Node& node, const EagerOp& op) const {
    return graph_.type(op.per_input ? node.inputs[0] : node.outputs[0]).num_elements();
  }

  void Forward(size_t i) {
    const Node& node = graph_.node(nodes_[i]);
    const EagerOp& op = *ops_[i];
    order_.emplace(nodes_[i], static_cast<int32_t>(i));
    const int32_t output = PlaceOutput(node, op);
    for (const ValueId input : node.inputs) {
      if (input.valid()) Use(storage_[at(input)]);
    }
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      const ValueId value = node.outputs[port];
      const bool first = port == 0 || op.output == EagerOp::Output::kView;
      storage_[at(value)] = first ? output : Take(graph_.value(value).name, TensorBytes(graph_.type(value)));
      if (IsResult(value)) kept_to_end_.push_back(storage_[at(value)]);
    }
    const int32_t more =
        op.more_kept > 0 ? Take(absl::StrCat(node.name, "/kept"), op.more_kept * Elements(node, op)) : kNowhere;
    more_kept_.push_back(more);
  }

  void SeedObjectives() {
    for (const ValueId objective : graph_.objectives) {
      if (needs_gradient(objective)) AddGradient(objective, Take("seed", TensorBytes(graph_.type(objective))));
    }
    ++position_;
  }

  // Uses what the node has kept, for the last time.
  void UseKept(size_t i) {
    const Node& node = graph_.node(nodes_[i]);
    const EagerOp& op = *ops_[i];
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      if (!Holds(op.inputs_kept, port) || !node.inputs[port].valid()) continue;
      bool kept = !op.crosswise;
      for (size_t other = 0; other < node.inputs.size(); ++other) {
        kept |= other != port && needs_gradient(node.inputs[other]);
      }
      if (kept) Use(storage_[at(node.inputs[port])]);
    }
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (Holds(op.outputs_kept, port)) Use(storage_[at(node.outputs[port])]);
    }
    Use(more_kept_[i]);
  }

  int32_t InputGradient(const Node& node, const EagerOp& op, size_t port, int32_t output_gradient) {
    const ValueType& type = graph_.type(node.inputs[port]);
    const int64_t elements = type.num_elements();
    const bool fits = elements == graph_.type(node.outputs[0]).num_elements() || node.op == "concat" ||
                      node.op == "reduce_sum" || node.op == "reduce_to_shape";
    if (op.gradient == EagerOp::Gradient::kPass && Holds(op.passed, std::min<size_t>(port, 31)) && fits) {
      return output_gradient;
    }
    return Take(absl::StrCat("d(", graph_.value(node.inputs[port]).name, ")"), TensorBytes(type));
  }

  void Backward(size_t i) {
    const Node& node = graph_.node(nodes_[i]);
    const EagerOp& op = *ops_[i];
    int32_t given = kNowhere;
    for (const ValueId output : node.outputs) {
      if (gradient_[at(output)] == kNowhere) continue;
      if (given == kNowhere) given = gradient_[at(output)];
      Use(gradient_[at(output)]);
    }
    if (given == kNowhere) return;  // no objective depends on it, or no parameter
    UseKept(i);
    std::vector<std::pair<ValueId, int32_t>> made;
    for (size_t port = 0; port < node.inputs.size(); ++port) {
      if (needs_gradient(node.inputs[port])) {
        made.emplace_back(node.inputs[port], InputGradient(node, op, port, given));
      }
    }
    if (op.backward_scratch > 0) Take(absl::StrCat(node.name, "/scratch"), op.backward_scratch * Elements(node, op));
    for (const ValueId output : node.outputs) {
      if (gradient_[at(output)] != kNowhere) --references_[static_cast<size_t>(gradient_[at(output)])];
    }
    for (const auto& [value, storage] : made) AddGradient(value, storage);
    ++position_;
  }

  // As autograd adds up: into the tensor that is there if nobody else holds it, else into a new one.
  void AddGradient(ValueId value, int32_t storage) {
    const int64_t bytes = TensorBytes(graph_.type(value));
    const bool parameter = graph_.value(value).variable.valid();
    const auto held = [&](int32_t s) -> int32_t& { return references_[static_cast<size_t>(s)]; };
    int32_t& sum = gradient_[at(value)];
    Use(storage);
    Use(sum);
    if (sum == kNowhere) {
      // A parameter keeps its gradient, so it must be its own.
      sum = parameter && held(storage) > 0 ? Take(graph_.value(value).name + ".grad", bytes) : storage;
      ++held(sum);
      if (parameter) kept_to_end_.push_back(sum);
    } else if (held(sum) > 1 && !parameter) {
      --held(sum);
      sum = Take(absl::StrCat("d(", graph_.value(value).name, ")/sum"), bytes);
      ++held(sum);
    }
  }

  const Graph& graph_;
  const bool training_;
  memory::Problem problem_;  // a buffer for each storage
  int32_t position_ = 0;
  std::vector<NodeId> nodes_;
  std::vector<const EagerOp*> ops_;            // by node
  std::unordered_map<NodeId, int32_t> order_;  // of the nodes that have run
  std::vector<int32_t> more_kept_;             // by node: the storage
  std::vector<int32_t> storage_, gradient_;    // by value: the storage on which it, or its gradient, lies
  std::vector<int32_t> references_;            // by storage: how many values' gradients it is
  std::vector<char> wanted_, needs_gradient_;  // by value
  std::vector<std::vector<NodeId>> readers_;   // by value
  std::vector<int32_t> kept_to_end_;
};

}  // namespace

absl::StatusOr<memory::Requests> EagerStep(const Graph& graph, const std::vector<Variable>& variables, bool training) {
  memory::Requests requests;
  for (const Variable& variable : variables) {
    switch (variable.role) {
      case VariableRole::kParameter:
      case VariableRole::kStatistic:
      case VariableRole::kConstant:
        requests.resident.push_back(TensorBytes(variable.type));
        break;
      case VariableRole::kSlot:
        if (training) requests.resident.push_back(TensorBytes(variable.type));
        break;
      case VariableRole::kScalar:
      case VariableRole::kWithinStep:
      case VariableRole::kDerived:
        break;  // numbers of the host there, or nothing
    }
  }
  SNUG_ASSIGN_OR_RETURN(requests.step, Eager(graph, training).Run());
  return requests;
}

}  // namespace snug::core
