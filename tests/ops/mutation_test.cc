// Tests that the conformance suite sees a small mistake. Every gradient and every kernel in turn is made wrong by 0.1
// percent; some case of some op must then fail.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/graph_builder.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kit/dispatch.h"
#include "tests/ops/conformance.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

constexpr double kFactor = 1.001;

// What a wrapped function needs. It is global, because most entries of an OpDef are plain function pointers.
struct Wrapped {
  const OpDef* op = nullptr;
  KernelFn kernel = nullptr;
  int port = 0;  // the input whose gradient is wrong, or the output; for an input that a kernel mutates: -1 - input
};
Wrapped wrapped;

template <class T>
void Multiply(T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<Accumulator<T>>(values[i]) * kFactor);
}

absl::Status ScaleKernel(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = k.input_type(0).num_elements();
    std::copy_n(k.input<T>(0), count, k.output<T>(0));
    Multiply(k.output<T>(0), count);
    return absl::OkStatus();
  });
}

OpDef ScaleOp() {
  return {.name = "mutation_scale",
          .inputs = {{"x"}},
          .outputs = {{"y"}},
          .infer =
              [](InferContext& c) {
                c.SetOutput(0, c.input(0));
                return absl::OkStatus();
              },
          .traits = {.layout = LayoutRule::kAgnostic},
          .kernels = {{.name = "plain", .run = ScaleKernel}},
          .samples = [](SampleBuilder&) {}};
}

absl::Status WrongGradient(GradContext& g) {
  SNUG_RETURN_IF_ERROR(wrapped.op->gradient(g));
  if (wrapped.port >= g.num_inputs()) return absl::OkStatus();
  const ValueId grad = g.input_grads()[static_cast<size_t>(wrapped.port)];
  if (grad.valid()) g.SetInputGrad(wrapped.port, g.Op("mutation_scale", {grad}));
  return g.status();
}

bool GateIsClosed(const KernelContext& k) {
  for (int i = 0; i < k.num_inputs(); ++i) {
    const std::vector<Port>& ports = wrapped.op->inputs;
    if (static_cast<size_t>(i) < ports.size() && ports[static_cast<size_t>(i)].name == "gate" && k.has_input(i)) {
      return *k.input<uint8_t>(i) == 0;
    }
  }
  return false;
}

absl::Status WrongKernel(const KernelContext& k) {
  SNUG_RETURN_IF_ERROR(wrapped.kernel(k));
  if (wrapped.port < 0) {
    const int input = -1 - wrapped.port;
    if (!k.has_input(input) || !IsFloating(k.input_type(input).dtype) || GateIsClosed(k)) return absl::OkStatus();
    return DispatchFloating(k.input_type(input).dtype, [&](auto zero) {
      using T = decltype(zero);
      T* const values = k.variable<T>(input);
      const int64_t count = k.input_type(input).num_elements();
      Multiply(values, count);
      const bool empty = std::all_of(values, values + count, [](T value) { return static_cast<double>(value) == 0; });
      if (empty) std::fill_n(values, count, static_cast<T>(kFactor - 1));  // a factor does not show in zeros
      return absl::OkStatus();
    });
  }
  if (wrapped.port >= k.num_outputs() || !IsFloating(k.output_type(wrapped.port).dtype)) return absl::OkStatus();
  const ValueType& type = k.output_type(wrapped.port);
  if (OwnFormatOf(type.layout) != nullptr) {
    Multiply(k.output<float>(wrapped.port), type.size_bytes() / static_cast<int64_t>(sizeof(float)));
    return absl::OkStatus();
  }
  // What other packed bytes mean is the library's secret.
  if (k.output_type(wrapped.port).layout.kind == Layout::Kind::kPacked) return absl::OkStatus();
  return DispatchFloating(k.output_type(wrapped.port).dtype, [&](auto zero) {
    Multiply(k.output<decltype(zero)>(wrapped.port), k.output_type(wrapped.port).num_elements());
    return absl::OkStatus();
  });
}

// Returns all builtin ops, of which one is replaced.
OpRegistry RegistryWith(const OpDef& changed) {
  OpRegistry registry;
  std::vector<OpDef> ops = {ScaleOp()};
  for (const OpDef* op : OpRegistry::Builtin().all()) ops.push_back(op->name == changed.name ? changed : *op);
  SNUG_CHECK_OK(registry.AddAll("mutation_test", std::move(ops)));
  return registry;
}

const std::vector<ConformanceCase>& Cases() {
  static const auto* const samples = new std::deque<OpSamples>(CollectSamples(OpRegistry::Builtin()));
  static const auto* const cases = new std::vector<ConformanceCase>(CasesOf(*samples));
  return *cases;
}

bool IsGood(const ConformanceCase& c) { return c.sample->infer_error().empty() && c.sample->run_error().empty(); }

// Says whether any case of `op_name` that `wanted` picks fails in `registry`.
template <class Wanted>
bool SomeCaseFails(const OpRegistry& registry, absl::string_view op_name, Wanted&& wanted) {
  for (ConformanceCase c : Cases()) {
    if (c.op->name != op_name || !IsGood(c) || !wanted(c)) continue;
    c.op = registry.Find(op_name);
    if (!CheckCase(registry, c).empty()) return true;
  }
  return false;
}

// Maps an op to those ops whose gradients use it, by the gradient nodes of all samples.
const std::map<std::string, std::set<std::string>>& UsersInGradients() {
  static const auto* const users = [] {
    auto* result = new std::map<std::string, std::set<std::string>>;
    for (const ConformanceCase& c : Cases()) {
      if (!IsGood(c) || c.dtype != DType::kFloat64 || !c.layout.plain() || c.op->gradient == nullptr) continue;
      NodeTypes types = SampleTypes(*c.op, *c.sample, c.dtype);
      SNUG_CHECK_OK(InferTypes(*c.op, &types));
      const std::vector<bool> wanted = DifferentiableInputs(*c.op, *c.sample, types);
      const std::vector<bool> weighted = DifferentiableOutputs(*c.op, types);
      if (std::count(weighted.begin(), weighted.end(), true) == 0) continue;
      const auto graph = BuildGradientGraph(OpRegistry::Builtin(), *c.op, *c.sample, types, wanted, weighted);
      SNUG_CHECK_OK(graph.status());
      for (const NodeId id : graph->graph.ProgramOrder()) {
        const Node& node = graph->graph.node(id);
        if (node.phase == Phase::kBackward) (*result)[node.op].insert(std::string(c.op->name));
      }
    }
    return result;
  }();
  return *users;
}

// Returns the ops that use this one. Those of libraries use `reorder`, because they ask for packed layouts.
std::set<std::string> UsersOf(absl::string_view op_name) {
  std::set<std::string> users;
  if (const auto it = UsersInGradients().find(std::string(op_name)); it != UsersInGradients().end()) users = it->second;
  if (op_name != "reorder") return users;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    const std::vector<const KernelRow*> rows = op->KernelsOn(Device::Kind::kCpu);
    const bool of_library =
        std::any_of(rows.begin(), rows.end(), [](const KernelRow* row) { return !row->library.empty(); });
    if (of_library) users.insert(std::string(op->name));
  }
  return users;
}

// Says whether a case of the op itself fails, or one of an op that uses it.
bool SuiteFails(const OpRegistry& registry, absl::string_view op_name) {
  // bfloat16 would round a thousandth away.
  const auto wide = [](const ConformanceCase& c) { return c.dtype != DType::kBFloat16; };
  if (SomeCaseFails(registry, op_name, wide)) return true;
  const std::set<std::string> users = UsersOf(op_name);
  return std::any_of(users.begin(), users.end(),
                     [&](const std::string& user) { return SomeCaseFails(registry, user, wide); });
}

// Returns the largest absolute gradient of an input over all samples: 0 if nothing ever flows back into it.
double LargestGradient(const OpDef& op, size_t input) {
  double largest = 0;
  for (const ConformanceCase& c : Cases()) {
    if (c.op->name != op.name || !IsGood(c) || c.dtype != DType::kFloat64 || !c.layout.plain()) continue;
    NodeTypes types = SampleTypes(op, *c.sample, c.dtype);
    SNUG_CHECK_OK(InferTypes(op, &types));
    std::vector<bool> wanted(types.inputs.size());
    const std::vector<bool> weighted = DifferentiableOutputs(op, types);
    if (input >= wanted.size() || !DifferentiableInputs(op, *c.sample, types)[input] ||
        std::count(weighted.begin(), weighted.end(), true) == 0) {
      continue;
    }
    wanted[input] = true;
    const auto graph = BuildGradientGraph(OpRegistry::Builtin(), op, *c.sample, types, wanted, weighted);
    SNUG_CHECK_OK(graph.status());
    const auto gradients =
        EvaluateGradient(OpRegistry::Builtin(), *graph, FeedsOf(*graph, op, *c.sample, types), KernelChoice::kPlain);
    SNUG_CHECK_OK(gradients.status());
    for (const double value : (*gradients)[input].ToDoubles()) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

size_t MostInputs(const OpDef& op) {
  size_t most = 0;
  for (const ConformanceCase& c : Cases()) {
    if (c.op->name == op.name) most = std::max(most, c.sample->inputs().size());
  }
  return most;
}

TEST(Mutation, AGradientWrongByAThousandthIsSeen) {
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    if (op->gradient == nullptr) continue;
    for (size_t input = 0; input < MostInputs(*op); ++input) {
      if (LargestGradient(*op, input) == 0) continue;
      wrapped = {.op = op, .port = static_cast<int>(input)};
      OpDef changed = *op;
      changed.gradient = WrongGradient;
      EXPECT_TRUE(SomeCaseFails(RegistryWith(changed), op->name,
                                [](const ConformanceCase& c) { return c.dtype == DType::kFloat64; }))
          << op->name << ": the gradient of input " << input << " times " << kFactor << " passes the suite";
    }
  }
}

// Returns the ports whose content a kernel computes: floating outputs, and floating inputs that it mutates (as -1 -
// input).
std::set<int> ComputedPorts(const OpDef& op) {
  std::set<int> ports;
  for (const ConformanceCase& c : Cases()) {
    if (c.op->name != op.name || !IsGood(c)) continue;
    NodeTypes types = SampleTypes(op, *c.sample, c.dtype);
    SNUG_CHECK_OK(InferTypes(op, &types));
    for (int o = 0; o < types.num_outputs(); ++o) {
      if (IsFloating(types.output(o).dtype)) ports.insert(o);
    }
    for (const Alias& alias : op.aliases) {
      if (alias.kind == Alias::Kind::kMutates && types.has_input(alias.input) &&
          IsFloating(types.input(alias.input).dtype)) {
        ports.insert(-1 - alias.input);
      }
    }
  }
  return ports;
}

// Makes the plain kernels wrong, or each of those that come before them.
void ExpectKernelFaultsSeen(bool plain) {
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    for (size_t row = 0; row < op->kernels.size(); ++row) {
      const KernelRow& kernel = op->kernels[row];
      if (kernel.device != Device::Kind::kCpu || (kernel.name == "plain") != plain) continue;
      for (const int port : ComputedPorts(*op)) {
        wrapped = {.op = op, .kernel = kernel.run, .port = port};
        OpDef changed = *op;
        changed.kernels[row].run = WrongKernel;
        EXPECT_TRUE(SuiteFails(RegistryWith(changed), op->name))
            << op->name << ": a kernel \"" << kernel.name << "\" that computes "
            << (port < 0 ? absl::StrCat("input ", -1 - port) : absl::StrCat("output ", port)) << " times " << kFactor
            << " passes the suite; a sample with Expect() or ExpectMutated() would see it";
      }
    }
  }
}

TEST(Mutation, APlainKernelWrongByAThousandthIsSeen) { ExpectKernelFaultsSeen(/*plain=*/true); }
TEST(Mutation, AFastKernelWrongByAThousandthIsSeen) { ExpectKernelFaultsSeen(/*plain=*/false); }

TEST(Samples, EveryOpHasGoodOnesAndEveryInferenceBadOnes) {
  std::set<std::string> good;
  std::set<InferFn> rejecting;  // a gradient op often shares the inference of its forward op
  for (const ConformanceCase& c : Cases()) {
    if (IsGood(c)) {
      good.insert(std::string(c.op->name));
    } else {
      rejecting.insert(c.op->infer);
    }
  }
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    if (op->traits.without_nodes()) continue;
    EXPECT_TRUE(good.contains(std::string(op->name))) << op->name << " has no good sample";
    // With a single input shapes cannot disagree, so there may be nothing to reject.
    const bool can_fail = op->inputs.size() > 1 || (op->inputs.size() == 1 && op->inputs[0].variadic);
    if (can_fail) {
      EXPECT_TRUE(rejecting.contains(op->infer)) << op->name << " has no bad sample";
    }
  }
}

}  // namespace
}  // namespace snug::core::test
