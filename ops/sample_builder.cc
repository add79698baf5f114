#include "ops/sample_builder.h"

#include <utility>

namespace snug::core {

Sample& Sample::With(Options options) {
  options_ = std::move(options);
  return *this;
}
Sample& Sample::Input(const Shape& shape) {
  inputs_.push_back({.shape = shape});
  return *this;
}
Sample& Sample::Int(const Shape& shape, int64_t low, int64_t high, DType dtype) {
  inputs_.push_back({.shape = shape,
                     .dtype = dtype,
                     .is_integer = true,
                     .low = static_cast<double>(low),
                     .high = static_cast<double>(high),
                     .differentiable = false});
  return *this;
}
Sample& Sample::Bytes(const Shape& shape, int64_t low, int64_t high) { return Int(shape, low, high, DType::kUint8); }
Sample& Sample::Absent() {
  inputs_.push_back({.absent = true, .differentiable = false});
  return *this;
}
Sample& Sample::Range(double low, double high) {
  inputs_.back().low = low;
  inputs_.back().high = high;
  return *this;
}
Sample& Sample::Values(std::vector<double> values) {
  inputs_.back().values = std::move(values);
  return *this;
}
Sample& Sample::AwayFrom(std::vector<double> kinks) {
  inputs_.back().kinks = std::move(kinks);
  return *this;
}
Sample& Sample::Distinct() {
  inputs_.back().distinct = true;
  return *this;
}
Sample& Sample::NoGradient() {
  inputs_.back().differentiable = false;
  return *this;
}
Sample& Sample::As(DType dtype) {
  inputs_.back().dtype = dtype;
  return *this;
}
Sample& Sample::Narrow() {
  inputs_.back().narrow = true;
  return *this;
}
Sample& Sample::Fails(std::string text) {
  infer_error_ = std::move(text);
  return *this;
}
Sample& Sample::FailsAtRun(std::string text) {
  run_error_ = std::move(text);
  return *this;
}
Sample& Sample::Expect(int output, std::vector<double> values) {
  expected_.emplace_back(output, std::move(values));
  return *this;
}
Sample& Sample::ExpectMutated(int input, std::vector<double> values) {
  expected_mutated_.emplace_back(input, std::move(values));
  return *this;
}
Sample& Sample::Tolerance(double float32, double bfloat16) {
  tolerance_float32_ = float32;
  tolerance_bfloat16_ = bfloat16;
  return *this;
}
Sample& Sample::Only(std::vector<DType> dtypes) {
  dtypes_ = std::move(dtypes);
  return *this;
}
Sample& Sample::RandomId(uint64_t id) {
  random_id_ = id;
  return *this;
}
double Sample::tolerance(DType dtype) const {
  return dtype == DType::kBFloat16 ? tolerance_bfloat16_ : tolerance_float32_;
}

}  // namespace snug::core
