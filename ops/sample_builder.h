// Samples: good and bad cases of one op, written beside it. They drive the conformance suite (tests/ops): shape
// inference against kernels, gradients against central differences, fast kernels against plain ones, in place against
// out of place, run twice and equal, expected error texts.
//
//   void Samples(SampleBuilder& s) {
//     s.Case("last_axis").Input({4, 7});
//     s.Case("labels").Input({4, 7}).Int({4}, 0, 7);
//     s.Case("bad_axis").Input({4}).With(ParseOptions<proto::Softmax>("axis: 2")).Fails("axis 2");
//   }
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/options.h"
#include "engine/base/shape.h"
#include "engine/graph/value_type.h"

namespace snug::core {

struct SampleInput {
  Shape shape;
  std::optional<DType> dtype;  // none: the type that the port asks for (the run's floating dtype)
  bool absent = false;
  bool is_integer = false;
  double low = -1, high = 1;   // uniform in [low, high)
  std::vector<double> values;  // if given, exactly these are used
  std::vector<double> kinks;   // numbers are kept at least 0.05 away from these
  bool distinct = false;       // all elements differ by at least 0.01 (maxima have no ties)
  bool differentiable = true;  // gradient is checked (floating inputs only)
  bool narrow = false;         // a port that is usually float32 gets the run's floating dtype
};

class Sample {
 public:
  explicit Sample(std::string name) : name_(std::move(name)) {}

  Sample& With(Options options);
  // Inputs are added in port order; the modifiers below act on the last one.
  Sample& Input(const Shape& shape);
  Sample& Int(const Shape& shape, int64_t low, int64_t high, DType dtype = DType::kInt32);  // [low, high)
  Sample& Bytes(const Shape& shape, int64_t low = 0, int64_t high = 256);
  Sample& Absent();
  Sample& Range(double low, double high);
  Sample& Values(std::vector<double> values);
  Sample& AwayFrom(std::vector<double> kinks);
  Sample& Distinct();
  Sample& NoGradient();
  Sample& As(DType dtype);
  Sample& Narrow();

  // The node is rejected with InvalidArgument, and the message contains `text`.
  Sample& Fails(std::string text);
  // The kernel, not inference, rejects the data, and the message contains `text`.
  Sample& FailsAtRun(std::string text);
  // States the known result of output i. It is checked to 1e-12 relative in double, and to the tolerance in float32.
  Sample& Expect(int output, std::vector<double> values);
  // States the same for an input that the op mutates, after the run.
  Sample& ExpectMutated(int input, std::vector<double> values);
  // Sets how far a fast kernel may be from the plain one, relative to the largest entry. The defaults are 2e-5 for
  // float32 and 2e-2 for bfloat16.
  Sample& Tolerance(double float32, double bfloat16);
  // Tries only these floating dtypes instead of all three.
  Sample& Only(std::vector<DType> dtypes);
  Sample& RandomId(uint64_t id);

  const std::string& name() const { return name_; }
  const std::vector<SampleInput>& inputs() const { return inputs_; }
  const Options& options() const { return options_; }
  const std::string& infer_error() const { return infer_error_; }
  const std::string& run_error() const { return run_error_; }
  const std::vector<std::pair<int, std::vector<double>>>& expected() const { return expected_; }
  const std::vector<std::pair<int, std::vector<double>>>& expected_mutated() const { return expected_mutated_; }
  double tolerance(DType dtype) const;
  const std::vector<DType>& dtypes() const { return dtypes_; }
  uint64_t random_id() const { return random_id_; }

 private:
  std::string name_;
  Options options_;
  std::vector<SampleInput> inputs_;
  std::string infer_error_, run_error_;
  std::vector<std::pair<int, std::vector<double>>> expected_, expected_mutated_;
  double tolerance_float32_ = 2e-5, tolerance_bfloat16_ = 2e-2;
  std::vector<DType> dtypes_ = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};
  uint64_t random_id_ = 7;
};

class SampleBuilder {
 public:
  Sample& Case(absl::string_view name) { return cases_.emplace_back(std::string(name)); }
  const std::deque<Sample>& cases() const { return cases_; }

 private:
  std::deque<Sample> cases_;  // a deque, so that references stay valid
};

}  // namespace snug::core
