// What Prepare sees and says, at compile time: it builds the library objects of one node's fast kernel for given types
// and threads, states the workspace, and may ask for other layouts (packed weights) or for float32: the compiler then
// inserts reorders or casts and prepares again with the types it asked for.
#pragma once

#include <absl/strings/string_view.h>

#include <map>
#include <memory>

#include "engine/base/device.h"
#include "ops/node_types.h"

namespace snug {

class PrepareContext {
 public:
  // `choice`: one of what OpDef::choices names; empty: the op's own.
  PrepareContext(const NodeTypes& types, int threads, absl::string_view choice = {}, Device device = {})
      : types_(types), threads_(threads), choice_(choice), device_(device) {}

  const NodeTypes& types() const { return types_; }
  int threads() const { return threads_; }
  absl::string_view choice() const { return choice_; }
  Device device() const { return device_; }  // that the kernel is prepared for
  template <class Message>
  const Message& options() const {
    return types_.options.Get<Message>();
  }

  // Const after this: several steps may share it.
  void SetKernel(std::shared_ptr<const void> kernel) { kernel_ = std::move(kernel); }
  void SetWorkspaceBytes(int64_t bytes) { workspace_bytes_ = bytes; }
  // "This port should have that layout instead": nothing is built in that round.
  void WantInputLayout(int i, Layout layout) { wanted_inputs_[i] = std::move(layout); }
  void WantOutputLayout(int i, Layout layout) { wanted_outputs_[i] = std::move(layout); }
  // "Every bfloat16 port should be float32 instead": likewise.
  void WantFloat32() { wants_float32_ = true; }
  // The fast kernel does not serve these types: the plain one runs.
  void Decline() { declined_ = true; }

  const std::shared_ptr<const void>& kernel() const { return kernel_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const std::map<int, Layout>& wanted_inputs() const { return wanted_inputs_; }
  const std::map<int, Layout>& wanted_outputs() const { return wanted_outputs_; }
  bool wants_float32() const { return wants_float32_; }
  bool declined() const { return declined_; }

 private:
  const NodeTypes& types_;
  int threads_;
  absl::string_view choice_;
  Device device_;
  std::shared_ptr<const void> kernel_;
  int64_t workspace_bytes_ = 0;
  std::map<int, Layout> wanted_inputs_, wanted_outputs_;
  bool wants_float32_ = false;
  bool declined_ = false;
};

}  // namespace snug
