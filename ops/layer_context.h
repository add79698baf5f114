// What an op's `layer` hook sees: one layer of the model file, to be turned into parameters and nodes. The importer
// implements it.
//
//   absl::Status DenseLayer(LayerContext& c) {
//     const int64_t in = c.type(c.input(0)).shape[...];
//     std::vector<ValueId> inputs = {c.input(0), c.Parameter({.name = "weight", .shape = {units, in}, .fan_in = in,
//     .fan_out = units})}; c.SetOutput(0, c.Op("dense", inputs, c.options_handle())); return c.status();
//   }
#pragma once

#include <string>
#include <vector>

#include "ops/op_context.h"

namespace snug::core {

// What a layer asks for; the model file's `param` entries and initialisers override it.
struct ParameterSpec {
  enum class Init : uint8_t { kTorchLinear, kConstant, kNormal };
  std::string name;  // "weight" makes the Variable "<layer>.weight"; "" gives it the layer's own name
  Shape shape;
  Init init = Init::kTorchLinear;
  double value = 0;    // for kConstant and kNormal
  int64_t fan_in = 1;  // for Xavier, He and kTorchLinear
  int64_t fan_out = 1;
  Options initializer = {};  // a proto::Initializer from the layer's own options, which goes before `init` and `value`
};

class LayerContext : public OpContext {
 public:
  virtual int num_inputs() const = 0;
  virtual ValueId input(int i) const = 0;
  // Checks the number of inputs, for hooks that look at them before they hand them to a node, which would check it.
  absl::Status CheckInputs(int expected) const;
  // Returns all inputs. A node that gets them says what is wrong with their number.
  std::vector<ValueId> inputs() const {
    std::vector<ValueId> all;
    all.reserve(static_cast<size_t>(num_inputs()));
    for (int i = 0; i < num_inputs(); ++i) all.push_back(input(i));
    return all;
  }
  virtual const Options& options_handle() const = 0;
  template <class Message>
  const Message& options() const {
    return options_handle().Get<Message>();
  }
  virtual bool training() const = 0;

  // These make Variables of this layer. They are float32 in a bfloat16 network; Op() inserts the cast where a port
  // wants bfloat16.
  virtual ValueId Parameter(ParameterSpec spec) = 0;
  // Appends the Parameters that a norm multiplies by and adds: "weight", of ones, and "bias", of zeros.
  void AppendScaleAndShift(const Shape& shape, std::vector<ValueId>* inputs);
  virtual ValueId Statistic(absl::string_view name, const Shape& shape, double initial) = 0;
  // Makes a Variable that never changes. `values` has one number for all elements, or one for each.
  virtual ValueId ConstantValue(absl::string_view name, DType dtype, const Shape& shape,
                                std::vector<double> values) = 0;
  // Returns the state of the random numbers: a uint64-as-int64 pair [seed, step] that random ops read.
  virtual ValueId RandomState() = 0;
  // In training, adds a node that mutates Variables (statistics) once the step is known to be good: the gate is
  // appended to its inputs.
  virtual void Update(absl::string_view op, std::vector<ValueId> inputs, Options options) = 0;

  virtual void SetOutput(int i, ValueId value) = 0;
  virtual DType floating() const = 0;  // the precision of the network

 protected:
  using OpContext::OpContext;
  ~LayerContext() = default;
};

}  // namespace snug::core
