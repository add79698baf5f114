// The op conformance suite: what every op must keep to, checked for every op x sample x dtype x layout. The op's file
// brings the samples; nothing here knows any op. main.cc makes a test of each case, named
// `Ops.softmax/last_axis/float32`.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ops/registry.h"
#include "ops/sample_builder.h"

namespace snug::test {

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

  // "softmax/last_axis/float32", "conv/same/bfloat16/channels_last"
  std::string Name() const;
};
std::vector<ConformanceCase> CasesOf(const std::deque<OpSamples>& samples);

using Failures = std::vector<std::string>;

// Everything below, as far as it applies to the case. Empty: the op conforms.
Failures CheckCase(const OpRegistry& registry, const ConformanceCase& c);

// Inference (or, for a sample that fails at run time, the kernels) rejects the sample with its text.
Failures CheckRejection(const OpRegistry& registry, const ConformanceCase& c);
// The inferred outputs agree with the op's ports, and its aliases name ports that exist.
Failures CheckInference(const ConformanceCase& c);
// Both kernels: every byte of the outputs is written and none beside them; inputs stay as they are; neither garbage in
// workspace and outputs, nor the number of threads, nor working in place changes a bit; a gate of 0 changes nothing.
Failures CheckKernels(const OpRegistry& registry, const ConformanceCase& c);
// The plain kernel against the sample's known values and against itself in double and in plain layout, and the fast one
// against the plain one.
Failures CheckResults(const OpRegistry& registry, const ConformanceCase& c);
// float64: the gradient against central differences. Otherwise: the gradient by fast kernels against that in double.
Failures CheckGradients(const OpRegistry& registry, const ConformanceCase& c);

// What applies of all that to CUDA kernels: results against the plain kernel, bit for bit where they are bytes; bits
// that depend on nothing; and the gradient, by CUDA kernels where there are any.
Failures CheckCuda(const OpRegistry& registry, const ConformanceCase& c);
// The CUDA kernel once, as it is.
absl::Status RunCuda(const OpRegistry& registry, const ConformanceCase& c);

}  // namespace snug::test
