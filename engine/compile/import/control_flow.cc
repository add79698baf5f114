#include "engine/compile/import/control_flow.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/compile/import/subnetwork.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

using Subnetworks = std::vector<std::unique_ptr<SubnetworkImporter>>;

constexpr int64_t kMostRounds = (int64_t{1} << 31) - 1;  // their numbers are int32

absl::Status ErrorAbout(absl::string_view option, int k, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kOption, .name = std::string(option), .index = k},
               absl::InvalidArgumentError(absl::StrCat(option, ": ", message)));
}

absl::Status ErrorAboutInput(int k, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kInput, .index = k},
               absl::InvalidArgumentError(absl::StrCat("input ", k, ": ", message)));
}

bool IsInteger(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// How many rows decide for themselves: the elements of a count, condition or selector that is no single number.
int64_t RowsOf(const Shape& shape) { return shape.num_elements() == 1 ? 1 : shape.num_elements(); }
bool IsNumberOrRows(const Shape& shape) { return shape.num_elements() == 1 || shape.rank() == 1; }
bool HasRows(const ValueType& type, int64_t rows) {
  return rows == 1 || (type.shape.rank() > 0 && type.shape[0] == rows);
}

class ControlImporter {
 public:
  ControlImporter(ImportState& state, const proto::Layer& layer, std::vector<ValueId> inputs, const SourceLoc& loc)
      : state_(state), layer_(layer), inputs_(std::move(inputs)), loc_(loc) {}

  absl::StatusOr<LayersImporter::Outputs> Loop();
  absl::StatusOr<LayersImporter::Outputs> Branch();

 private:
  const ValueType& type(size_t input) const { return state_.graph().type(inputs_[input]); }
  absl::Status FindBody(const std::string& name, int k, const std::string& scope);
  absl::Status ReadRoles(const proto::Loop& options);
  absl::Status CheckLoopInputs(const proto::Loop& options);
  absl::Status ReadScans(const proto::Loop& options);
  absl::Status ReadCollects(const proto::Loop& options);
  absl::Status CheckCarries(const proto::Loop& options) const;
  absl::Status CheckRows(const proto::Loop& options) const;
  absl::Status CastVariable(size_t input);
  void AddLoopInputs();
  absl::StatusOr<std::vector<ValueType>> LoopOutputs() const;
  absl::Status CheckBranchInputs(const proto::Branch& options) const;
  absl::Status CheckBranchOutputs() const;
  std::vector<ValueId> AddNode(std::vector<ValueId> inputs, Options options, std::vector<ValueType> types);

  SubnetworkImporter& body() { return *bodies_[0]; }
  const SubnetworkImporter& body() const { return *bodies_[0]; }
  // Which of the layer's inputs feeds this input of the body, which is not the one for the index.
  size_t FedBy(int input) const {
    return static_cast<size_t>(input - (node_.has_index() && input > node_.index() ? 1 : 0));
  }

  ImportState& state_;
  const proto::Layer& layer_;
  std::vector<ValueId> inputs_;
  const SourceLoc& loc_;
  Subnetworks bodies_;
  proto::LoopNode node_;
};

absl::Status ControlImporter::FindBody(const std::string& name, int k, const std::string& scope) {
  SNUG_ASSIGN_OR_RETURN(
      auto body, SubnetworkImporter::Find(state_, layer_, name, k, absl::StrCat(layer_.name(), ".", scope), loc_));
  bodies_.push_back(std::move(body));
  return absl::OkStatus();
}

// Finds by their names which inputs and outputs of the body are what.
absl::Status ControlImporter::ReadRoles(const proto::Loop& options) {
  std::vector<bool> taken(static_cast<size_t>(body().num_inputs()), false);
  const auto take = [&](absl::string_view option, int k, const std::string& name) -> absl::StatusOr<int> {
    SNUG_ASSIGN_OR_RETURN(const int input, body().InputNumber(option, k, name));
    if (taken[static_cast<size_t>(input)]) {
      return ErrorAbout(option, k, absl::StrCat("the body's input \"", name, "\" has a part already"));
    }
    taken[static_cast<size_t>(input)] = true;
    return input;
  };
  for (int k = 0; k < options.carry_size(); ++k) {
    proto::LoopNode::Carry& carry = *node_.add_carry();
    SNUG_ASSIGN_OR_RETURN(const int input, take("carry", k, options.carry(k).input()));
    SNUG_ASSIGN_OR_RETURN(const int output, body().OutputNumber("carry", k, options.carry(k).output()));
    carry.set_input(input);
    carry.set_output(output);
  }
  for (int k = 0; k < options.scan_size(); ++k) {
    SNUG_ASSIGN_OR_RETURN(const int input, take("scan", k, options.scan(k).input()));
    node_.add_scan()->set_port(input);
  }
  for (int k = 0; k < options.collect_size(); ++k) {
    SNUG_ASSIGN_OR_RETURN(const int output, body().OutputNumber("collect", k, options.collect(k).output()));
    node_.add_collect()->set_port(output);
  }
  if (options.has_index()) {
    SNUG_ASSIGN_OR_RETURN(const int input, take("index", 0, options.index()));
    node_.set_index(input);
  }
  if (options.has_condition()) {
    SNUG_ASSIGN_OR_RETURN(const int output, body().OutputNumber("condition", 0, options.condition()));
    node_.set_condition(output);
  }
  node_.set_counted(options.counted());
  node_.set_stop_at_bound(options.stop_at_bound());
  if (node_.carry_size() + node_.collect_size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "puts nothing out: name a carry, as carry { input: \"h\" output: \"h_next\" }, or collect an output");
}

absl::Status ControlImporter::CheckLoopInputs(const proto::Loop& options) {
  std::vector<std::string> names;
  for (int i = 0; i < body().num_inputs(); ++i) {
    if (!node_.has_index() || i != node_.index()) names.push_back(body().InputName(i));
  }
  if (options.counted()) names.push_back("the count");
  if (inputs_.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", names.size(), names.size() == 1 ? " input" : " inputs",
                                                   " for the body \"", body().name(), "\" (",
                                                   absl::StrJoin(names, ", "), "), found ", inputs_.size()));
  }
  if (!options.counted()) return absl::OkStatus();
  const ValueType& count = type(inputs_.size() - 1);
  if (IsInteger(count.dtype) && IsNumberOrRows(count.shape)) return absl::OkStatus();
  return ErrorAboutInput(
      static_cast<int>(inputs_.size()) - 1,
      absl::StrCat("the count: expected one integer, or one for each sample, found ", count.ToString()));
}

absl::Status ControlImporter::ReadScans(const proto::Loop& options) {
  if (options.has_times() && (options.times() < 1 || options.times() > kMostRounds)) {
    return ErrorAbout("times", 0, absl::StrCat("expected 1 to ", kMostRounds, ", found ", options.times()));
  }
  for (int k = 0; k < options.scan_size(); ++k) {
    const proto::Scan& scan = options.scan(k);
    const ValueType& whole = type(FedBy(node_.scan(k).port()));
    const int rank = whole.shape.rank();
    const int64_t axis = scan.axis() < 0 ? scan.axis() + rank : scan.axis();
    if (axis < 0 || axis >= rank) {
      return ErrorAbout("scan", k,
                        absl::StrCat("axis ", scan.axis(), ": \"", scan.input(), "\" is scanned along one of ", rank,
                                     rank == 1 ? " axis" : " axes", ", of ", whole.ToString()));
    }
    const int64_t slices = whole.shape[static_cast<int>(axis)];
    if (k == 0) node_.set_rounds(slices);
    if (slices != node_.rounds()) {
      return ErrorAbout(
          "scan", k,
          absl::StrCat("\"", scan.input(), "\" has ", slices, " slices along axis ", axis, ", but \"",
                       options.scan(0).input(), "\" has ", node_.rounds(), ": what is scanned together has as many"));
    }
    node_.mutable_scan(k)->set_axis(static_cast<int32_t>(axis));
    node_.mutable_scan(k)->set_reverse(scan.reverse());
  }
  if (!options.has_times() && options.scan_size() == 0) {
    return absl::InvalidArgumentError(
        "expected times, how many rounds there are or at most are, as nothing is scanned");
  }
  if (options.has_times() && options.scan_size() > 0 && options.times() != node_.rounds()) {
    return ErrorAbout("times", 0,
                      absl::StrCat(options.times(), " rounds, but \"", options.scan(0).input(), "\" has ",
                                   node_.rounds(), " slices: leave times out, or slice it first"));
  }
  if (options.has_times()) node_.set_rounds(options.times());
  return absl::OkStatus();
}

absl::Status ControlImporter::CheckCarries(const proto::Loop& options) const {
  for (int k = 0; k < node_.carry_size(); ++k) {
    const ValueType& first = type(FedBy(node_.carry(k).input()));
    const ValueType& later = body().OutputType(node_.carry(k).output());
    const std::string found =
        absl::StrCat("\"", options.carry(k).input(), "\" begins as ", first.ToString(), ", but the body's \"",
                     options.carry(k).output(), "\" is ", later.ToString());
    if (first.dtype != later.dtype)
      return ErrorAbout("carry", k, found + ": a carry keeps its dtype; a cast layer converts");
    if (!(first.shape == later.shape)) return ErrorAbout("carry", k, found + ": a carry keeps its shape");
  }
  return absl::OkStatus();
}

absl::Status ControlImporter::ReadCollects(const proto::Loop& options) {
  for (int k = 0; k < node_.collect_size(); ++k) {
    const proto::Collect& collect = options.collect(k);
    const ValueType& part = body().OutputType(node_.collect(k).port());
    const int rank = part.shape.rank() + 1;
    const int64_t axis = collect.axis() < 0 ? collect.axis() + rank : collect.axis();
    if (axis < 0 || axis >= rank) {
      return ErrorAbout("collect", k,
                        absl::StrCat("axis ", collect.axis(), ": \"", collect.output(), "\" of ", part.ToString(),
                                     " is collected along axis ", 0, " to ", rank - 1));
    }
    node_.mutable_collect(k)->set_axis(static_cast<int32_t>(axis));
    node_.mutable_collect(k)->set_reverse(collect.reverse());
  }
  return absl::OkStatus();
}

// Where samples stop by themselves, everything that the loop puts out must have a row for each.
absl::Status ControlImporter::CheckRows(const proto::Loop& options) const {
  int64_t rows = 1;
  std::string who;
  if (node_.counted()) {
    rows = RowsOf(type(inputs_.size() - 1).shape);
    who = absl::StrCat("the count has ", rows, " numbers");
  }
  if (node_.has_condition()) {
    const ValueType& condition = body().OutputType(node_.condition());
    if (!IsNumberOrRows(condition.shape)) {
      return ErrorAbout("condition", 0,
                        absl::StrCat("expected one number, or one for each sample, found ", condition.ToString()));
    }
    if (node_.counted() && !(condition.shape == type(inputs_.size() - 1).shape)) {
      return ErrorAbout("condition", 0,
                        absl::StrCat("expected the shape of the count, ", type(inputs_.size() - 1).shape.ToString(),
                                     ", found ", condition.shape.ToString()));
    }
    rows = RowsOf(condition.shape);
    who = absl::StrCat("the condition has ", rows, " numbers");
  }
  const auto check = [&](absl::string_view option, int k, const std::string& name, int port) {
    const ValueType& type = body().OutputType(port);
    if (HasRows(type, rows)) return absl::OkStatus();
    return ErrorAbout(option, k,
                      absl::StrCat("\"", name, "\" is ", type.ToString(), ", but ", who, ": expected as many rows"));
  };
  for (int k = 0; k < node_.carry_size(); ++k) {
    SNUG_RETURN_IF_ERROR(check("carry", k, options.carry(k).output(), node_.carry(k).output()));
  }
  for (int k = 0; k < node_.collect_size(); ++k) {
    SNUG_RETURN_IF_ERROR(check("collect", k, options.collect(k).output(), node_.collect(k).port()));
  }
  return absl::OkStatus();
}

// A float32 Variable is read in the network's precision, as every layer reads it.
absl::Status ControlImporter::CastVariable(size_t input) {
  ValueId& value = inputs_[input];
  if (state_.precision != DType::kBFloat16 || !state_.IsOfVariable(value) || type(input).dtype != DType::kFloat32) {
    return absl::OkStatus();
  }
  ValueId& cast = state_.casts[value];
  if (!cast.valid()) {
    SNUG_ASSIGN_OR_RETURN(const NodeId node,
                          state_.builder.Add({.name = absl::StrCat(layer_.name(), "/input", input, ".bfloat16"),
                                              .op = "cast",
                                              .options = proto::CastTo(state_.precision),
                                              .inputs = {value},
                                              .loc = loc_}));
    cast = state_.graph().node(node).outputs[0];
  }
  value = cast;
  return absl::OkStatus();
}

void ControlImporter::AddLoopInputs() {
  const bool any_per_sample =
      std::any_of(inputs_.begin(), inputs_.end(), [&](ValueId input) { return state_.IsPerSample(input); });
  for (int i = 0; i < body().num_inputs(); ++i) {
    if (node_.has_index() && i == node_.index()) {
      body().AddInput({DType::kInt32, Shape({}), {}}, node_.rounds() + 1, /*of_variable=*/false, /*per_sample=*/false);
      continue;
    }
    const ValueId input = inputs_[FedBy(i)];
    ValueType type = state_.graph().type(input);
    int64_t max_value = state_.graph().value(input).max_value;
    bool of_variable = state_.IsOfVariable(input);
    bool per_sample = state_.IsPerSample(input);
    for (const proto::LoopNode::Carry& carry : node_.carry()) {
      if (carry.input() != i) continue;
      max_value = 0;  // what bounds the first value of a carry need not bound the later ones
      of_variable = false;
      per_sample = any_per_sample;
    }
    for (const proto::LoopNode::Along& scan : node_.scan()) {
      if (scan.port() != i) continue;
      std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
      dims.erase(dims.begin() + scan.axis());
      type.shape = Shape(dims);
      of_variable = false;
      per_sample = per_sample && scan.axis() != 0;
    }
    body().AddInput(type, max_value, of_variable, per_sample);
    if (per_sample) node_.add_per_sample(i);
  }
}

absl::StatusOr<std::vector<ValueType>> ControlImporter::LoopOutputs() const {
  std::vector<ValueType> types;
  for (const proto::LoopNode::Carry& carry : node_.carry()) types.push_back(body().OutputType(carry.output()));
  for (const proto::LoopNode::Along& collect : node_.collect()) {
    ValueType type = body().OutputType(collect.port());
    std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
    dims.insert(dims.begin() + collect.axis(), node_.rounds());
    SNUG_ASSIGN_OR_RETURN(type.shape, MakeShape(dims));
    types.push_back(type);
  }
  return types;
}

std::vector<ValueId> ControlImporter::AddNode(std::vector<ValueId> inputs, Options options,
                                              std::vector<ValueType> types) {
  NodeSpec spec{.name = layer_.name(),
                .op = layer_.has_loop() ? "loop" : "branch",
                .options = std::move(options),
                .inputs = std::move(inputs),
                .output_types = std::move(types),
                .loc = loc_,
                .random_id = HashName(absl::StrCat(state_.prefix, layer_.name()))};
  for (const auto& body : bodies_) spec.subgraphs.push_back(body->graph());
  Graph& graph = state_.graph();
  return graph.node(graph.AddNode(std::move(spec))).outputs;
}

absl::StatusOr<LayersImporter::Outputs> ControlImporter::Loop() {
  const proto::Loop& options = layer_.loop();
  if (!options.has_body()) return absl::InvalidArgumentError("expected body: \"...\", the name of a block");
  SNUG_RETURN_IF_ERROR(FindBody(options.body(), 0, ""));
  SNUG_RETURN_IF_ERROR(ReadRoles(options));
  SNUG_RETURN_IF_ERROR(CheckLoopInputs(options));
  for (const proto::LoopNode::Carry& carry : node_.carry()) SNUG_RETURN_IF_ERROR(CastVariable(FedBy(carry.input())));
  SNUG_RETURN_IF_ERROR(ReadScans(options));
  for (const proto::LoopNode::Along& scan : node_.scan()) SNUG_RETURN_IF_ERROR(CastVariable(FedBy(scan.port())));
  AddLoopInputs();
  if (!body().Run()) return std::nullopt;
  SNUG_RETURN_IF_ERROR(CheckCarries(options));
  SNUG_RETURN_IF_ERROR(ReadCollects(options));
  SNUG_RETURN_IF_ERROR(CheckRows(options));
  std::vector<ValueId> inputs;
  for (int i = 0; i < body().num_inputs(); ++i) {
    inputs.push_back(node_.has_index() && i == node_.index() ? ValueId() : inputs_[FedBy(i)]);
  }
  inputs.insert(inputs.end(), body().captured().begin(), body().captured().end());
  if (node_.counted()) inputs.push_back(inputs_.back());
  SNUG_ASSIGN_OR_RETURN(std::vector<ValueType> types, LoopOutputs());
  return AddNode(std::move(inputs), proto::MakeOptions(node_), std::move(types));
}

absl::Status ControlImporter::CheckBranchInputs(const proto::Branch& options) const {
  if (options.body_size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at least 2 bodies to choose from, found ", options.body_size()));
  }
  if (inputs_.empty()) return absl::InvalidArgumentError("expected the selector as its first input, found no inputs");
  if (!IsInteger(type(0).dtype) || !IsNumberOrRows(type(0).shape)) {
    return ErrorAboutInput(
        0, absl::StrCat("the selector: expected one integer, or one for each sample, found ", type(0).ToString()));
  }
  for (int k = 0; k < options.body_size(); ++k) {
    const SubnetworkImporter& body = *bodies_[static_cast<size_t>(k)];
    if (inputs_.size() - 1 == static_cast<size_t>(body.num_inputs())) continue;
    return ErrorAbout(
        "body", k,
        absl::StrCat("\"", body.name(), "\" has ", body.num_inputs(), body.num_inputs() == 1 ? " input" : " inputs",
                     ", but the layer gives ", inputs_.size() - 1, " beside the selector"));
  }
  return absl::OkStatus();
}

absl::Status ControlImporter::CheckBranchOutputs() const {
  const SubnetworkImporter& first = body();
  for (size_t k = 0; k < bodies_.size(); ++k) {
    const SubnetworkImporter& other = *bodies_[k];
    const auto error = [&](absl::string_view message) { return ErrorAbout("body", static_cast<int>(k), message); };
    if (other.num_outputs() != first.num_outputs()) {
      return error(absl::StrCat("\"", other.name(), "\" puts out ", other.num_outputs(), " values, but \"",
                                first.name(), "\" ", first.num_outputs()));
    }
    for (int i = 0; i < first.num_outputs(); ++i) {
      if (other.OutputType(i).dtype != first.OutputType(i).dtype ||
          !(other.OutputType(i).shape == first.OutputType(i).shape)) {
        return error(absl::StrCat("\"", other.name(), "\" puts out ", other.OutputType(i).ToString(), " as its \"",
                                  other.OutputName(i), "\", but \"", first.name(), "\" puts out ",
                                  first.OutputType(i).ToString()));
      }
      if (HasRows(first.OutputType(i), RowsOf(type(0).shape))) continue;
      return error(absl::StrCat("\"", first.OutputName(i), "\" is ", first.OutputType(i).ToString(),
                                ", but the selector has ", type(0).shape.num_elements(),
                                " numbers: expected as many rows"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LayersImporter::Outputs> ControlImporter::Branch() {
  const proto::Branch& options = layer_.branch();
  for (int k = 0; k < options.body_size(); ++k)
    SNUG_RETURN_IF_ERROR(FindBody(options.body(k), k, absl::StrCat(k, ".")));
  SNUG_RETURN_IF_ERROR(CheckBranchInputs(options));
  for (size_t i = 1; i < inputs_.size(); ++i) SNUG_RETURN_IF_ERROR(CastVariable(i));
  // All bodies have the same inputs: what one captures, the others do.
  std::vector<ValueId> captured;
  bool ok = true;
  for (const auto& body : bodies_) {
    for (size_t i = 1; i < inputs_.size(); ++i) {
      const Value& value = state_.graph().value(inputs_[i]);
      body->AddInput(value.type, value.max_value, /*of_variable=*/false, state_.IsPerSample(inputs_[i]));
    }
    for (const ValueId value : captured) body->Capture(value);
    ok = body->Run() && ok;
    captured = body->captured();
  }
  if (!ok) return std::nullopt;
  for (const auto& body : bodies_) {
    for (const ValueId value : captured) body->Capture(value);
  }
  SNUG_RETURN_IF_ERROR(CheckBranchOutputs());
  const Value& selector = state_.graph().value(inputs_[0]);
  proto::BranchNode node;
  node.set_in_range(selector.max_value > 0 && selector.max_value <= options.body_size());
  for (size_t i = 1; i < inputs_.size(); ++i) {
    if (state_.IsPerSample(inputs_[i])) node.add_per_sample(static_cast<int32_t>(i) - 1);
  }
  std::vector<ValueType> types;
  for (int i = 0; i < body().num_outputs(); ++i) types.push_back(body().OutputType(i));
  std::vector<ValueId> inputs = inputs_;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  return AddNode(std::move(inputs), proto::MakeOptions(node), std::move(types));
}

}  // namespace

absl::StatusOr<LayersImporter::Outputs> ImportControl(ImportState& state, const proto::Layer& layer,
                                                      std::vector<ValueId> inputs, const SourceLoc& loc) {
  if (layer.param_size() > 0) {
    return About({.kind = ErrorPart::Kind::kParameter, .name = layer.param(0).name()},
                 absl::InvalidArgumentError("\"param\" belongs to a layer of the body: write it there"));
  }
  ControlImporter importer(state, layer, std::move(inputs), loc);
  return layer.has_loop() ? importer.Loop() : importer.Branch();
}

}  // namespace snug::core
