// The Graph: SSA values plus Variables.
//
//   * A Value is written once, by its producer, or comes from outside (a graph input), or is the content of a Variable.
//   * A Variable is state that lasts between steps, and the only thing a Node may mutate (its OpDef says which inputs
//   it
//     mutates). Reading nodes name the Variable's Value.
//   * Nodes stand in program order, a linked list. Program order is a legal Order: producers before readers, and for
//     each Variable it fixes which reads come before and after which mutation (the hazards every other order keeps).
//
// The Graph knows neither what ops mean nor protobuf: an op is a name, and its options are an opaque handle.
// Thread-compatible.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/options.h"
#include "engine/base/text/source_loc.h"
#include "engine/graph/value_type.h"

namespace snug::core {

// Distinct index types, so that a node's number is never used as a value's.
template <class Tag>
struct Id {
  int32_t index = -1;

  bool valid() const { return index >= 0; }
  friend bool operator==(Id a, Id b) { return a.index == b.index; }
  friend auto operator<=>(Id a, Id b) { return a.index <=> b.index; }
  template <class H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.index);
  }
};

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
using VariableId = Id<struct VariableTag>;

class Graph;

// Says how a Variable gets its first content. All that depends on chance is a pure function of (seed, random_id).
struct Initializer {
  enum class Kind : uint8_t { kConstant, kUniform, kNormal, kTruncatedNormal, kBytes };
  Kind kind = Kind::kConstant;
  double value = 0;                          // the constant, half-width, or standard deviation
  std::shared_ptr<const std::string> bytes;  // kBytes: the content
};

enum class VariableRole : uint8_t {
  kParameter,   // trained unless it is frozen; has a gradient
  kStatistic,   // a running mean or the like: mutated by updates in the forward pass
  kSlot,        // belongs to the optimizer
  kScalar,      // learning rate, step counter, seed: set by the host, or counted
  kWithinStep,  // belongs to one step's micro-batches: their sums, and which of them runs. Never in a checkpoint
  kConstant,    // never mutated
  kDerived,     // follows from others: kept so that not every step computes it anew. Never in a checkpoint
};

struct Variable {
  std::string name;  // "fc1.weight"; unique
  ValueType type;
  VariableRole role = VariableRole::kParameter;
  Initializer init;
  bool frozen = false;
  double lr_mult = 1;
  double decay_mult = 1;
  uint64_t random_id = 0;
  ValueId value;       // its content
  VariableId slot_of;  // for optimizer slots: the parameter they belong to
  // The name of another program's Variable that this one is in a session of both; empty: it is the one of its own name.
  std::string shared_as;
  SourceLoc loc;
};

struct Value {
  std::string name;  // unique; "fc1", "split:1", "fc1/grad_input"
  ValueType type;
  NodeId producer;  // invalid for inputs and Variables
  int output_index = 0;
  VariableId variable;  // if valid, this is the content of that Variable
  bool is_input = false;
  int64_t max_value = 0;  // for integer inputs: an exclusive upper bound of what is fed, or 0
};

enum class Phase : uint8_t { kForward, kBackward, kUpdate };

struct Node {
  std::string name;  // unique
  std::string op;
  Options options;
  std::vector<ValueId> inputs;  // an invalid id stands for an optional input that is absent
  std::vector<ValueId> outputs;
  SourceLoc loc;
  Phase phase = Phase::kForward;
  uint64_t random_id = 0;  // the key of its random numbers: given at import, kept by passes and by its gradient
  NodeId forward;          // for gradient nodes: the node that they differentiate
  std::vector<std::shared_ptr<const Graph>> subgraphs;
  bool removed = false;
  NodeId previous, next;  // the neighbours in program order
};

// The arguments of AddNode.
struct NodeSpec {
  std::string name;
  std::string op;
  Options options = {};
  std::vector<ValueId> inputs = {};
  std::vector<ValueType> output_types = {};
  SourceLoc loc = {};
  Phase phase = Phase::kForward;
  uint64_t random_id = 0;
  NodeId forward = {};
  std::vector<std::shared_ptr<const Graph>> subgraphs = {};
};

// A value that can be fetched. It keeps the name that it was asked for, even if passes replace the value.
struct Output {
  std::string name;
  ValueId value;
};

class Graph {
 public:
  std::string name;
  std::vector<ValueId> objectives;  // backward differentiates these
  std::vector<Output> outputs;      // can be fetched; dead code elimination starts from these and from mutations

  ValueId AddInput(std::string value_name, ValueType type, int64_t max_value = 0);
  VariableId AddVariable(Variable variable);  // sets variable.value
  // Adds a node at the insertion point (the end, unless SetInsertionPoint says otherwise). If the name is taken, it
  // gets a suffix such as "#2".
  NodeId AddNode(NodeSpec spec);
  // Puts new nodes right before `before`, or at the end if the id is invalid.
  void SetInsertionPoint(NodeId before) { insertion_point_ = before; }
  NodeId insertion_point() const { return insertion_point_; }

  void RemoveNode(NodeId id);  // nothing may still read its outputs; other ids stay valid
  void MoveBefore(NodeId id, NodeId before);
  // Exchanges the names of two nodes, and of what they make. A node that takes another's place has its name so, and
  // errors name what users wrote.
  void SwapNames(NodeId a, NodeId b);
  // In all nodes behind the one that makes `from`, in outputs and objectives; takes O(graph).
  void ReplaceUses(ValueId from, ValueId to);
  // Replaces many at once: each value by what `map` leads to, over several steps if need be.
  void ReplaceUses(const std::unordered_map<ValueId, ValueId>& map);

  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id.index)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.index)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  Variable& variable(VariableId id) { return variables_[static_cast<size_t>(id.index)]; }
  const Variable& variable(VariableId id) const { return variables_[static_cast<size_t>(id.index)]; }
  const ValueType& type(ValueId id) const { return value(id).type; }

  std::vector<NodeId> ProgramOrder() const;  // without removed nodes
  NodeId first_node() const { return first_; }
  NodeId last_node() const { return last_; }
  // Ids are dense, and arrays indexed by them have these sizes. Removed nodes and their values still count.
  size_t node_capacity() const { return nodes_.size(); }
  size_t value_capacity() const { return values_.size(); }
  size_t num_nodes() const { return live_nodes_; }
  const std::vector<Variable>& variables() const { return variables_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }

  ValueId FindValue(absl::string_view value_name) const;  // invalid when there is none
  VariableId FindVariable(absl::string_view variable_name) const;

 private:
  void Link(NodeId id, NodeId before);
  void Unlink(NodeId id);
  std::string UniqueName(std::string wanted);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Variable> variables_;
  std::vector<ValueId> inputs_;
  std::unordered_map<std::string, ValueId> values_by_name_;
  std::unordered_map<std::string, int> node_names_;  // how often each name was asked for
  std::unordered_map<std::string, VariableId> variables_by_name_;
  NodeId first_, last_, insertion_point_;
  size_t live_nodes_ = 0;
};

// Returns the nodes that read each value, in program order. A node that reads it twice is there twice.
std::vector<std::vector<NodeId>> ReadersOf(const Graph& graph);

// Checks the Graph's invariants. It runs after every stage of the pipeline in debug builds and in tests. Checks that
// ids are in range, that every value is defined before it is read in program order, that producers and outputs agree,
// that names are unique, that nothing reads a removed node's value, and that Variables and their values agree; the same
// for sub-graphs. An error is Internal: a bug of ours.
absl::Status VerifyGraph(const Graph& graph);

// Writes a Graph as text or for Graphviz: in program order, by name, with the same bytes on every run.
//   input image float32[64, 784]
//   variable fc1.weight float32[256, 784] parameter
//   fc1 = dense(image, fc1.weight, fc1.bias) {units: 256} : float32[64, 256]
std::string ToText(const Graph& graph);
std::string ToDot(const Graph& graph);

}  // namespace snug::core

template <class Tag>
struct std::hash<snug::core::Id<Tag>> {
  size_t operator()(snug::core::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.index); }
};
