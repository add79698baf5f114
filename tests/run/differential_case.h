// The cases of tests/differential: a network with an optimizer, what its parameters are before the first of three
// steps, and what each step is fed. random_networks.py there makes them and says how they are written.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "tests/testing/parity_golden.h"

namespace snug::core::test {

struct DifferentialCase {
  struct Tensor {
    std::string name;     // in the network
    GoldenTensor golden;  // whose name says what its elements are
  };
  // Of a tensor after the last step: its sum, and its product with numbers that follow from its name.
  struct Digest {
    double sum = 0, product = 0;
  };
  int64_t seed = 0;
  std::vector<Tensor> parameters, feeds;
  std::string network;
  // What PyTorch makes of it, where the case is a golden.
  std::map<std::string, std::vector<double>> curves;  // of each objective and output, one number a step
  std::map<std::string, Digest> digests;              // of each parameter and statistic
};

// A wrong line is an error that names it.
absl::StatusOr<std::vector<DifferentialCase>> ParseDifferentialCases(const std::string& text);

struct DifferentialRun {
  std::map<std::string, std::vector<double>> curves, tensors;
};

// In double, whatever `options` say.
absl::StatusOr<DifferentialRun> Train(const DifferentialCase& test, CompileOptions options);

DifferentialCase::Digest DigestOf(const DifferentialCase& test, const std::string& name,
                                  const std::vector<double>& values);

}  // namespace snug::core::test
