// What Prepare sees and says, at compile time. It builds the library objects of one node's fast kernel for given types
// and threads, and states the workspace. It may ask for other layouts (packed weights) or for float32; then the
// compiler inserts reorders or casts, and prepares again with the types that were asked for.
#pragma once

#include <absl/strings/string_view.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/device.h"
#include "ops/kernel_row.h"
#include "ops/node_types.h"

namespace snug::core {

// What a kernel may do with its numbers beyond what everybody expects.
struct KernelLicence {
  bool tf32 = false;            // may round float32 factors to 10 bits of mantissa, for tensor cores
  bool fast = false;            // may add in another sequence each time, which gives other bits
  bool split_products = false;  // may compute float32 products piece by piece (ops/kernels/matmul/split_gemm.h)
};

class PrepareContext {
 public:
  // `choice` is one of the names that KernelRow::variants lists; empty: the row's own choice.
  PrepareContext(const NodeTypes& types, int threads, absl::string_view choice = {}, Device device = {},
                 KernelLicence licence = {})
      : types_(types), threads_(threads), choice_(choice), device_(device), licence_(licence) {}

  const NodeTypes& types() const { return types_; }
  int threads() const { return threads_; }
  absl::string_view choice() const { return choice_; }
  Device device() const { return device_; }  // where the kernel will run
  KernelLicence licence() const { return licence_; }
  template <class Message>
  const Message& options() const {
    return types_.options.Get<Message>();
  }

  // Whether another layout of an input costs nothing in a step, as it is made once and kept.
  bool kept(int i) const { return kept_.contains(i); }
  void SetKept(int i) { kept_.insert(i); }

  // Hands over the kernel. It is const from now on, so several steps may share it.
  void SetKernel(std::shared_ptr<const void> kernel) { kernel_ = std::move(kernel); }
  void SetWorkspaceBytes(int64_t bytes) { workspace_bytes_ = bytes; }
  // These ask for another layout on a port. Nothing is built in that round.
  void WantInputLayout(int i, Layout layout) { wanted_inputs_[i] = std::move(layout); }
  void WantOutputLayout(int i, Layout layout) { wanted_outputs_[i] = std::move(layout); }
  // Asks for float32 on every bfloat16 port. Nothing is built in that round either.
  void WantFloat32() { wants_float32_ = true; }
  // Asks for float32 where it takes no cast: a parameter itself in place of its rounded copy, and a result unrounded
  // where updates alone read it. Nothing is built in that round either; in the next one unrounded() is true, and the
  // types say which ports are float32.
  void WantUnrounded() { wants_unrounded_ = true; }
  bool unrounded() const { return unrounded_; }
  void SetUnrounded() { unrounded_ = true; }
  // Says that this row does not take the node, so the next one is tried.
  void Decline(NotServed reason) { declined_ = std::move(reason); }
  // Says what dumps and tunings call what was built, where a row can build several.
  void SetVariant(std::string name) { variant_ = std::move(name); }
  // Says that the kernel may give other bits each time.
  void SetVaries() { varies_ = true; }

  const std::shared_ptr<const void>& kernel() const { return kernel_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const std::map<int, Layout>& wanted_inputs() const { return wanted_inputs_; }
  const std::map<int, Layout>& wanted_outputs() const { return wanted_outputs_; }
  bool wants_float32() const { return wants_float32_; }
  bool wants_unrounded() const { return wants_unrounded_; }
  const std::optional<NotServed>& declined() const { return declined_; }
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
  std::set<int> kept_;
  std::map<int, Layout> wanted_inputs_, wanted_outputs_;
  bool wants_float32_ = false, wants_unrounded_ = false, unrounded_ = false;
  std::optional<NotServed> declined_;
  std::string variant_;
  bool varies_ = false;
};

}  // namespace snug::core
