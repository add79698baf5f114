// OpDef: everything the engine may ask about a kind of Node, in one place. A null entry has a stated meaning.
//
// An op is one file, ops/<family>/<stem>.cc (+ .cu): forward op and gradient ops, in the order a reader asks: shapes,
// layer, gradient, cost, kernels, samples, table. SNUG_OPS(stem) defines the table; the build makes the list of files.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/has_cuda.h"

namespace snug {

class InferContext;
class LayerContext;
class GradContext;
class PrepareContext;
class KernelContext;
class SampleBuilder;
struct NodeTypes;

// Which element types a port takes. Every "floating" port of one node has the same dtype unless it says otherwise.
enum class PortType : uint8_t {
  kFloating,  // the node's floating dtype: float32, bfloat16 or float64, the same on all kFloating ports of the node
  kFloat32,   // float32 also in a bfloat16 network (statistics, losses, learning rates); float64 in a float64 network
  kInteger,   // int32 or int64
  kBytes,     // uint8: masks, indices, reserve space
  kAny,
};

struct Port {
  absl::string_view name;
  PortType type = PortType::kFloating;
  bool optional = false;  // inputs: may be absent (an invalid ValueId)
  bool variadic = false;  // the last port only: any number
  // Floating outputs: nothing ever flows back into it (statistics that are kept for the backward pass, metrics).
  bool no_gradient = false;
  // Never channels-last, whatever the node's LayoutRule says (the weights of a convolution).
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
  kPlain,     // every port plain: reorders are inserted around the node
  kAgnostic,  // any layout (elementwise, concat along channels, ...)
  kPrefers,   // as kAgnostic, and runs faster channels-last (convolution, pooling, batch norm): the seeds of the pass
  kConverts,  // takes any layout and gives the one that its options name: reorder
};

struct Traits {
  bool random = false;          // draws random numbers: never merged with another node
  bool side_effect = false;     // never removed
  bool view = false;            // every output is a view (kMustShare)
  bool layer_only = false;      // a layer that becomes Variables or nodes of other ops: there are no nodes of this op
  bool library_kernel = false;  // cpu_fast is a library's (oneDNN): its bits may depend on the number of threads
  LayoutRule layout = LayoutRule::kPlain;
};

inline constexpr int kMostTogether = 32;

struct Cost {
  double flops = 0;
  double bytes = 0;          // read and written at least once each
  double multiply_adds = 0;  // of convolution, dense and matmul (forward), padding counted, no bias
};

using InferFn = absl::Status (*)(InferContext&);
using LayerFn = absl::Status (*)(LayerContext&);
using GradientFn = absl::Status (*)(GradContext&);
using PrepareFn = absl::Status (*)(PrepareContext&);
using ChoicesFn = std::vector<std::string> (*)(const NodeTypes&, int threads);
using CostFn = Cost (*)(const NodeTypes&);
using IndexBoundFn = int64_t (*)(const NodeTypes&, int input);
using RangeFn = std::optional<int64_t> (*)(const NodeTypes&, int port);
using KernelFn = absl::Status (*)(const KernelContext&);
using TogetherFn = absl::Status (*)(absl::Span<const KernelContext>);
using SamplesFn = void (*)(SampleBuilder&);

struct OpDef {
  absl::string_view name;    // as written in the model file: the field of Layer's oneof
  absl::string_view doc;     // one line: the formula. `snug ops` prints it
  std::vector<Port> inputs;  // parameters come after what the user writes
  std::vector<Port> outputs;
  InferFn infer = nullptr;  // required (except layer_only); the only place that may reject a node
  LayerFn layer = nullptr;  // how a layer of the model file becomes nodes and parameters; null: one node of this op
  GradientFn gradient = nullptr;  // adds nodes; null: not differentiable (a gradient that needs it is an error)
  std::vector<Alias> aliases = {};
  Traits traits = {};
  PrepareFn prepare =
      nullptr;  // fast kernel: library objects, workspace, wanted layouts; null: stateless, no workspace
  // What Prepare can build for these types beside the kernel it takes by itself, by name (the implementations of a
  // library, another algorithm); all are right to rounding, and which is fastest is for `snug tune` to measure. Null:
  // nothing.
  ChoicesFn choices = nullptr;
  // Integers on this input lie in [0, bound): random feeds and checks use it; null, or 0: no bound is known.
  IndexBoundFn index_bound = nullptr;
  // Of ops that only move elements, by the types around a node: the byte of input 0 from which on the output lies there
  // as it is (slice, split), or the byte of output 0 from which on the input does (concat); nullopt: the kernel is
  // needed; null: it always is.
  RangeFn output_in_input = nullptr;
  RangeFn input_in_output = nullptr;
  CostFn cost = nullptr;  // null: one flop per output element, bytes of inputs and outputs
  KernelFn cpu =
      nullptr;  // required (except views, layer_only): plain reference, every floating dtype, the oracle of every test
  KernelFn cpu_fast = nullptr;  // float32 and bfloat16; null: the reference serves
  // Asks for the work on k.cuda()'s stream (engine/cuda/cuda_launch.h), without waiting or allocating: every floating
  // dtype, and the layouts that the cpu kernel takes. Null: no CUDA kernel.
  KernelFn cuda = nullptr;
  PrepareFn prepare_cuda = nullptr;  // as prepare, of the kernel `cuda`; null: stateless, no workspace
  // The same for several nodes of this op at once, whose ports have the same dtypes: 1 to kMostTogether. Null: one by
  // one. (ops/lib/cuda_together.h)
  TogetherFn cuda_together = nullptr;
  SamplesFn samples = nullptr;  // required (except layer_only): good and bad cases; drives every generic test
};

}  // namespace snug

// For an op's table: `.cuda = SNUG_IF_CUDA(SoftmaxCuda)`, or a lambda that adds the node's options. Null in builds
// without CUDA, where there is no such function.
#if SNUG_HAS_CUDA
#define SNUG_IF_CUDA(...) __VA_ARGS__
#else
#define SNUG_IF_CUDA(...) nullptr
#endif

// Defines the ops of one file: `SNUG_OPS(softmax) { return {{.name = "softmax", ...}}; }`. The stem is the file's name;
// a mismatch is a link error that names it.
#define SNUG_OPS(stem) std::vector<::snug::OpDef> OpsIn_##stem()
