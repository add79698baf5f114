// What Prepare sees and says, at compile time: it builds the library objects of one node's fast kernel for given types
// and threads, states the workspace, and may ask for other layouts (packed weights) or for float32: the compiler then
// inserts reorders or casts and prepares again with the types it asked for.
#pragma once

#include <absl/strings/string_view.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/device.h"
#include "ops/node_types.h"

namespace snug {

// What a kernel may do with its numbers beyond what everybody expects of it.
struct KernelLicence {
  bool tf32 = false;  // round factors of float32 to 10 bits of mantissa, for tensor cores
  bool fast = false;  // add in another sequence, with other bits, each time
};

class PrepareContext {
 public:
  // `choice`: one of what KernelRow::variants names; empty: the row's own.
  PrepareContext(const NodeTypes& types, int threads, absl::string_view choice = {}, Device device = {},
                 KernelLicence licence = {})
      : types_(types), threads_(threads), choice_(choice), device_(device), licence_(licence) {}

  const NodeTypes& types() const { return types_; }
  int threads() const { return threads_; }
  absl::string_view choice() const { return choice_; }
  Device device() const { return device_; }  // that the kernel is prepared for
  KernelLicence licence() const { return licence_; }
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
  // This row does not serve these types: the next one is tried.
  void Decline() { declined_ = true; }
  // What dumps and tunings call what was built, where a row has several.
  void SetVariant(std::string name) { variant_ = std::move(name); }
  // It may give other bits each time.
  void SetVaries() { varies_ = true; }

  const std::shared_ptr<const void>& kernel() const { return kernel_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const std::map<int, Layout>& wanted_inputs() const { return wanted_inputs_; }
  const std::map<int, Layout>& wanted_outputs() const { return wanted_outputs_; }
  bool wants_float32() const { return wants_float32_; }
  bool declined() const { return declined_; }
  const std::string& variant() const { return variant_; }
  bool varies() const { return varies_; }

 private:
  const NodeTypes& types_;
  int threads_;
  absl::string_view choice_;
  Device device_;
  KernelLicence licence_;
  std::shared_ptr<const void> kernel_;
  int64_t workspace_bytes_ = 0;
  std::map<int, Layout> wanted_inputs_, wanted_outputs_;
  bool wants_float32_ = false;
  bool declined_ = false;
  std::string variant_;
  bool varies_ = false;
};

}  // namespace snug
