// Whole networks on the pretended device before any kernel is written for it: every op's plain kernel for the CPU is
// work of a stream, as a launch is, with the pointers that it was asked with. So what runs there has to have the CPU's
// bits: streams, events, graphs, copies and plans are tested alone.
#pragma once

#include <absl/status/statusor.h>

#include "engine/compile/pipeline.h"
#include "ops/registry.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug {

// The built-in ops, each with a CUDA kernel, which runs after UseHostKernels.
const OpRegistry& OpsWithHostKernels();

// Compiled with these ops. The pretended device must outlive what it becomes.
void UseHostKernels(cuda::FakeCuda& fake, Compiled* compiled);

// All of it.
absl::StatusOr<Compiled> CompileForFake(const LoadedNetwork& loaded, const How& how, cuda::FakeCuda& fake);
std::shared_ptr<const cuda::CudaDevice> OpenFake(const cuda::FakeCuda& fake);

}  // namespace snug
