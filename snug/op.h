// An op that the program brings: its shapes, its kernel and its gradient. After Network::AddOp the Network can have
// layers of it: network.Layer("s", "swirl", {"x"}, {{"angle", 0.5}}); in a model file, `[snug.custom] { op: "swirl"
// option { name: "angle" number: 0.5 } }`.
//
//   snug::Op cube{.name = "cube", .doc = "y = x^3"};
//   cube.infer = [](const snug::OpCall& call, std::vector<snug::TensorType>* outputs) {
//     outputs->push_back(call.input(0).type());
//     return snug::Status();
//   };
//   cube.kernel = [](const snug::OpCall& call) {
//     const std::span<const float> x = call.input(0).as<const float>();
//     const std::span<float> y = call.output(0).as<float>();
//     for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * x[i] * x[i];
//     return snug::Status();
//   };
//
// The functions must give the same results for the same arguments, whichever thread calls them, and two threads may
// call one at the same time. An exception becomes an error of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "snug/export.h"
#include "snug/status.h"
#include "snug/tensor.h"

namespace snug {
inline namespace v0 {

// What a function of an op can see. Nothing here allocates.
class SNUG_API OpCall {
 public:
  struct State;
  explicit OpCall(const State& state) : state_(state) {}

  int num_inputs() const noexcept;
  int num_outputs() const noexcept;
  // Types are always known; the bytes are there while a kernel or a gradient runs. Parameters come after the layer's
  // inputs.
  Tensor input(int i) const noexcept;
  Tensor output(int i) const noexcept;
  // A gradient reads output gradients and writes input gradients. An output gradient is absent where nothing flows
  // back, an input gradient where nobody needs it.
  Tensor output_gradient(int i) const noexcept;
  Tensor input_gradient(int i) const noexcept;

  // These return the layer's options.
  double number(std::string_view option, double otherwise = 0) const noexcept;
  std::span<const double> numbers(std::string_view option) const noexcept;
  std::string_view text(std::string_view option, std::string_view otherwise = "") const noexcept;

  int threads() const noexcept;  // how many threads a kernel may use

 private:
  const State& state_;
};

struct OpParameter {
  // All elements are `value`; normal with deviation `value`; uniform between -1 / sqrt(fan_in) and 1 / sqrt(fan_in).
  enum class Init : uint8_t { kConstant, kNormal, kUniform };
  std::string name = {};  // "weight" makes the Variable "<layer>.weight"
  std::vector<int64_t> shape = {};
  Init init = Init::kUniform;
  double value = 0;
  int64_t fan_in = 1;
};

struct Op {
  std::string name = {};
  std::string doc = {};
  int inputs = 1;
  int outputs = 1;
  // Returns the types of the outputs, or what is wrong. Required.
  std::function<Status(const OpCall& call, std::vector<TensorType>* outputs)> infer = {};
  // Computes the outputs. Required.
  std::function<Status(const OpCall& call)> kernel = {};
  // Writes all of every input gradient that is present. Without it, training through this op is an error.
  std::function<Status(const OpCall& call)> gradient = {};
  // Says what `gradient` reads in addition to the output gradients. The rest is absent there, because its bytes may be
  // reused by then.
  bool gradient_reads_inputs = true;
  bool gradient_reads_outputs = true;
  // Returns the layer's own parameters. Without it the layer has none.
  std::function<Status(const OpCall& call, std::vector<OpParameter>* parameters)> parameters = {};
  // Whether output 0 may be written over input 0 of the same size. The kernel must then read each element before it
  // writes it.
  bool in_place = false;
};

}  // namespace v0
}  // namespace snug
