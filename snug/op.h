// An op that the program brings: its shapes, its kernel and its gradient. A Network is told of it (Network::AddOp), and
// has layers of it from then on: network.Layer("s", "swirl", {"x"}, {{"angle", 0.5}}); in a model file,
// `[snug.custom] { op: "swirl" option { name: "angle" number: 0.5 } }`.
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
// The functions must give the same results for the same arguments, whichever thread calls them; two threads may call
// one at once. What they throw becomes an error of the step.
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

// What a function of an op sees. Nothing here allocates.
class SNUG_API OpCall {
 public:
  struct State;
  explicit OpCall(const State& state) : state_(state) {}

  int num_inputs() const noexcept;
  int num_outputs() const noexcept;
  // Types are always there; bytes while a kernel or a gradient runs. Parameters come after the layer's inputs.
  Tensor input(int i) const noexcept;
  Tensor output(int i) const noexcept;
  // While a gradient runs: from the first, absent where nothing flows back, into the second, absent where nobody asks.
  Tensor output_gradient(int i) const noexcept;
  Tensor input_gradient(int i) const noexcept;

  // The layer's options.
  double number(std::string_view option, double otherwise = 0) const noexcept;
  std::span<const double> numbers(std::string_view option) const noexcept;
  std::string_view text(std::string_view option, std::string_view otherwise = "") const noexcept;

  int threads() const noexcept;  // that a kernel may use

 private:
  const State& state_;
};

struct OpParameter {
  enum class Init : uint8_t { kConstant, kNormal, kUniform };  // of value; deviation value; 1 / sqrt(fan_in) both ways
  std::string name = {};                                       // "weight": the Variable is "<layer>.weight"
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
  // Says what comes out, or what is wrong. Required.
  std::function<Status(const OpCall& call, std::vector<TensorType>* outputs)> infer = {};
  // Required.
  std::function<Status(const OpCall& call)> kernel = {};
  // Writes every input gradient that is present, all of it. None: training through this op is an error.
  std::function<Status(const OpCall& call)> gradient = {};
  // What `gradient` reads beside the output gradients; the rest is absent there, and its bytes are free by then.
  bool gradient_reads_inputs = true;
  bool gradient_reads_outputs = true;
  // The layer's own parameters. None: it has none.
  std::function<Status(const OpCall& call, std::vector<OpParameter>* parameters)> parameters = {};
  // Output 0 may be written over input 0, of the same size: the kernel reads each element before it writes it.
  bool in_place = false;
};

}  // namespace v0
}  // namespace snug
