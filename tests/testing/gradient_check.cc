#include "tests/testing/gradient_check.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/base/random.h"
#include "engine/base/status.h"
#include "ops/grad_context.h"
#include "ops/graph_builder.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

constexpr double kTolerance = 1e-6;      // of the largest entry
constexpr double kFloor = 1e-11;         // what is left of rounding where the gradient is zero
constexpr double kStep = 5e-4;           // times max(1, |x|); four of them stay within a kink's distance
constexpr int64_t kMostElements = 24;    // of each input are checked one by one; all of them together along a direction
constexpr uint64_t kWeightStream = 100;  // keeps the weights' numbers apart from the inputs'
constexpr uint64_t kDirectionStream = 200;

// The plain double node as a function of its inputs: the weighted sum of its outputs.
class Objective {
 public:
  Objective(NodeRunner runner, std::vector<Tensor> inputs, std::vector<std::vector<double>> weights)
      : runner_(std::move(runner)), inputs_(std::move(inputs)), weights_(std::move(weights)) {}

  const Tensor& input(int i) const { return inputs_[static_cast<size_t>(i)]; }

  // d/dt of the objective at x_i + t * direction: five-point central differences, whose error is O(step^4). Outputs are
  // subtracted one by one, before they are summed, so that little is lost to cancellation.
  absl::StatusOr<double> Derivative(int i, const std::vector<double>& direction, double step) {
    std::array<std::vector<std::vector<double>>, 4> outputs;
    const std::array<double, 4> offsets = {1, -1, 2, -2};
    for (size_t k = 0; k < 4; ++k) {
      Tensor& input = inputs_[static_cast<size_t>(i)];
      const Tensor saved = input;
      for (size_t j = 0; j < direction.size(); ++j) {
        if (direction[j] == 0) continue;
        const int64_t element = static_cast<int64_t>(j);
        input.Set(element, saved.At(element) + offsets[k] * step * direction[j]);
      }
      absl::StatusOr<NodeRun> run = runner_.Run(inputs_);
      input = saved;
      if (!run.ok()) return run.status();
      for (size_t o = 0; o < weights_.size(); ++o) {
        outputs[k].push_back(weights_[o].empty() ? std::vector<double>() : run->outputs[o].ToDoubles());
      }
    }
    double sum = 0;
    for (size_t o = 0; o < weights_.size(); ++o) {
      for (size_t j = 0; j < weights_[o].size(); ++j) {
        const double near = outputs[0][o][j] - outputs[1][o][j];
        const double far = outputs[2][o][j] - outputs[3][o][j];
        sum += weights_[o][j] * (8 * near - far);
      }
    }
    return sum / (12 * step);
  }

 private:
  NodeRunner runner_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<double>> weights_;  // empty: that output does not count
};

// All elements of a small input; of a large one, those with the largest gradient of all, and others at random.
std::vector<int64_t> ElementsToCheck(const std::vector<double>& gradient, uint64_t seed) {
  std::vector<int64_t> all(gradient.size());
  std::iota(all.begin(), all.end(), 0);
  const int64_t count = static_cast<int64_t>(all.size());
  if (count <= kMostElements) return all;
  const auto largest =
      std::max_element(gradient.begin(), gradient.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  std::vector<int64_t> chosen = {largest - gradient.begin()};
  for (const double u : RandomValues(seed, kMostElements - 1, 0, static_cast<double>(count))) {
    chosen.push_back(static_cast<int64_t>(u));
  }
  return chosen;
}

// One input's gradient: element by element, and along a random direction that all elements have a part in.
absl::Status CompareWithDifferences(Objective& objective, int i, const std::vector<double>& gradient, uint64_t seed,
                                    std::vector<std::string>* failures) {
  const ValueType& type = objective.input(i).type;
  const size_t count = gradient.size();
  double largest = 0;
  std::vector<std::pair<int64_t, double>> numeric;
  for (const int64_t element : ElementsToCheck(gradient, seed)) {
    std::vector<double> direction(count);
    direction[static_cast<size_t>(element)] = 1;
    const double step = kStep * std::max(1.0, std::abs(objective.input(i).At(element)));
    SNUG_ASSIGN_OR_RETURN(const double derivative, objective.Derivative(i, direction, step));
    numeric.emplace_back(element, derivative);
    largest = std::max(largest, std::abs(derivative));
  }
  for (const auto& [element, derivative] : numeric) {
    const double found = gradient[static_cast<size_t>(element)];
    if (std::abs(found - derivative) <= kTolerance * largest + kFloor) continue;
    failures->push_back(absl::StrFormat("gradient of input %d element %s: central differences say %.12g, found %.12g",
                                        i, IndexText(type.shape, element), derivative, found));
    if (failures->size() > 5) return absl::OkStatus();
  }

  std::vector<double> direction = RandomValues(MixKeys(seed, kDirectionStream), static_cast<int64_t>(count), -1, 1);
  double expected_scale = 0;
  double along = 0;
  for (size_t j = 0; j < count; ++j) {
    direction[j] = direction[j] < 0 ? -1 : 1;
    along += direction[j] * gradient[j];
    expected_scale += gradient[j] * gradient[j];
  }
  expected_scale = std::sqrt(expected_scale);
  SNUG_ASSIGN_OR_RETURN(const double derivative, objective.Derivative(i, direction, kStep));
  if (!(std::abs(along - derivative) <= kTolerance * std::max(expected_scale, largest) + kFloor)) {
    failures->push_back(absl::StrFormat(
        "gradient of input %d along a random direction of all its elements: central differences say %.12g, found %.12g",
        i, derivative, along));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<bool> DifferentiableInputs(const OpDef& op, const Sample& sample, const NodeTypes& types) {
  std::vector<bool> result;
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    result.push_back(op.gradient != nullptr && types.present[i] && sample.inputs()[i].differentiable &&
                     IsFloating(types.inputs[i].dtype) && types.inputs[i].num_elements() > 0);
  }
  return result;
}

std::vector<bool> DifferentiableOutputs(const OpDef& op, const NodeTypes& types) {
  std::vector<bool> result;
  for (size_t o = 0; o < types.outputs.size(); ++o) {
    const Port& port = op.outputs[std::min(o, op.outputs.size() - 1)];
    result.push_back(IsFloating(types.outputs[o].dtype) && !port.no_gradient);
  }
  return result;
}

absl::StatusOr<GradientGraph> BuildGradientGraph(const OpRegistry& registry, const OpDef& op, const Sample& sample,
                                                 const NodeTypes& types, const std::vector<bool>& wanted_inputs,
                                                 const std::vector<bool>& weighted_outputs) {
  GradientGraph result;
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    result.inputs.push_back(types.present[i] ? result.graph.AddInput(absl::StrCat("input", i), types.inputs[i])
                                             : ValueId());
  }
  GraphBuilder builder(registry, &result.graph);
  SNUG_ASSIGN_OR_RETURN(const NodeId node, builder.Add({.name = "node",
                                                        .op = std::string(op.name),
                                                        .options = types.options,
                                                        .inputs = result.inputs,
                                                        .random_id = sample.random_id()}));
  result.outputs = result.graph.node(node).outputs;
  for (size_t o = 0; o < result.outputs.size(); ++o) {
    const ValueType type = result.graph.type(result.outputs[o]);
    result.output_grads.push_back(weighted_outputs[o] ? result.graph.AddInput(absl::StrCat("weights", o), type)
                                                      : ValueId());
  }
  GradContext context(builder, node, result.output_grads, wanted_inputs);
  SNUG_RETURN_IF_ERROR(Annotate(op.gradient(context), "gradient"));
  SNUG_RETURN_IF_ERROR(Annotate(context.status(), "gradient"));
  result.input_grads = context.input_grads();
  return result;
}

std::map<ValueId, Tensor> FeedsOf(const GradientGraph& gradient, const OpDef& op, const Sample& sample,
                                  const NodeTypes& types) {
  std::map<ValueId, Tensor> feeds;
  std::vector<Tensor> values = SampleValues(op, sample, types);
  for (size_t i = 0; i < values.size(); ++i) {
    if (gradient.inputs[i].valid()) feeds.emplace(gradient.inputs[i], std::move(values[i]));
  }
  for (size_t o = 0; o < gradient.output_grads.size(); ++o) {
    const ValueId id = gradient.output_grads[o];
    if (!id.valid()) continue;
    const ValueType& type = gradient.graph.type(id);
    const uint64_t seed = MixKeys(SampleSeed(op, sample), kWeightStream + o);
    feeds.emplace(id, Tensor::FromDoubles(type, RandomValues(seed, type.num_elements(), -1, 1)));
  }
  return feeds;
}

absl::StatusOr<std::vector<Tensor>> EvaluateGradient(const OpRegistry& registry, const GradientGraph& gradient,
                                                     const std::map<ValueId, Tensor>& feeds, KernelChoice choice) {
  SNUG_ASSIGN_OR_RETURN(std::vector<Tensor> values, EvaluateGraph(registry, gradient.graph, feeds, {.choice = choice}));
  std::vector<Tensor> result;
  for (size_t i = 0; i < gradient.inputs.size(); ++i) {
    if (!gradient.inputs[i].valid()) {
      result.emplace_back();
      continue;
    }
    ValueType type = gradient.graph.type(gradient.inputs[i]);
    const ValueId id = gradient.input_grads[i];
    if (!id.valid()) {  // no path
      result.emplace_back(type);
      continue;
    }
    const Tensor& found = values[static_cast<size_t>(id.index)];
    if (found.type.dtype != type.dtype || !(found.type.shape == type.shape)) {
      return absl::InternalError(
          absl::StrCat("the gradient of input ", i, " is ", found.type.ToString(), ", the input ", type.ToString()));
    }
    result.push_back(found);
  }
  return result;
}

std::vector<std::string> CheckGradient(const OpRegistry& registry, const OpDef& op, const Sample& sample,
                                       const Layout& layout) {
  std::vector<std::string> failures;
  const auto check = [&]() -> absl::Status {
    NodeTypes types = SampleTypes(op, sample, DType::kFloat64, layout);
    SNUG_RETURN_IF_ERROR(InferTypes(op, &types));
    std::vector<bool> wanted = DifferentiableInputs(op, sample, types);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && types.inputs[i].dtype == DType::kFloat64;
    const std::vector<bool> outputs = DifferentiableOutputs(op, types);
    if (std::count(wanted.begin(), wanted.end(), true) == 0) return absl::OkStatus();
    if (std::count(outputs.begin(), outputs.end(), true) == 0) return absl::OkStatus();

    // Gradients flowing into all outputs, and into each alone.
    std::vector<std::vector<bool>> weightings = {outputs};
    for (size_t o = 0; o < outputs.size() && std::count(outputs.begin(), outputs.end(), true) > 1; ++o) {
      if (!outputs[o]) continue;
      std::vector<bool> alone(outputs.size());
      alone[o] = true;
      weightings.push_back(std::move(alone));
    }
    for (const std::vector<bool>& weighted : weightings) {
      SNUG_ASSIGN_OR_RETURN(GradientGraph gradient, BuildGradientGraph(registry, op, sample, types, wanted, weighted));
      const std::map<ValueId, Tensor> feeds = FeedsOf(gradient, op, sample, types);
      SNUG_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                            EvaluateGradient(registry, gradient, feeds, KernelChoice::kPlain));

      SNUG_ASSIGN_OR_RETURN(NodeRunner runner,
                            NodeRunner::Make(registry, op, types, KernelChoice::kPlain, 1, sample.random_id()));
      std::vector<std::vector<double>> weights(weighted.size());
      for (size_t o = 0; o < weighted.size(); ++o) {
        if (weighted[o]) weights[o] = feeds.at(gradient.output_grads[o]).ToDoubles();
      }
      Objective objective(std::move(runner), SampleValues(op, sample, types), std::move(weights));
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (!wanted[i]) continue;
        SNUG_RETURN_IF_ERROR(CompareWithDifferences(objective, static_cast<int>(i), found[i].ToDoubles(),
                                                    MixKeys(SampleSeed(op, sample), i), &failures));

        // Asked for alone, the gradient is the same.
        std::vector<bool> only(wanted.size());
        only[i] = true;
        if (only == wanted) continue;
        SNUG_ASSIGN_OR_RETURN(GradientGraph pruned, BuildGradientGraph(registry, op, sample, types, only, weighted));
        for (size_t j = 0; j < only.size(); ++j) {
          if (j != i && pruned.input_grads[j].valid()) {
            failures.push_back(absl::StrCat("only input ", i, "'s gradient is wanted, but input ", j, "'s is built"));
          }
        }
        SNUG_ASSIGN_OR_RETURN(
            const std::vector<Tensor> alone,
            EvaluateGradient(registry, pruned, FeedsOf(pruned, op, sample, types), KernelChoice::kPlain));
        const auto difference =
            FindDifference(types.inputs[i].shape, alone[i].ToDoubles(), found[i].ToDoubles(), 1e-12);
        if (difference.has_value()) {
          failures.push_back(absl::StrCat("gradient of input ", i, " wanted alone: ", *difference));
        }
      }
    }
    return absl::OkStatus();
  };
  const absl::Status status = check();
  if (!status.ok()) failures.push_back(std::string(status.message()));
  return failures;
}

}  // namespace snug::core::test
