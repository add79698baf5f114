// Reads the goldens of tests/golden/parity and makes their tensors: PyTorch's losses and gradient norms over ten steps,
// and how every parameter and input follows from its name (tests/golden/parity/recipes.py says
// how, make_parity.py the format).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <map>
#include <string>
#include <vector>

#include "engine/base/shape.h"

namespace snug::core::test {

struct GoldenTensor {
  enum class Kind { kUniform, kConstant, kClass };
  std::string name;
  Kind kind = Kind::kConstant;
  double number = 0;  // scale (a power of two), value, or number of classes
  Shape shape;

  // Its elements; every one is exact in float32 too.
  std::vector<double> Values() const;
};

struct GoldenChange {  // of an option that the model file sets to something else
  std::string layer, option;
  std::vector<int64_t> numbers;
};

struct GoldenCurve {  // one entry for each step
  std::vector<double> losses, gradient_norms;
};

struct ParityGolden {
  int64_t batch = 0;
  double learning_rate = 0;
  double momentum = 0;  // of SGD
  double beta1 = 0;     // of Adam; 0: it is SGD
  std::vector<GoldenChange> changes;
  std::vector<GoldenTensor> inputs;      // with the batch dimension
  std::vector<GoldenTensor> parameters;  // under PyTorch's names
  GoldenCurve in_double;
  std::map<std::string, GoldenCurve> in_float;  // by variant: kernels that round differently
};

// NAME KIND NUMBER DIM...
absl::StatusOr<GoldenTensor> ParseGoldenTensor(absl::Span<const absl::string_view> fields);
// A wrong line is an error that names it.
absl::StatusOr<ParityGolden> ParseParityGolden(const std::string& text);
absl::StatusOr<ParityGolden> ReadParityGolden(const std::string& path);

}  // namespace snug::core::test
