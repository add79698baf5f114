// What a kernel sees: bound pointers with their types, options, workspace and what Prepare built. Copying it is cheap;
// a kernel allocates nothing.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>

#include "ops/node_types.h"

namespace snug::core {

namespace cuda {
class LaunchContext;
}

class KernelContext {
 public:
  KernelContext(const NodeTypes* types, absl::Span<void* const> inputs, absl::Span<void* const> outputs,
                void* workspace, const void* prepared, int threads, uint64_t random_id,
                const cuda::LaunchContext* cuda = nullptr)
      : types_(types),
        inputs_(inputs),
        outputs_(outputs),
        workspace_(workspace),
        prepared_(prepared),
        threads_(threads),
        random_id_(random_id),
        cuda_(cuda) {}

  const NodeTypes& types() const { return *types_; }
  const ValueType& input_type(int i) const { return types_->input(i); }
  const ValueType& output_type(int i) const { return types_->output(i); }
  int num_inputs() const { return types_->num_inputs(); }
  int num_outputs() const { return types_->num_outputs(); }
  bool has_input(int i) const { return types_->has_input(i); }

  template <class T>
  const T* input(int i) const {
    return static_cast<const T*>(inputs_[static_cast<size_t>(i)]);
  }
  // Returns an input that the op declares as mutated.
  template <class T>
  T* variable(int i) const {
    return static_cast<T*>(inputs_[static_cast<size_t>(i)]);
  }
  template <class T>
  T* output(int i) const {
    return static_cast<T*>(outputs_[static_cast<size_t>(i)]);
  }
  template <class T = void>
  T* workspace() const {
    return static_cast<T*>(workspace_);
  }
  // Returns what Prepare handed to SetKernel.
  template <class T>
  const T& prepared() const {
    return *static_cast<const T*>(prepared_);
  }
  template <class Message>
  const Message& options() const {
    return types_->options.Get<Message>();
  }
  int threads() const { return threads_; }
  uint64_t random_id() const { return random_id_; }
  // Says where CUDA kernels are launched; null on the CPU. If it is not null, pointers are the device's.
  const cuda::LaunchContext* cuda() const { return cuda_; }

 private:
  const NodeTypes* types_;
  absl::Span<void* const> inputs_;
  absl::Span<void* const> outputs_;
  void* workspace_;
  const void* prepared_;
  int threads_;
  uint64_t random_id_;
  const cuda::LaunchContext* cuda_;
};

}  // namespace snug::core
