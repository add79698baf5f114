#include "engine/compile/import/layer_importer.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

constexpr int64_t kMaxConstantElements = 1 << 16;

// Tells whether a dtype can hold a number. Converting one that an integer type cannot hold would be undefined.
bool Holds(DType dtype, double value) {
  const auto between = [value](double low, double high) {
    return value >= low && value <= high && value == std::floor(value);
  };
  switch (dtype) {
    case DType::kInt32:
      return between(-0x1p31, 0x1p31 - 1);
    case DType::kInt64:
      return between(-0x1p53, 0x1p53);  // beyond that, a double is not exact
    case DType::kUint8:
      return between(0, 255);
    default:
      return true;
  }
}

template <class T>
std::string Packed(const std::vector<double>& values, int64_t n) {
  std::string bytes(static_cast<size_t>(n) * sizeof(T), '\0');
  T* out = reinterpret_cast<T*>(bytes.data());
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(values[values.size() == 1 ? 0 : static_cast<size_t>(i)]);
  return bytes;
}

std::string PackedAs(DType dtype, const std::vector<double>& values, int64_t n) {
  switch (dtype) {
#define SNUG_CASE(enumerator, name, type) \
  case DType::enumerator:                 \
    return Packed<type>(values, n);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return "";
}

// Makes an error about a `param` entry of the layer.
absl::Status ParamError(const std::string& parameter, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kParameter, .name = parameter},
               absl::InvalidArgumentError(absl::StrCat("param \"", parameter, "\": ", message)));
}

ValueId AddState(Graph& graph, absl::string_view name, VariableRole role) {
  const VariableId id =
      graph.AddVariable({.name = std::string(name), .type = {DType::kInt64, Shape({2}), {}}, .role = role});
  return graph.variable(id).value;
}

}  // namespace

ValueId RandomStateOf(Imported& imported) {
  // The session writes {seed, 0} into it before the first step.
  if (!imported.random_state.valid()) {
    imported.random_state = AddState(imported.graph, kRandomStateName, VariableRole::kScalar);
  }
  return imported.random_state;
}

ValueId DrawStateOf(Imported& imported) {
  if (!imported.draw_state.valid()) {
    imported.draw_state = AddState(imported.graph, kDrawStateName, VariableRole::kWithinStep);
  }
  return imported.draw_state;
}

void ImportState::Error(const SourceLoc& loc, absl::string_view message) {
  errors->emplace_back(At(loc, absl::InvalidArgumentError(absl::StrCat(message, place))).message());
}

ValueId ImportState::Reach(ValueId value) { return outer == nullptr ? value : ReachAround(outer->Reach(value)); }

ValueId ImportState::ReachAround(ValueId around) {
  const auto [it, added] = input_of.try_emplace(around);
  if (!added) return it->second;
  const Value source = outer->graph().value(around);
  std::string name = source.name;
  while (graph().FindValue(name).valid()) name += "'";  // a parameter may be called as an input of the sub-network is
  it->second = graph().AddInput(std::move(name), source.type, source.max_value);
  captured.push_back(around);
  if (outer->IsOfVariable(around)) of_variables.insert(it->second);
  if (outer->IsPerSample(around)) batched.insert(it->second);
  return it->second;
}

bool ImportState::IsPerSample(ValueId value) {
  const Graph& values = graph();
  for (auto i = static_cast<int32_t>(per_sample.size()); i <= value.index; ++i) {  // what a value depends on is older
    const NodeId producer = values.value(ValueId{i}).producer;
    bool depends = batched.contains(ValueId{i});
    if (producer.valid()) {
      for (const ValueId input : values.node(producer).inputs) {
        depends = depends || (input.valid() && per_sample[static_cast<size_t>(input.index)]);
      }
    }
    per_sample.push_back(depends);
  }
  return per_sample[static_cast<size_t>(value.index)];
}

bool ImportState::IsOfVariable(ValueId value) {
  return outer == nullptr ? graph().value(value).variable.valid() : of_variables.contains(value);
}

LayerImporter::LayerImporter(ImportState& state, const proto::Layer& layer, Options options,
                             std::vector<ValueId> inputs, SourceLoc loc)
    : LayerContext(state.builder),
      state_(state),
      layer_(layer),
      options_(std::move(options)),
      inputs_(std::move(inputs)),
      loc_(std::move(loc)) {}

std::string LayerImporter::VariableName(absl::string_view name) const {
  return absl::StrCat(state_.prefix, layer_.name(), name.empty() ? "" : ".", name);
}

ValueId LayerImporter::Add(Variable variable) {
  Graph& graph = state_.result->graph;
  if (graph.FindValue(variable.name).valid()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("the name \"", variable.name, "\" of its parameter is taken")));
    return ValueId();
  }
  return state_.Reach(graph.variable(graph.AddVariable(std::move(variable))).value);
}

const proto::Param* LayerImporter::Override(const std::string& name) {
  parameter_names_.push_back(name);
  for (const proto::Param& param : layer_.param()) {
    if (param.name() == name) return &param;
  }
  return nullptr;
}

ValueId LayerImporter::Tied(const ParameterSpec& spec, const proto::Param& param) {
  if (param.has_init() || param.has_lr_mult() || param.has_decay_mult()) {
    Fail(ParamError(spec.name, absl::StrCat("it is tied to \"", param.tie(),
                                            "\", and init, lr_mult and decay_mult are "
                                            "that parameter's: say them in its own layer")));
    return ValueId();
  }
  const Graph& graph = state_.result->graph;
  VariableId owner = graph.FindVariable(absl::StrCat(state_.prefix, param.tie()));  // a neighbour in the sub-network
  if (!owner.valid()) owner = graph.FindVariable(param.tie());
  if (!owner.valid()) {
    Fail(absl::InvalidArgumentError(absl::StrCat("parameter \"", spec.name, "\" is tied to \"", param.tie(),
                                                 "\", but no layer before this one has a parameter of that name")));
    return ValueId();
  }
  const Variable& variable = graph.variable(owner);
  if (!(variable.type.shape == spec.shape)) {
    Fail(absl::InvalidArgumentError(absl::StrCat("parameter \"", spec.name, "\" of shape ", spec.shape.ToString(),
                                                 " is tied to \"", param.tie(), "\", which has shape ",
                                                 variable.type.shape.ToString())));
    return ValueId();
  }
  const ValueId value = state_.Reach(variable.value);
  return param.frozen() ? Untrained(value, spec.name) : value;
}

ValueId LayerImporter::Untrained(ValueId value, absl::string_view parameter) {
  adapts_inputs_ = false;  // what reads the parameter says in which type
  const ValueId untrained = Op("stop_gradient", {value}, {}, absl::StrCat("untrained.", parameter));
  adapts_inputs_ = true;
  untrained_.push_back(untrained);
  return untrained;
}

// With stochastic rounding parameters are bfloat16, unless the layer reads them in float32: the scales of norms.
DType LayerImporter::ParameterType(const ParameterSpec& spec) const {
  if (!state_.stochastic_rounding) return StateType();
  const bool wide = absl::c_any_of(
      op_->inputs, [&](const Port& port) { return port.name == spec.name && port.type == PortType::kFloat32; });
  return wide ? StateType() : state_.precision;
}

ValueId LayerImporter::Parameter(ParameterSpec spec) {
  if (!status().ok()) return ValueId();
  const proto::Param* param = Override(spec.name);
  const absl::StatusOr<Shape> shape = MakeShape(spec.shape.dims());
  if (!shape.ok()) {
    Fail(Annotate(shape.status(), absl::StrCat("parameter \"", spec.name, "\"")));
    return ValueId();
  }
  if (param != nullptr && param->has_tie()) return Tied(spec, *param);

  const proto::Initializer* chosen = nullptr;
  if (!spec.initializer.empty()) chosen = &spec.initializer.Get<proto::Initializer>();
  if (param != nullptr && param->has_init()) chosen = &param->init();
  absl::StatusOr<Initializer> init = ResolveInitializer(spec, chosen);
  if (!init.ok()) {
    Fail(init.status());
    return ValueId();
  }
  Variable variable{.name = VariableName(spec.name),
                    .type = {ParameterType(spec), spec.shape, {}},
                    .role = VariableRole::kParameter,
                    .init = *std::move(init),
                    .random_id = HashName(VariableName(spec.name)),
                    .loc = loc_};
  if (param != nullptr) {
    variable.frozen = param->frozen();
    variable.lr_mult = param->lr_mult();
    variable.decay_mult = param->decay_mult();
    for (const double factor : {variable.lr_mult, variable.decay_mult}) {
      if (factor >= 0) continue;
      Fail(ParamError(spec.name, absl::StrCat("lr_mult and decay_mult: expected at least 0, found ", factor)));
      return ValueId();
    }
  }
  return Add(std::move(variable));
}

ValueId LayerImporter::Statistic(absl::string_view name, const Shape& shape, double initial) {
  if (!status().ok()) return ValueId();
  return Add({.name = VariableName(name),
              .type = {StateType(), shape, {}},
              .role = VariableRole::kStatistic,
              .init = {.kind = Initializer::Kind::kConstant, .value = initial},
              .loc = loc_});
}

ValueId LayerImporter::ConstantValue(absl::string_view name, DType dtype, const Shape& shape,
                                     std::vector<double> values) {
  if (!status().ok()) return ValueId();
  const int64_t n = shape.num_elements();
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != n) {
    Fail(OptionError("value", absl::StrCat("expected one number or ", n, " for shape ", shape.ToString(), ", found ",
                                           values.size())));
    return ValueId();
  }
  for (const double value : values) {
    if (Holds(dtype, value)) continue;
    Fail(OptionError("value", absl::StrCat(value, " is no ", absl::string_view(Name(dtype)))));
    return ValueId();
  }
  // A small constant has its bytes, so that it can be folded; a large one only has a rule for making them.
  Initializer init{.kind = Initializer::Kind::kConstant, .value = values[0]};
  if (values.size() > 1 || n <= kMaxConstantElements) {
    init = {.kind = Initializer::Kind::kBytes,
            .bytes = std::make_shared<const std::string>(PackedAs(dtype, values, n))};
  }
  return Add({.name = VariableName(name),
              .type = {dtype, shape, {}},
              .role = VariableRole::kConstant,
              .init = std::move(init),
              .loc = loc_});
}

ValueId LayerImporter::RandomState() {
  return state_.Reach(state_.in_micro_batches ? DrawStateOf(*state_.result) : RandomStateOf(*state_.result));
}

void LayerImporter::Update(absl::string_view op, std::vector<ValueId> inputs, Options options) {
  if (state_.outer != nullptr) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "updates \"", state_.graph().value(inputs[0]).name,
        "\" in training, which every round and branch reads as it was before the step: put the layer outside, or take "
        "one without running statistics, such as group_norm")));
  }
  NodeSpec spec = Describe(op, op);
  spec.op = std::string(op);
  spec.inputs = std::move(inputs);
  spec.options = std::move(options);
  spec.phase = Phase::kUpdate;
  state_.result->statistic_updates.push_back(std::move(spec));
}

void LayerImporter::SetOutput(int i, ValueId value) {
  if (static_cast<size_t>(i) >= outputs_.size()) outputs_.resize(static_cast<size_t>(i) + 1);
  outputs_[static_cast<size_t>(i)] = value;
}

NodeSpec LayerImporter::Describe(absl::string_view op, absl::string_view suffix) {
  std::string name = suffix.empty() ? layer_.name() : absl::StrCat(layer_.name(), "/", suffix);
  const uint64_t random_id = HashName(absl::StrCat(state_.prefix, name, ":", op));
  return {.name = std::move(name), .loc = loc_, .phase = Phase::kForward, .random_id = random_id};
}

void LayerImporter::AdaptInputs(const OpDef& op, std::vector<ValueId>* inputs) {
  if (state_.precision != DType::kBFloat16 || op.name == "cast" || !adapts_inputs_) return;
  for (size_t i = 0; i < inputs->size(); ++i) {
    ValueId& input = (*inputs)[i];
    const Port& port = op.inputs[std::min(i, op.inputs.size() - 1)];
    // The op computes on the input, or moves it; inputs of other ports need no cast. A port of float32 may meet a
    // parameter that is kept in bfloat16 for another layer, and is tied.
    const bool computed_on = port.type == PortType::kFloating || port.type == PortType::kAny;
    const bool narrows = computed_on && input.valid() && type(input).dtype == DType::kFloat32;
    const bool widens = port.type == PortType::kFloat32 && input.valid() && type(input).dtype == DType::kBFloat16;
    if (!narrows && !widens) continue;
    const bool untrained = std::find(untrained_.begin(), untrained_.end(), input) != untrained_.end();
    if (!state_.IsOfVariable(input) && !untrained) continue;
    ValueId& cast = state_.casts[input];
    if (!cast.valid()) {
      const std::string name = state_.graph().value(input).name;
      const DType wanted = narrows ? state_.precision : DType::kFloat32;
      cast =
          Op("cast", {input}, proto::CastTo(wanted), absl::StrCat(name.substr(name.rfind('.') + 1), ".", Name(wanted)));
    }
    input = cast;
  }
}

absl::Status LayerImporter::Run(const OpDef& op) {
  op_ = &op;
  if (op.layer != nullptr) {
    const absl::Status status = op.layer(*this);
    if (!status.ok()) Fail(status);
  } else {
    outputs_ = Ops(op.name, inputs_, options_);
  }
  SNUG_RETURN_IF_ERROR(status());
  for (const proto::Param& param : layer_.param()) {
    if (std::find(parameter_names_.begin(), parameter_names_.end(), param.name()) != parameter_names_.end()) continue;
    return ParamError(
        param.name(),
        absl::StrCat("this layer has ", parameter_names_.empty()
                                            ? "no parameters"
                                            : absl::StrCat("the parameters ", absl::StrJoin(parameter_names_, ", "))));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
