// What LayerContext and GradContext have in common: adding nodes with a sticky error, so that an op's author writes
// formulas and no error plumbing. After an error every call does nothing and returns invalid ids.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "ops/graph_builder.h"

namespace snug::core {

class OpContext {
 public:
  const absl::Status& status() const { return status_; }
  // Keeps the first error only.
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Op adds a node and returns its first output; Ops returns all of them. `suffix` names the node "<layer>/<suffix>";
  // empty: it has the layer's own name.
  ValueId Op(absl::string_view op, std::vector<ValueId> inputs, Options options = {}, absl::string_view suffix = "");
  std::vector<ValueId> Ops(absl::string_view op, std::vector<ValueId> inputs, Options options = {},
                           absl::string_view suffix = "");

  const ValueType& type(ValueId id) const { return builder_.graph().type(id); }
  const OpRegistry& registry() const { return builder_.registry(); }

 protected:
  explicit OpContext(GraphBuilder& builder) : builder_(builder) {}
  ~OpContext() = default;
  // Gives name, phase, location and random id of a new node. AdaptInputs may change its inputs (casts).
  virtual NodeSpec Describe(absl::string_view op, absl::string_view suffix) = 0;
  virtual void AdaptInputs(const OpDef& /*op*/, std::vector<ValueId>* /*inputs*/) {}

  GraphBuilder& builder_;  // NOLINT: the two subclasses use it

 private:
  absl::Status status_;
};

}  // namespace snug::core
