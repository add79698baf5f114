#include "interchange/export/export.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <unordered_set>

#include "engine/base/status.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/control/unroll.h"
#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "interchange/export/writer.h"
#include "interchange/onnx.pb.h"
#include "ops/registry.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core::onnx {
namespace {

constexpr size_t kMostListed = 50;

std::map<std::string, Translation> AllTranslations() {
  std::map<std::string, Translation> all;
  for (const auto& translations : {ElementwiseTranslations(), ShapeTranslations(), ImageTranslations(),
                                   ProductTranslations(), NormTranslations()}) {
    for (const NamedTranslation& translation : translations) all.emplace(translation.op, translation.translate);
  }
  return all;
}

// The forward pass for one number of samples.
struct Forward {
  Graph graph;
  // What loops and branches put out, in straight lines now, by the names that the network has for it.
  std::map<std::string, ValueId> unrolled;

  const std::string& NameOf(ValueId value) const {
    for (const auto& [name, its_value] : unrolled) {
      if (its_value == value) return name;
    }
    return graph.value(value).name;
  }
};
absl::StatusOr<Forward> ForwardFor(const proto::Network& network, const SourceMap& locations, int64_t batch) {
  SNUG_ASSIGN_OR_RETURN(Imported imported,
                        Import(network, locations, OpRegistry::Builtin(), {.batch = batch, .training = false}));
  Graph& graph = imported.graph;
  if (!HasControlFlow(graph)) return Forward{std::move(graph), {}};
  // Outputs follow where values are put in the place of others.
  const size_t declared = graph.outputs.size();
  for (NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    if (graph.node(id).subgraphs.empty()) continue;
    for (const ValueId value : graph.node(id).outputs) graph.outputs.push_back({graph.value(value).name, value});
  }
  const OpRegistry& registry = OpRegistry::Builtin();
  const ControlOptions options = {.training = false, .rule = LoopRule::kUnrolled};
  SNUG_RETURN_IF_ERROR(NormalizeControlFlow(imported, registry, options).status());
  SNUG_RETURN_IF_ERROR(UnrollLoops(graph, registry).status());
  Forward forward;
  for (size_t i = declared; i < graph.outputs.size(); ++i) {
    forward.unrolled.emplace(graph.outputs[i].name, graph.outputs[i].value);
  }
  graph.outputs.resize(declared);
  forward.graph = std::move(graph);
  return forward;
}

// Sizes that depend on the number of samples are found again by a factor that no other size has.
int64_t BatchThatStandsOut(const Graph& graph) {
  for (const int64_t prime : {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181}) {
    bool found = false;
    for (size_t i = 0; i < graph.value_capacity() && !found; ++i) {
      for (const int64_t dim : graph.type(ValueId{static_cast<int32_t>(i)}).shape.dims())
        found = found || dim % prime == 0;
    }
    if (!found) return prime;
  }
  return 0;
}

std::string LayerOf(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid()) return "";
  const std::string& name = graph.node(producer).name;
  return name.substr(0, name.find('/'));
}

// Goes back from a value that is one number to the first values that are more: what a loss or a metric reads.
void CollectScores(const Forward& forward, ValueId value, std::vector<std::string>* names, std::set<int32_t>* seen) {
  const Graph& graph = forward.graph;
  if (!seen->insert(value.index).second) return;
  const NodeId producer = graph.value(value).producer;
  if (graph.type(value).shape.rank() > 0 || !producer.valid()) {
    const std::string& name = forward.NameOf(value);
    const bool computed = producer.valid();
    if (computed && std::find(names->begin(), names->end(), name) == names->end()) names->push_back(name);
    return;
  }
  const Node& node = graph.node(producer);
  std::vector<ValueId> numbers;
  for (const ValueId input : node.inputs) {
    if (input.valid() && graph.type(input).shape.rank() == 0 && graph.value(input).producer.valid())
      numbers.push_back(input);
  }
  if (!numbers.empty()) {  // a sum of losses
    for (const ValueId number : numbers) CollectScores(forward, number, names, seen);
    return;
  }
  // Back through the nodes of this layer, by what each reads first.
  const std::string layer = LayerOf(graph, value);
  ValueId at = value;
  while (graph.value(at).producer.valid() && LayerOf(graph, at) == layer &&
         !graph.node(graph.value(at).producer).inputs.empty()) {
    at = graph.node(graph.value(at).producer).inputs[0];
  }
  CollectScores(forward, at, names, seen);
}

std::vector<std::string> DefaultOutputs(const Forward& forward) {
  const Graph& graph = forward.graph;
  std::vector<std::string> names;
  std::set<int32_t> seen;
  for (const ValueId objective : graph.objectives) CollectScores(forward, objective, &names, &seen);
  for (const Output& output : graph.outputs) {
    const bool computed = graph.value(output.value).producer.valid();
    if (graph.type(output.value).shape.rank() == 0 || !computed) {
      CollectScores(forward, output.value, &names, &seen);
    } else {
      seen.insert(output.value.index);
      if (std::find(names.begin(), names.end(), output.name) == names.end()) names.push_back(output.name);
    }
  }
  return names;
}

absl::StatusOr<std::vector<ValueId>> Wanted(const Forward& forward, const std::vector<std::string>& names) {
  std::vector<ValueId> values;
  for (const std::string& name : names) {
    ValueId value;
    for (const Output& output : forward.graph.outputs) {
      if (output.name == name) value = output.value;
    }
    if (const auto found = forward.unrolled.find(name); found != forward.unrolled.end()) value = found->second;
    if (!value.valid()) value = forward.graph.FindValue(name);
    if (!value.valid()) {
      return absl::NotFoundError(absl::StrCat("--fetch=", name, ": the network has no value of that name"));
    }
    values.push_back(value);
  }
  if (values.empty()) {
    return absl::InvalidArgumentError(
        "the network has no objective and no output: name what the model puts out, --fetch=NAME");
  }
  return values;
}

// The nodes that the outputs depend on, in program order, and all values that these read.
struct Needed {
  std::vector<NodeId> nodes;
  std::unordered_set<int32_t> values;
};
Needed NeededFor(const Graph& graph, const std::vector<ValueId>& outputs) {
  Needed needed;
  for (const ValueId output : outputs) needed.values.insert(output.index);
  std::vector<NodeId> order = graph.ProgramOrder();
  std::reverse(order.begin(), order.end());
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const bool read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId v) { return needed.values.count(v.index) > 0; });
    if (!read) continue;
    needed.nodes.push_back(id);
    for (const ValueId input : node.inputs) {
      if (input.valid()) needed.values.insert(input.index);
    }
  }
  std::reverse(needed.nodes.begin(), needed.nodes.end());
  return needed;
}

// Says whether each size of a value is fixed or goes by the number of samples, as sizes of a graph with an open batch
// do. `doubled` is the graph for twice as many.
bool GoesBySamples(const GraphWriter& writer, const Graph& doubled, ValueId value) {
  const Shape& shape = writer.source().type(value).shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (doubled.type(value).shape[i] != shape[i] * (writer.OfBatch(shape[i]) ? 2 : 1)) return false;
  }
  return true;
}

// Says whether a node is the first of which a result does not.
bool JoinsSamples(const GraphWriter& writer, const Graph& doubled, const Node& node) {
  const auto goes = [&](ValueId value) { return !value.valid() || GoesBySamples(writer, doubled, value); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), goes) &&
         !std::all_of(node.outputs.begin(), node.outputs.end(), goes);
}

// Results that a node of ours has beside the first, and that ONNX's do not: what the backward pass needs.
bool LacksOutput(const Graph& graph, const Node& node, const Needed& needed) {
  if (node.op == "split" || node.op == "top_k") return false;
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (needed.values.count(node.outputs[i].index) > 0) return true;
  }
  (void)graph;
  return false;
}

absl::Status AddVariable(GraphWriter& writer, const Variable& variable, const ContentOf& content) {
  const std::string& name = writer.NameOf(variable.value);
  const auto dims = variable.type.shape.dims();
  const std::vector<int64_t> shape(dims.begin(), dims.end());
  if (variable.role == VariableRole::kConstant && variable.init.kind == Initializer::Kind::kBytes) {
    writer.Initializer(name, shape, variable.type.dtype, *variable.init.bytes);
    return absl::OkStatus();
  }
  if (variable.role == VariableRole::kConstant && variable.type.dtype == DType::kFloat32) {
    const std::vector<float> values(static_cast<size_t>(variable.type.shape.num_elements()),
                                    static_cast<float>(variable.init.value));
    writer.Initializer(name, shape, variable.type.dtype,
                       {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    return absl::OkStatus();
  }
  if (variable.role != VariableRole::kParameter && variable.role != VariableRole::kStatistic) {
    return absl::InvalidArgumentError("depends on a state of training");
  }
  SNUG_ASSIGN_OR_RETURN(const std::vector<float> values, content(variable.name));
  if (static_cast<int64_t>(values.size()) != variable.type.shape.num_elements()) {
    return absl::InternalError(absl::StrCat(variable.name, " has ", values.size(), " numbers"));
  }
  writer.Initializer(name, shape, DType::kFloat32,
                     {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  return absl::OkStatus();
}

absl::Status Listed(const std::string& file, const std::vector<std::string>& problems) {
  std::string text = absl::StrCat(file, ": ", problems.size(), problems.size() == 1 ? " thing" : " things",
                                  " cannot be expressed in ONNX:");
  for (size_t i = 0; i < problems.size() && i < kMostListed; ++i) absl::StrAppend(&text, "\n  ", problems[i]);
  if (problems.size() > kMostListed) absl::StrAppend(&text, "\n  ... and ", problems.size() - kMostListed, " more");
  return absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportedOutputs(const proto::Network& network, const SourceMap& locations,
                                                         const ExportOptions& options) {
  if (!options.fetch.empty()) return options.fetch;
  SNUG_ASSIGN_OR_RETURN(const Forward forward, ForwardFor(network, locations, std::max<int64_t>(options.batch, 1)));
  return DefaultOutputs(forward);
}

absl::StatusOr<std::string> ExportModel(const proto::Network& network, const SourceMap& locations,
                                        const ExportOptions& options, const ContentOf& content) {
  SNUG_ASSIGN_OR_RETURN(Forward forward, ForwardFor(network, locations, std::max<int64_t>(options.batch, 1)));
  int64_t batch = 0;
  Graph doubled;  // the forward pass of twice as many samples, if their number is open
  if (options.batch == 0) {
    batch = BatchThatStandsOut(forward.graph);
    if (batch == 0)
      return absl::InvalidArgumentError("no number of samples can be told from the network's sizes: say --batch=N");
    SNUG_ASSIGN_OR_RETURN(forward, ForwardFor(network, locations, batch));
    SNUG_ASSIGN_OR_RETURN(Forward of_twice, ForwardFor(network, locations, 2 * batch));
    doubled = std::move(of_twice.graph);
    if (doubled.value_capacity() != forward.graph.value_capacity()) {
      return absl::InvalidArgumentError("the nodes depend on the number of samples: say --batch=N");
    }
  }
  const Graph& graph = forward.graph;
  const std::vector<std::string> names = options.fetch.empty() ? DefaultOutputs(forward) : options.fetch;
  SNUG_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, Wanted(forward, names));
  const Needed needed = NeededFor(graph, outputs);

  static const std::map<std::string, Translation>& translations =
      *new std::map<std::string, Translation>(AllTranslations());
  GraphWriter writer(graph, batch);
  std::vector<std::string> problems;
  const auto problem = [&](const std::string& what, const absl::Status& status) {
    problems.push_back(absl::StrCat(what, ": ", std::string(status.message())));
  };
  proto::onnx::ModelProto& model = writer.model();
  model.set_ir_version(kExportedIrVersion);
  model.set_producer_name("snug");
  model.add_opset_import()->set_version(kExportedOpset);
  model.mutable_opset_import(0)->set_domain("");
  model.mutable_graph()->set_name(network.name().empty() ? "network" : network.name());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NodeId producer = graph.value(outputs[i]).producer;
    if (std::find(needed.nodes.begin(), needed.nodes.end(), producer) == needed.nodes.end()) {
      return absl::InvalidArgumentError(absl::StrCat(names[i], ": is not computed"));
    }
    writer.Call(outputs[i], names[i]);
  }
  bool counted = false;
  for (const ValueId input : graph.inputs()) {
    if (needed.values.count(input.index) == 0) continue;
    const ValueType& type = graph.type(input);
    writer.AddValueInfo(true, writer.NameOf(input), type);
    if (!counted && type.shape.rank() > 0 && writer.OfBatch(type.shape[0])) {
      writer.CountSamplesBy(input);
      counted = true;
    }
  }
  for (const Variable& variable : graph.variables()) {
    if (needed.values.count(variable.value.index) == 0) continue;
    if (const absl::Status status = AddVariable(writer, variable, content); !status.ok()) {
      problem(absl::StrCat("variable \"", variable.name, "\""), status);
    }
  }
  for (const NodeId id : needed.nodes) {
    const Node& node = graph.node(id);
    const std::string what = absl::StrCat("node \"", node.name, "\" (", node.op, ")");
    const auto it = translations.find(node.op);
    if (it == translations.end()) {
      problem(what, absl::InvalidArgumentError("this op is not exported"));
      continue;
    }
    if (LacksOutput(graph, node, needed)) {
      problem(what, absl::InvalidArgumentError("only its first output is exported"));
      continue;
    }
    ExportContext context(writer, node);
    if (const absl::Status status = it->second(context); !status.ok()) {
      problem(what, status);
    } else if (batch > 0 && JoinsSamples(writer, doubled, node)) {
      problem(what, absl::InvalidArgumentError("joins samples with what there is once: say --batch=N"));
    }
  }
  if (!problems.empty()) return Listed(options.file, problems);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = writer.NameOf(outputs[i]);
    if (name != names[i]) writer.Add("Identity", {name}, {names[i]});  // a value that has two names
    writer.AddValueInfo(false, names[i], graph.type(outputs[i]));
  }
  if (model.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(options.file, ": 2 GiB or more, which an ONNX file cannot be"));
  }
  return model.SerializeAsString();
}

}  // namespace snug::core::onnx
