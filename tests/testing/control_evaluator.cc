#include "tests/testing/control_evaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "proto/internal.pb.h"
#include "tests/testing/graph_evaluator.h"

namespace snug::core::test {
namespace {

using Tensors = std::vector<Tensor>;

absl::StatusOr<Tensors> RunBody(const OpRegistry& registry, const Graph& body, const Tensors& inputs) {
  std::map<ValueId, Tensor> feeds;
  for (size_t i = 0; i < inputs.size(); ++i) feeds[body.inputs()[i]] = inputs[i];
  SNUG_ASSIGN_OR_RETURN(const Tensors values, EvaluateControl(registry, body, feeds));
  Tensors outputs;
  for (const Output& output : body.outputs) outputs.push_back(values[static_cast<size_t>(output.value.index)]);
  return outputs;
}

// Calls set(at) for elements of `type` by what `rows` says of the row that they lie in; one entry is for all.
template <class Set>
void ForRows(const std::vector<bool>& rows, const ValueType& type, const Set& set) {
  const int64_t n = type.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (rows[static_cast<size_t>(i / (n / static_cast<int64_t>(rows.size())))]) set(i);
  }
}

// Calls set(whole, part) for the places of the elements of a slice and of the whole.
template <class Set>
void ForSlice(const ValueType& whole, int axis, int64_t at, const Set& set) {
  int64_t inner = 1;
  for (int i = axis + 1; i < whole.shape.rank(); ++i) inner *= whole.shape[i];
  const int64_t slices = whole.shape[axis];
  const int64_t n = whole.num_elements() / slices;
  for (int64_t i = 0; i < n; ++i) set((i / inner * slices + at) * inner + i % inner, i);
}

bool Any(const std::vector<bool>& rows) { return std::find(rows.begin(), rows.end(), true) != rows.end(); }

void Spoil(const std::vector<bool>& rows, Tensor* tensor) {
  if (!IsFloating(tensor->type.dtype)) return;
  ForRows(rows, tensor->type, [&](int64_t i) { tensor->Set(i, std::numeric_limits<double>::quiet_NaN()); });
}

absl::StatusOr<Tensors> RunLoop(const OpRegistry& registry, const Graph& graph, const Node& node, Tensors inputs) {
  const auto& options = node.options.Get<proto::LoopNode>();
  const Graph& body = *node.subgraphs[0];
  std::vector<double> count;
  if (options.counted()) count = inputs.back().ToDoubles();
  if (options.counted()) inputs.pop_back();
  Tensors outputs;
  for (const auto& carry : options.carry()) outputs.push_back(inputs[static_cast<size_t>(carry.input())]);
  while (outputs.size() < node.outputs.size()) outputs.emplace_back(graph.type(node.outputs[outputs.size()]));
  Tensors feeds = inputs;
  std::vector<bool> runs;  // which rows still run; one entry: all of them, or none
  const auto begin_round = [&](int64_t round) {
    for (int k = 0; k < options.carry_size(); ++k) {
      feeds[static_cast<size_t>(options.carry(k).input())] = outputs[static_cast<size_t>(k)];
    }
    for (const auto& scan : options.scan()) {
      const auto port = static_cast<size_t>(scan.port());
      Tensor slice(body.type(body.inputs()[port]));
      const int64_t at = std::min(scan.reverse() ? options.rounds() - 1 - round : round, options.rounds() - 1);
      ForSlice(inputs[port].type, scan.axis(), std::max<int64_t>(at, 0),
               [&](int64_t whole, int64_t part) { slice.Set(part, inputs[port].At(whole)); });
      feeds[port] = std::move(slice);
    }
    if (options.has_index()) {
      feeds[static_cast<size_t>(options.index())] =
          Tensor::FromDoubles({DType::kInt32, Shape({}), {}}, {static_cast<double>(round)});
    }
  };
  const auto still_runs = [&](int64_t round, const Tensors& made) {
    std::vector<double> condition;
    if (options.has_condition()) condition = made[static_cast<size_t>(options.condition())].ToDoubles();
    if (runs.empty()) runs.assign(std::max({count.size(), condition.size(), size_t{1}}), true);
    for (size_t row = 0; row < runs.size(); ++row) {
      if (!count.empty() && !(count[row] > static_cast<double>(round))) runs[row] = false;
      if (!condition.empty() && condition[row] == 0) runs[row] = false;
    }
    return Any(runs);
  };
  // Samples that have stopped do again what they did in the first round, while others go on. Those that have no round
  // at all do it with zeros in place of their slices.
  Tensors first_round;
  const auto keep_first_round = [&] {
    first_round = feeds;
    if (count.size() <= 1) return;
    std::vector<bool> roundless(count.size());
    for (size_t row = 0; row < count.size(); ++row) roundless[row] = count[row] <= 0;
    for (const auto& scan : options.scan()) {
      Tensor& slice = first_round[static_cast<size_t>(scan.port())];
      const Shape& shape = slice.type.shape;
      if (shape.rank() == 0 || shape[0] != static_cast<int64_t>(count.size())) continue;
      ForRows(roundless, slice.type, [&](int64_t i) { slice.Set(i, 0); });
    }
  };
  const auto repeat_first_round = [&] {
    std::vector<bool> stopped = runs;
    stopped.flip();
    const auto repeat = [&](int port) {
      const auto& rows = options.per_sample();
      if (std::find(rows.begin(), rows.end(), port) == rows.end()) return;
      Tensor& feed = feeds[static_cast<size_t>(port)];
      const Shape& shape = feed.type.shape;
      if (!IsFloating(feed.type.dtype) || shape.rank() == 0 || shape[0] != static_cast<int64_t>(runs.size())) return;
      const Tensor& first = first_round[static_cast<size_t>(port)];
      ForRows(stopped, feed.type, [&](int64_t i) { feed.Set(i, first.At(i)); });
    };
    for (const auto& carry : options.carry()) repeat(carry.input());
    for (const auto& scan : options.scan()) repeat(scan.port());
  };
  for (int64_t round = 0; round < options.rounds(); ++round) {
    begin_round(round);
    if (round == 0) keep_first_round();
    SNUG_ASSIGN_OR_RETURN(Tensors made, RunBody(registry, body, feeds));
    if (!still_runs(round, made)) break;
    if (runs.size() > 1) {
      repeat_first_round();
      SNUG_ASSIGN_OR_RETURN(made, RunBody(registry, body, feeds));
    }
    for (int k = 0; k < options.carry_size(); ++k) {
      const Tensor& next = made[static_cast<size_t>(options.carry(k).output())];
      Tensor& carry = outputs[static_cast<size_t>(k)];
      ForRows(runs, next.type, [&](int64_t i) { carry.Set(i, next.At(i)); });
    }
    for (int k = 0; k < options.collect_size(); ++k) {
      const auto& collect = options.collect(k);
      const Tensor& part = made[static_cast<size_t>(collect.port())];
      Tensor& whole = outputs[static_cast<size_t>(options.carry_size() + k)];
      Tensor kept(part.type);
      ForRows(runs, part.type, [&](int64_t i) { kept.Set(i, part.At(i)); });
      ForSlice(whole.type, collect.axis(), collect.reverse() ? options.rounds() - 1 - round : round,
               [&](int64_t at, int64_t i) { whole.Set(at, kept.At(i)); });
    }
  }
  const bool may_go_on = !runs.empty() && (options.counted() || options.has_condition()) && !options.stop_at_bound();
  if (!may_go_on || !Any(runs)) return outputs;
  // Would it go on? A condition that reads what is scanned ends with that: tests do without it.
  begin_round(options.rounds());
  SNUG_ASSIGN_OR_RETURN(const Tensors made, RunBody(registry, body, feeds));
  if (!still_runs(options.rounds(), made)) return outputs;
  for (Tensor& output : outputs) Spoil(runs, &output);
  return outputs;
}

absl::StatusOr<Tensors> RunBranch(const OpRegistry& registry, const Graph& graph, const Node& node,
                                  const Tensors& inputs) {
  Tensors outputs;
  for (const ValueId output : node.outputs) outputs.emplace_back(graph.type(output));
  const std::vector<double> selector = inputs[0].ToDoubles();
  std::vector<bool> untaken(selector.size(), true);
  for (size_t k = 0; k < node.subgraphs.size(); ++k) {
    std::vector<bool> taken(selector.size());
    for (size_t row = 0; row < taken.size(); ++row) taken[row] = selector[row] == static_cast<double>(k);
    if (!Any(taken)) continue;
    for (size_t row = 0; row < taken.size(); ++row) untaken[row] = untaken[row] && !taken[row];
    SNUG_ASSIGN_OR_RETURN(const Tensors made,
                          RunBody(registry, *node.subgraphs[k], {inputs.begin() + 1, inputs.end()}));
    for (size_t o = 0; o < outputs.size(); ++o) {
      ForRows(taken, made[o].type, [&](int64_t i) { outputs[o].Set(i, made[o].At(i)); });
    }
  }
  for (Tensor& output : outputs) {
    if (Any(untaken)) Spoil(untaken, &output);
  }
  return outputs;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> EvaluateControl(const OpRegistry& registry, const Graph& graph,
                                                    const std::map<ValueId, Tensor>& feeds) {
  Tensors values(graph.value_capacity());
  for (const auto& [id, tensor] : feeds) values[static_cast<size_t>(id.index)] = tensor;
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    const Node& node = graph.node(id);
    if (node.subgraphs.empty()) {
      SNUG_RETURN_IF_ERROR(EvaluateNode(registry, graph, id, {}, &values));
      continue;
    }
    Tensors inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input.valid() ? values[static_cast<size_t>(input.index)] : Tensor());
    }
    SNUG_ASSIGN_OR_RETURN(Tensors outputs, node.op == "loop" ? RunLoop(registry, graph, node, std::move(inputs))
                                                             : RunBranch(registry, graph, node, inputs));
    for (size_t o = 0; o < outputs.size(); ++o) {
      values[static_cast<size_t>(node.outputs[o].index)] = std::move(outputs[o]);
    }
  }
  return values;
}

}  // namespace snug::core::test
