// oneDNN, as ops see it: kernels that are built at compile time (Prepare) and run on bound pointers. No dnnl type shows
// here; ops/kernels/*/onednn.h make kernels of one kind each, and only files named onednn* know the library's API
// (2.6 to 3.x). Include these headers under `#if SNUG_HAS_ONEDNN`.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/dtype.h"
#include "ops/prepare_context.h"

namespace snug::core::onednn {

std::string Version();  // the version of the library that runs, such as "2.6.0"

// Says whether oneDNN has fast kernels for this element type on this machine (bfloat16 wants AVX-512).
bool Supports(DType dtype);
// Says whether this machine does products of bfloat16 faster than float32's: by AMX, or AMD's AVX-512. Intel's
// instructions for them that are no AMX were measured at half the speed of float32's (docs/benchmarks/bfloat16.md), and
// oneDNN without these is slower still.
bool MultipliesBFloat16();
bool HasAmx();

// One oneDNN primitive with its memory descriptions. It allocates nothing of ours when it runs; its scratchpad is the
// caller's workspace. Steps that share a kernel take turns.
class Kernel {
 public:
  virtual ~Kernel() = default;

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Returns which implementation the library chose ("brgconv:avx512_core"), for dumps and benchmarks.
  virtual const char* implementation() const = 0;
  // `arguments` stand in the order that the kernel's maker states. Inputs are not written to.
  virtual absl::Status Run(absl::Span<const void* const> arguments, void* workspace) const = 0;

 protected:
  explicit Kernel(int64_t workspace_bytes) : workspace_bytes_(workspace_bytes) {}

 private:
  int64_t workspace_bytes_;
};
using KernelPtr = std::shared_ptr<const Kernel>;

// For Prepare: says whether the row leaves the node to the next one, because the library has nothing for it, and tells
// `c` so. Any other error is the node's, and so is the lack of an implementation that a tuning asks for.
bool Declines(PrepareContext& c, const absl::Status& made);

}  // namespace snug::core::onednn
