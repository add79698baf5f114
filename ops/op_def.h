// OpDef: everything the engine may ask about a kind of Node, in one place. A null entry has a stated meaning.
//
// An op is one file, ops/<family>/<stem>.cc (+ .cu). It holds the forward op and the gradient ops in the order in which
// a reader asks: shapes, layer, gradient, cost, kernels, samples, table. SNUG_OPS(stem) defines the table; the build
// makes the list of files.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/has_cuda.h"
#include "ops/kernel_row.h"

namespace snug::core {

class InferContext;
class LayerContext;
class GradContext;
class BroadcastView;
class Options;
class SampleBuilder;
struct FusedReduction;
enum class Activation : uint8_t;
struct NodeTypes;

// Says which element types a port takes. Every "floating" port of one node has the same dtype unless it says otherwise.
enum class PortType : uint8_t {
  kFloating,  // the node's floating dtype: float32, bfloat16 or float64, the same on all kFloating ports of the node
  kFloat32,   // float32 also in a bfloat16 network (statistics, losses, learning rates); float64 in a float64 network
  kInteger,   // int32 or int64
  kBytes,     // uint8: masks, indices, reserve space
  kAny,
  kKept,  // what an update changes: as kFloat32, or bfloat16 where a training keeps nothing wider
};

struct Port {
  absl::string_view name;
  PortType type = PortType::kFloating;
  bool optional = false;  // for inputs: may be absent (an invalid ValueId)
  bool variadic = false;  // for the last port only: stands for any number of values
  // Nothing ever flows back into this floating output (statistics that are kept for the backward pass, metrics).
  bool no_gradient = false;
  // The port is never channels-last, whatever the node's LayoutRule says (the weights of a convolution).
  bool plain_layout = false;
};

struct Alias {
  enum class Kind : uint8_t {
    kMayShare,   // output may lie on the input's bytes: the kernel works in place when it does
    kMustShare,  // output is a view of the input: owns no bytes, no kernel call
    kMutates,    // input is a Variable that the kernel writes; `output` is unused
  };
  Kind kind;
  int output = 0;
  int input = 0;
};

// What the layout pass may do with a node's values of full rank: the highest rank among its inputs, if that is 3 to 5.
// Inputs of that rank get one common layout, and inference gives it to the outputs of that rank; `plain_layout` ports
// and all other ranks (a [channels, 1, 1] that is broadcast, the result of a reduction) stay plain.
enum class LayoutRule : uint8_t {
  kPlain,     // every port is plain: reorders are inserted around the node
  kAgnostic,  // any layout will do (elementwise, concat along channels, ...)
  kPrefers,   // like kAgnostic, but faster channels-last (convolution, pooling, ...): the layout pass starts here
  kConverts,  // takes any layout and gives the one that its options name: reorder
};

struct Traits {
  bool random = false;       // draws random numbers: never merged with another node
  bool side_effect = false;  // never removed
  bool view = false;         // every output is a view (kMustShare)
  bool layer_only = false;   // a layer that becomes Variables or nodes of other ops: there are no nodes of this op
  // Its nodes have sub-graphs (loop, branch). The importer and the compiler make them, without inference, and the
  // compiler gives them gradients, kernels and costs, or puts straight lines of other nodes in their place.
  bool control = false;
  LayoutRule layout = LayoutRule::kPlain;

  // Whether no node of the op ever runs.
  bool without_nodes() const { return layer_only || control; }
};

struct Cost {
  double flops = 0;
  double bytes = 0;          // read and written at least once each
  double multiply_adds = 0;  // in forward convolution, dense and matmul; padding counts, bias does not
};

// How an op computes each element of its one output from one element of each input. Such an op may be a member of fused
// kernels, which are compiled at run time.
struct ElementwiseForm {
  // Returns the element in C++ (ops/kit/expression.h); `operands` has the operands' elements with commas between them.
  // Null: the op is not elementwise.
  std::string (*expression)(const NodeTypes&, absl::string_view operands) = nullptr;
  // Says how an operand lies under the output; null: it is broadcast along the first axes.
  BroadcastView (*operand_view)(const NodeTypes&, int operand) = nullptr;
};

// Names the op that computes this one and an activation of its result in one sweep, and makes its options.
struct WithActivation {
  absl::string_view op;  // empty: there is none
  Options (*options)(const Options&, Activation) = nullptr;
};

using InferFn = absl::Status (*)(InferContext&);
using LayerFn = std::function<absl::Status(LayerContext&)>;  // may have state: what a program brought
using GradientFn = absl::Status (*)(GradContext&);
using CostFn = Cost (*)(const NodeTypes&);
using IndexBoundFn = int64_t (*)(const NodeTypes&, int input);
using RangeFn = std::optional<int64_t> (*)(const NodeTypes&, int port);
using ReductionFn = FusedReduction (*)(const NodeTypes&);
using SamplesFn = void (*)(SampleBuilder&);

struct OpDef {
  absl::string_view name;    // as written in the model file: the field of Layer's oneof
  absl::string_view doc;     // one line: the formula. `snug ops` prints it
  std::vector<Port> inputs;  // parameters come after what the user writes
  std::vector<Port> outputs;
  InferFn infer = nullptr;  // required (except without_nodes()); the only place that may reject a node
  LayerFn layer = nullptr;  // how a layer of the model file becomes nodes and parameters; null: one node of this op
  GradientFn gradient = nullptr;  // adds nodes; null: not differentiable (a gradient that needs it is an error)
  std::vector<Alias> aliases = {};
  Traits traits = {};
  // Says that integers on this input lie in [0, bound), for random feeds and checks. Null, or 0: no bound is known.
  IndexBoundFn index_bound = nullptr;
  // These are for ops that only move elements. They return the byte of input 0 from which on the output lies there as
  // it is (slice, split), or the byte of output 0 from which on the input does (concat); nullopt: the kernel is needed.
  // Null: it always is.
  RangeFn output_in_input = nullptr;
  RangeFn input_in_output = nullptr;
  CostFn cost = nullptr;  // null: one flop per output element, bytes of inputs and outputs
  ElementwiseForm elementwise = {};
  // What the op does as the reduction that ends a fused kernel (ops/kernels/reduce/reduce.h); null: it cannot be one.
  ReductionFn reduction = nullptr;
  Activation activation = {};       // the activation that this op is (ops/activation.h); kIdentity: it is none
  Activation activation_grad = {};  // the activation whose gradient this op computes from y and dy
  WithActivation with_activation = {};
  std::vector<KernelRow> kernels = {};  // required (except views, without_nodes()): "plain" is the last one on the CPU
  SamplesFn samples = nullptr;  // required (except without_nodes()): good and bad cases; drives every generic test

  // Returns the rows of one device, in order of preference.
  std::vector<const KernelRow*> KernelsOn(Device::Kind device) const;
  const KernelRow* FindKernel(Device::Kind device, absl::string_view kernel) const;  // null: there is no such kernel
  // Returns the reference; null: there is nothing to run.
  const KernelRow* plain() const { return FindKernel(Device::Kind::kCpu, "plain"); }
};

}  // namespace snug::core

// For an op's table: `.run = SNUG_IF_CUDA(SoftmaxCuda)`, or with a lambda that adds the node's options. It is null in
// builds without CUDA, which do not have the function.
#if SNUG_HAS_CUDA
#define SNUG_IF_CUDA(...) __VA_ARGS__
#else
#define SNUG_IF_CUDA(...) nullptr
#endif

// Defines the ops of one file: `SNUG_OPS(softmax) { return {{.name = "softmax", ...}}; }`. The stem is the file's name
// and that of its namespace, snug::core::ops::softmax, in which names cannot clash with other files'. A mismatch is a
// link error that names it.
#define SNUG_OPS(stem) std::vector<::snug::core::OpDef> OpsIn_##stem()
