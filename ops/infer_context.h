// What an op's shape inference sees: input types and options; it sets the output types, or says what is wrong.
// Ports have been checked already: number of inputs, presence, element types.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <utility>

#include "ops/node_types.h"

namespace snug::core {

class InferContext {
 public:
  InferContext(NodeTypes* types, const std::vector<std::string>& input_names) : types_(*types), names_(input_names) {}

  int num_inputs() const { return types_.num_inputs(); }
  bool has_input(int i) const { return types_.has_input(i); }
  const ValueType& input(int i) const { return types_.input(i); }
  const Shape& shape(int i) const { return types_.input(i).shape; }
  template <class Message>
  const Message& options() const {
    return types_.options.Get<Message>();
  }
  const Options& options_handle() const { return types_.options; }

  // Sets one output's type. Its layout is kept: inference runs again after layouts are assigned, so a layout-agnostic
  // op passes the input's layout on. The caller chooses the dtype.
  void SetOutput(int i, ValueType type);
  void SetOutput(int i, DType dtype, const Shape& shape, Layout layout = {}) {
    SetOutput(i, {dtype, shape, std::move(layout)});
  }

  // Returns the error `input 1 "w" [128, 784]: <message>`.
  absl::Status InputError(int i, absl::string_view message) const;
  static absl::Status OptionError(absl::string_view option, absl::string_view message);
  absl::Status CheckRank(int i, int min_rank, int max_rank) const;
  absl::Status CheckShape(int i, const Shape& expected) const;

 private:
  NodeTypes& types_;
  const std::vector<std::string>& names_;  // the names of the ports
};

}  // namespace snug::core
