// The op conformance suite: what every op must keep to, checked for every op x sample x dtype x layout. The op's file
// brings the samples; nothing here knows any op. main.cc makes one test of each case, named
// `Ops.softmax/last_axis/float32`.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "ops/sample_builder.h"

namespace snug::core::test {

// The samples of a registry's ops.
struct OpSamples {
  const OpDef* op = nullptr;
  SampleBuilder samples;
};
std::deque<OpSamples> CollectSamples(const OpRegistry& registry);

struct ConformanceCase {
  const OpDef* op = nullptr;
  const Sample* sample = nullptr;
  DType dtype = DType::kFloat64;
  Layout layout;

  // Returns a name such as "softmax/last_axis/float32" or "conv/same/bfloat16/channels_last".
  std::string Name() const;
};
std::vector<ConformanceCase> CasesOf(const std::deque<OpSamples>& samples);

using Failures = std::vector<std::string>;

// Checks everything below that applies to the case. No failures: the op conforms.
Failures CheckCase(const OpRegistry& registry, const ConformanceCase& c);

// Checks that inference (or, for a sample that fails at run time, the kernels) rejects the sample with its text.
Failures CheckRejection(const OpRegistry& registry, const ConformanceCase& c);
// Checks that the inferred outputs agree with the op's ports, and that its aliases name ports that exist.
Failures CheckInference(const ConformanceCase& c);
// Checks both kernels. Every byte of the outputs is written and none beside them; inputs stay as they are; neither
// garbage in workspace and outputs, nor the number of threads, nor working in place changes a bit; a gate of 0 changes
// nothing.
Failures CheckKernels(const OpRegistry& registry, const ConformanceCase& c);
// Checks the plain kernel against the sample's known values, and against itself in double and in plain layout; and the
// fast kernel against the plain one.
Failures CheckResults(const OpRegistry& registry, const ConformanceCase& c);
// Checks the gradient: in float64 against central differences, otherwise by fast kernels against that in double.
Failures CheckGradients(const OpRegistry& registry, const ConformanceCase& c);

// Checks what applies of all that to CUDA kernels: results against the plain kernel's, bit for bit if they are bytes;
// that the bits depend on nothing; and the gradient, by CUDA kernels if there are any.
Failures CheckCuda(const OpRegistry& registry, const ConformanceCase& c);
// Runs the CUDA kernel once, as it is.
absl::Status RunCuda(const OpRegistry& registry, const ConformanceCase& c);

}  // namespace snug::core::test
