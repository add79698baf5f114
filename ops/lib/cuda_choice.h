// Nodes that one of CUDA's libraries may compute, or our own kernel. Which of the two is decided when a network is
// compiled, by types and options alone and for every machine: workspace and layouts are those of a plan that is the
// same with a GPU and without. Where the library is not there, or has no such kernel, our own serves within that plan.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "ops/op_def.h"
#include "ops/prepare_context.h"

namespace snug {

// What PrepareContext::choice may be, where HasCudaChoices. Empty: the library's, or else our own.
inline constexpr absl::string_view kLibraryKernel = "library";
inline constexpr absl::string_view kTf32Kernel = "library_tf32";  // float32 factors are rounded, for tensor cores
inline constexpr absl::string_view kOwnKernel = "own";

// Whether a library computes nodes of this op on CUDA, too.
inline bool HasCudaChoices(const OpDef& op) { return op.traits.library_kernel && op.prepare_cuda != nullptr; }

struct CudaChoice {
  bool library = false;
  bool tf32 = false;
};

// For an op's prepare_cuda; `serves`: whether the library may have a kernel for the node. Unimplemented: there is no
// kernel of that name for it.
absl::StatusOr<CudaChoice> ChooseCuda(const PrepareContext& c, bool serves);

}  // namespace snug
