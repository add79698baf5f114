// Runs whole networks on the pretended device without CUDA kernels: the CPU's plain kernel of every op becomes work of
// a stream, as a launch does, with the pointers that it was asked with. So the results must have the CPU's bits, and
// streams, events, graphs, copies and plans are tested alone.
#pragma once

#include <absl/status/statusor.h>

#include "engine/compile/pipeline.h"
#include "ops/registry.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {

// The built-in ops, each with a CUDA kernel, which runs after UseHostKernels.
const OpRegistry& OpsWithHostKernels();

// Makes a network that was compiled with these ops run them on `fake`, which must outlive what becomes of it.
void UseHostKernels(cuda::FakeCuda& fake, Compiled* compiled);

// Compiles with these ops, and calls UseHostKernels.
absl::StatusOr<Compiled> CompileForFake(const LoadedNetwork& loaded, const How& how, cuda::FakeCuda& fake);
std::shared_ptr<const cuda::CudaDevice> OpenFake(const cuda::FakeCuda& fake);

}  // namespace snug::core
