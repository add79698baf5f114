// Nodes that one of CUDA's libraries may compute, or our own kernel. Which of the two is decided when a network is
// compiled, by types and options alone and for every machine: workspace and layouts are those of a plan that is the
// same with a GPU and without. Where the library is not there, or has no such kernel, our own serves within that plan.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "ops/op_def.h"
#include "ops/prepare_context.h"

namespace snug {

// What PrepareContext::choice may be, where HasCudaChoices. Empty: the library's, or else our own. The library's may be
// followed by a number: "library:3" is the third that its heuristics list.
inline constexpr absl::string_view kLibraryKernel = "library";
inline constexpr absl::string_view kTf32Kernel = "library_tf32";  // float32 factors are rounded, for tensor cores
inline constexpr absl::string_view kFastKernel = "library_fast";  // sums may come in another sequence each time
inline constexpr absl::string_view kTf32FastKernel = "library_tf32_fast";
inline constexpr absl::string_view kOwnKernel = "own";

// Whether a library computes nodes of this op on CUDA, too.
inline bool HasCudaChoices(const OpDef& op) { return op.traits.library_kernel && op.prepare_cuda != nullptr; }

struct CudaChoice {
  bool library = false;
  bool tf32 = false, fast = false;
  int rank = 1;  // among what the library's heuristics list, from 1 on; the last where they list fewer
};

// What the library may have for a node.
struct LibraryOffer {
  bool serves = false;  // a kernel
  bool varies = false;  // also such that do not give the same bits each time
};

// For an op's prepare_cuda. Unimplemented: there is no kernel of that name for the node.
absl::StatusOr<CudaChoice> ChooseCuda(const PrepareContext& c, const LibraryOffer& offer);

// Whether the kernel of that name may give other bits each time.
bool MayVary(absl::string_view name);

// What may be tried in place of the kernel of that name by measuring: neither less exact nor with other bits each time,
// unless that one is.
std::vector<std::string> OtherCudaKernels(absl::string_view name);

}  // namespace snug
