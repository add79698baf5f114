// The common part of LayerContext and GradContext: adding nodes with a sticky error, so that an op's author writes
// formulas, not error plumbing. After an error every call is a no-op that returns invalid ids.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "ops/graph_builder.h"

namespace snug {

class OpContext {
 public:
  const absl::Status& status() const { return status_; }
  // Records the first error.
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Adds a node and returns its first output (Ops: all of them). `suffix` names it "<layer>/<suffix>"; empty: the
  // layer's own name.
  ValueId Op(absl::string_view op, std::vector<ValueId> inputs, Options options = {}, absl::string_view suffix = "");
  std::vector<ValueId> Ops(absl::string_view op, std::vector<ValueId> inputs, Options options = {},
                           absl::string_view suffix = "");

  const ValueType& type(ValueId id) const { return builder_.graph().type(id); }
  const OpRegistry& registry() const { return builder_.registry(); }

 protected:
  explicit OpContext(GraphBuilder& builder) : builder_(builder) {}
  ~OpContext() = default;
  // Name, phase, location, random id of new nodes; inputs may be adapted (casts).
  virtual NodeSpec Describe(absl::string_view op, absl::string_view suffix) = 0;
  virtual void AdaptInputs(const OpDef& /*op*/, std::vector<ValueId>* /*inputs*/) {}

  GraphBuilder& builder_;  // NOLINT: for the two subclasses

 private:
  absl::Status status_;
};

}  // namespace snug
