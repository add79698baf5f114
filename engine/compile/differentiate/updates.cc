#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/check_optimizer.h"
#include "ops/coded_bytes.h"
#include "ops/graph_builder.h"
#include "ops/kept_types.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

// Those of one group.
class Updates {
 public:
  // `gate_inputs`: what must be finite.
  Updates(Imported& imported, const OpRegistry& registry, const UpdateGroup& group, std::vector<ValueId> gate_inputs,
          const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options)
      : imported_(imported),
        graph_(imported.graph),
        builder_(registry, &imported.graph),
        group_(group),
        gate_inputs_(std::move(gate_inputs)),
        optimizer_(*group.optimizer),
        options_(options) {
    for (const ValueId parameter : group.parameters) {
      const auto it = gradients.find(parameter);
      if (it == gradients.end()) continue;
      trained_.push_back({parameter, it->second, {}});
      gradients_.insert(*it);
    }
    // Updates come in the order in which the backward pass completes the gradients.
    std::stable_sort(trained_.begin(), trained_.end(),
                     [](const Trained& a, const Trained& b) { return a.gradient < b.gradient; });
  }

  absl::Status Run(bool last, std::vector<TableGradient>* tables) {
    SNUG_RETURN_IF_ERROR(TakeLists(tables));
    graph_.SetInsertionPoint(group_.before);
    SNUG_RETURN_IF_ERROR(AddAll(last));
    graph_.SetInsertionPoint(NodeId());
    return absl::OkStatus();
  }

  // Of the group's gradients; invalid: nobody asked for it.
  ValueId norm() const { return norm_; }

 private:
  struct Trained {
    ValueId parameter, gradient;
    ValueId rows;  // if the gradient is a list of rows: their numbers
  };

  absl::Status AddAll(bool last) {
    SNUG_RETURN_IF_ERROR(AddGate());
    if (options_.micro_batches.count > 1) SNUG_RETURN_IF_ERROR(AddSums());
    if (!options_.micro_batches.last) return absl::OkStatus();
    if (options_.parameter_gradients) SNUG_RETURN_IF_ERROR(KeepGradients());
    if (!trained_.empty()) {
      AddLearningRate();
      SNUG_RETURN_IF_ERROR(AddGradientNorm());
      for (const Trained& trained : trained_) SNUG_RETURN_IF_ERROR(AddUpdate(trained));
      // In the given order they follow all updates; an orderer may move each up to the update that it reads.
      if (optimizer_.has_average()) {
        for (const Trained& trained : trained_) SNUG_RETURN_IF_ERROR(AddAverage(trained.parameter));
      }
    }
    for (const size_t i : group_.statistics) {
      NodeSpec spec = imported_.statistic_updates[i];
      spec.inputs.push_back(gate_);
      const SourceLoc loc = spec.loc;
      SNUG_RETURN_IF_ERROR(At(loc, builder_.Add(std::move(spec)).status()));
    }
    if (!last) return absl::OkStatus();
    imported_.statistic_updates.clear();
    return Add("advance_step", "state/advance_step", {RandomState(), gate_}, Options()).status();
  }

  absl::Status TakeLists(std::vector<TableGradient>* tables) {
    std::unordered_map<ValueId, RowList> lists;
    SNUG_ASSIGN_OR_RETURN(lists, MakeRowGradients(builder_, optimizer_, gradients_,
                                                  {.device = options_.device,
                                                   .micro_batches = options_.micro_batches.count,
                                                   .tables = options_.sparse_tables},
                                                  tables));
    for (Trained& trained : trained_) {
      const auto list = lists.find(trained.parameter);
      if (list == lists.end()) continue;
      trained.gradient = list->second.rows;
      trained.rows = list->second.numbers;
    }
    return absl::OkStatus();
  }

  // Makes outputs of gradients, unless they are some already (CompileOptions::gradients). Those in bfloat16 are
  // widened, so that updates may still get them as their kernels make them, unrounded (kernels/widen.h).
  absl::Status KeepGradients() {
    for (const Trained& trained : trained_) {
      const std::string name = absl::StrCat("d(", NameOf(trained.parameter), ")");
      const bool known = std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                                     [&](const Output& output) { return output.name == name; });
      if (known || trained.rows.valid()) continue;
      ValueId kept = trained.gradient;
      if (graph_.type(kept).dtype == DType::kBFloat16) {
        SNUG_ASSIGN_OR_RETURN(kept, Add("cast", absl::StrCat(name, "/kept"), {kept}, proto::CastTo(DType::kFloat32)));
      }
      graph_.outputs.push_back({name, kept});
    }
    return absl::OkStatus();
  }

  ValueId RandomState() const { return imported_.random_state; }

  absl::StatusOr<ValueId> Add(absl::string_view op, std::string name, std::vector<ValueId> inputs, Options options,
                              uint64_t random_id = 0) {
    SNUG_ASSIGN_OR_RETURN(const NodeId id, builder_.Add({.name = std::move(name),
                                                         .op = std::string(op),
                                                         .options = std::move(options),
                                                         .inputs = std::move(inputs),
                                                         .phase = Phase::kUpdate,
                                                         .random_id = random_id}));
    const Node& node = graph_.node(id);
    return node.outputs.empty() ? ValueId() : node.outputs[0];
  }

  // Whether a value is a Variable that is kept narrower than it is computed with.
  bool IsRounded(ValueId id) const { return graph_.value(id).variable.valid() && IsNarrow(graph_.type(id).dtype); }
  // Adds the update of a parameter, or of those of its rows that its gradient lists.
  absl::StatusOr<ValueId> AddUpdateOf(const Trained& trained, absl::string_view op, const std::string& name,
                                      std::vector<ValueId> inputs, Options options) {
    if (!trained.rows.valid()) return AddRounding(op, name, std::move(inputs), std::move(options));
    inputs.insert(std::find(inputs.begin(), inputs.end(), trained.gradient), trained.rows);
    return AddRounding(absl::StrCat(op, "_rows"), name, std::move(inputs), std::move(options));
  }
  // Adds a node that changes a parameter or its slots. Those that are bfloat16 or 8 bits wide are rounded by random
  // numbers of the node's own.
  absl::StatusOr<ValueId> AddRounding(absl::string_view op, const std::string& name, std::vector<ValueId> inputs,
                                      Options options) {
    if (std::none_of(inputs.begin(), inputs.end(), [this](ValueId id) { return IsRounded(id); })) {
      return Add(op, name, std::move(inputs), std::move(options));
    }
    if (std::find(inputs.begin(), inputs.end(), RandomState()) == inputs.end()) inputs.push_back(RandomState());
    return Add(op, name, std::move(inputs), std::move(options), HashName(absl::StrCat(name, ":rounding")));
  }

  DType StateType() const {
    return trained_.empty() ? DType::kFloat32 : ComputedIn(graph_.type(trained_.front().parameter).dtype);
  }

  ValueId AddScalar(absl::string_view name, double value) {
    const VariableId id = graph_.AddVariable({.name = std::string(name),
                                              .type = {StateType(), Shape(), {}},
                                              .role = VariableRole::kScalar,
                                              .init = {.kind = Initializer::Kind::kConstant, .value = value}});
    return graph_.variable(id).value;
  }

  // There is one for all groups, which multiply it by their own (UpdateGroup::rate).
  void AddLearningRate() {
    const VariableId known = graph_.FindVariable(kLearningRateName);
    learning_rate_ = known.valid() ? graph_.variable(known).value : AddScalar(kLearningRateName, group_.learning_rate);
  }

  absl::Status AddGate() {
    SNUG_ASSIGN_OR_RETURN(gate_, Add("all_finite", "gate", gate_inputs_, Options()));
    return absl::OkStatus();
  }

  // In the last micro-batch, the updates read means over all micro-batches instead of the values themselves.
  absl::Status AddSums() {
    for (Trained& trained : trained_) {
      SNUG_ASSIGN_OR_RETURN(trained.gradient,
                            AddSum(absl::StrCat(NameOf(trained.parameter), "/gradient"), trained.gradient));
    }
    for (NodeSpec& spec : imported_.statistic_updates) {
      for (ValueId& input : spec.inputs) {
        if (!input.valid() || graph_.value(input).variable.valid()) continue;
        const auto known = means_.find(input);
        if (known != means_.end()) {
          input = known->second;
          continue;
        }
        const std::string name = NameOf(input);  // a copy: the Value moves when Variables are added
        SNUG_ASSIGN_OR_RETURN(const ValueId mean, AddSum(name, input));
        means_.emplace(input, mean);
        input = mean;
      }
    }
    return absl::OkStatus();
  }

  // Returns the mean in the last micro-batch, and nothing before it.
  absl::StatusOr<ValueId> AddSum(absl::string_view name, ValueId part) {
    ValueType type = graph_.type(part);
    type.dtype = ComputedIn(type.dtype);
    const VariableId id = graph_.AddVariable(
        {.name = absl::StrCat(name, "/sum"), .type = std::move(type), .role = VariableRole::kWithinStep});
    const ValueId sum = graph_.variable(id).value;
    const std::vector<ValueId> inputs = {sum, part, gate_};
    if (!options_.micro_batches.last) {
      return Add("accumulate", absl::StrCat(name, "/accumulate"), inputs, Options());
    }
    proto::Accumulate options;
    options.set_count(options_.micro_batches.count);
    return Add("accumulate_mean", absl::StrCat(name, "/mean"), inputs, proto::MakeOptions(options));
  }

  // Where gradients are of two types, those of each have a norm, and these have one.
  absl::StatusOr<ValueId> AddNormOfAll() {
    const std::string name(kGradientNormName);
    std::map<DType, std::vector<ValueId>> gradients;
    std::set<DType> with_rows;
    for (const Trained& trained : trained_) {
      const DType dtype = graph_.type(trained.gradient).dtype;
      std::vector<ValueId>& of_type = gradients[dtype];
      if (trained.rows.valid()) {
        with_rows.insert(dtype);
        of_type.push_back(trained.rows);
      }
      of_type.push_back(trained.gradient);
    }
    const auto op = [&](DType dtype) { return with_rows.count(dtype) > 0 ? "global_norm_rows" : "global_norm"; };
    if (gradients.size() == 1) return Add(op(gradients.begin()->first), name, gradients.begin()->second, Options());
    std::vector<ValueId> norms;
    for (const auto& [dtype, of_type] : gradients) {
      SNUG_ASSIGN_OR_RETURN(const ValueId norm,
                            Add(op(dtype), absl::StrCat(name, ".", Name(dtype)), of_type, Options()));
      norms.push_back(norm);
    }
    return Add("global_norm", name, norms, Options());
  }

  absl::Status AddGradientNorm() {
    const bool clips = optimizer_.has_clip_norm();
    if (!clips && !options_.gradient_norm) return absl::OkStatus();
    SNUG_ASSIGN_OR_RETURN(norm_, AddNormOfAll());
    if (!clips) return absl::OkStatus();
    proto::ClipNorm clip;
    clip.set_max_norm(optimizer_.clip_norm());
    for (Trained& trained : trained_) {
      SNUG_ASSIGN_OR_RETURN(trained.gradient, Add("clip_by_norm", absl::StrCat(NameOf(trained.parameter), "/clip"),
                                                  {trained.gradient, norm_}, proto::MakeOptions(clip)));
    }
    return absl::OkStatus();
  }

  const std::string& NameOf(ValueId id) const { return graph_.value(id).name; }

  // The type of what the optimizer keeps for a parameter: it alone says how that is kept (Optimizer.state).
  ValueType SlotType(const ValueType& parameter) const {
    const std::string& state = optimizer_.state();
    if (state == kStateIn8Bits) return {DType::kUint8, {CodedBytes(parameter.num_elements())}, {}};
    ValueType type = parameter;
    if (!state.empty()) type.dtype = *DTypeFromName(state);
    return type;
  }

  ValueId AddSlot(ValueId parameter, absl::string_view suffix, double initial = 0) {
    const VariableId owner = graph_.value(parameter).variable;
    const VariableId id = graph_.AddVariable({.name = absl::StrCat(NameOf(parameter), "/", suffix),
                                              .type = SlotType(graph_.type(parameter)),
                                              .role = VariableRole::kSlot,
                                              .init = {.kind = Initializer::Kind::kConstant, .value = initial},
                                              .slot_of = owner});
    return graph_.variable(id).value;
  }

  // Until the first step makes it the parameter, it is what the parameter is at first.
  absl::Status AddAverage(ValueId parameter) {
    const VariableId owner = graph_.value(parameter).variable;
    const std::string name = NameOf(parameter);
    ValueType type = graph_.type(parameter);
    type.dtype = ComputedIn(type.dtype);
    const VariableId average = graph_.AddVariable({.name = absl::StrCat(name, kAverageSuffix),
                                                   .type = std::move(type),
                                                   .role = VariableRole::kSlot,
                                                   .init = graph_.variable(owner).init,
                                                   .random_id = graph_.variable(owner).random_id,
                                                   .slot_of = owner});
    proto::Update update;
    update.set_beta2(optimizer_.average().decay());
    return Add("average_update", absl::StrCat(name, kAverageSuffix, "/update"),
               {graph_.variable(average).value, parameter, RandomState(), gate_}, proto::MakeOptions(update))
        .status();
  }

  absl::Status AddUpdate(const Trained& trained) {
    const Variable& variable = graph_.variable(graph_.value(trained.parameter).variable);
    proto::Update update;
    update.set_lr_mult(variable.lr_mult * group_.rate);
    update.set_weight_decay(optimizer_.weight_decay() * variable.decay_mult);
    const ValueId p = trained.parameter;
    const ValueId g = trained.gradient;
    const std::string name = absl::StrCat(NameOf(p), "/update");
    switch (optimizer_.kind_case()) {
      case proto::Optimizer::kAdam:
      case proto::Optimizer::kAdamw: {
        const bool decoupled = optimizer_.kind_case() == proto::Optimizer::kAdamw;
        const proto::Adam& adam = decoupled ? optimizer_.adamw() : optimizer_.adam();
        update.set_beta1(adam.beta1());
        update.set_beta2(adam.beta2());
        update.set_epsilon(adam.epsilon());
        update.set_decoupled_decay(decoupled);
        const ValueId m = AddSlot(p, "m");
        const ValueId v = AddSlot(p, "v");
        return AddUpdateOf(trained, "adam_update", name, {p, m, v, g, learning_rate_, RandomState(), gate_},
                           proto::MakeOptions(update))
            .status();
      }
      case proto::Optimizer::kRmsprop: {
        const proto::Rmsprop& rmsprop = optimizer_.rmsprop();
        update.set_beta2(rmsprop.alpha());
        update.set_epsilon(rmsprop.epsilon());
        const ValueId v = AddSlot(p, "v");
        if (rmsprop.momentum() == 0)
          return AddUpdateOf(trained, "rmsprop_update", name, {p, v, g, learning_rate_, gate_},
                             proto::MakeOptions(update))
              .status();
        update.set_momentum(rmsprop.momentum());
        return AddUpdateOf(trained, "rmsprop_momentum_update", name,
                           {p, v, AddSlot(p, "momentum"), g, learning_rate_, gate_}, proto::MakeOptions(update))
            .status();
      }
      case proto::Optimizer::kAdagrad: {
        const proto::Adagrad& adagrad = optimizer_.adagrad();
        update.set_lr_decay(adagrad.lr_decay());
        update.set_epsilon(adagrad.epsilon());
        const ValueId squares = AddSlot(p, "squares", adagrad.initial_accumulator_value());
        return AddUpdateOf(trained, "adagrad_update", name, {p, squares, g, learning_rate_, RandomState(), gate_},
                           proto::MakeOptions(update))
            .status();
      }
      case proto::Optimizer::kLion:
        update.set_beta1(optimizer_.lion().beta1());
        update.set_beta2(optimizer_.lion().beta2());
        return AddUpdateOf(trained, "lion_update", name, {p, AddSlot(p, "m"), g, learning_rate_, gate_},
                           proto::MakeOptions(update))
            .status();
      case proto::Optimizer::kLamb: {
        const proto::Lamb& lamb = optimizer_.lamb();
        update.set_beta1(lamb.beta1());
        update.set_beta2(lamb.beta2());
        update.set_epsilon(lamb.epsilon());
        const ValueId m = AddSlot(p, "m");
        const ValueId v = AddSlot(p, "v");
        const Options options = proto::MakeOptions(update);
        const std::string parameter = NameOf(p);
        SNUG_ASSIGN_OR_RETURN(const ValueId direction,
                              AddRounding("lamb_direction", absl::StrCat(parameter, "/direction"),
                                          {p, m, v, g, RandomState(), gate_}, options));
        SNUG_ASSIGN_OR_RETURN(const ValueId size, Add("global_norm", absl::StrCat(parameter, "/size"), {p}, Options()));
        SNUG_ASSIGN_OR_RETURN(const ValueId change,
                              Add("global_norm", absl::StrCat(parameter, "/change"), {direction}, Options()));
        return AddRounding("lamb_update", name, {p, direction, size, change, learning_rate_, gate_}, options).status();
      }
      case proto::Optimizer::kSgd:
      case proto::Optimizer::KIND_NOT_SET:
        break;
    }
    const proto::Sgd& sgd = optimizer_.sgd();
    if (sgd.momentum() == 0)
      return AddUpdateOf(trained, "sgd_update", name, {p, g, learning_rate_, gate_}, proto::MakeOptions(update))
          .status();
    update.set_momentum(sgd.momentum());
    update.set_nesterov(sgd.nesterov());
    return AddUpdateOf(trained, "momentum_update", name, {p, AddSlot(p, "momentum"), g, learning_rate_, gate_},
                       proto::MakeOptions(update))
        .status();
  }

  Imported& imported_;
  Graph& graph_;
  GraphBuilder builder_;
  const UpdateGroup& group_;
  const std::vector<ValueId> gate_inputs_;
  std::unordered_map<ValueId, ValueId> gradients_;  // of the group's parameters
  const proto::Optimizer& optimizer_;
  const UpdateOptions& options_;
  std::vector<Trained> trained_;
  std::unordered_map<ValueId, ValueId> means_;  // the means of what statistics' updates read
  ValueId gate_, learning_rate_, norm_;
};

}  // namespace

absl::Status AddUpdates(Imported& imported, const OpRegistry& registry, const std::vector<UpdateGroup>& groups,
                        const std::unordered_map<ValueId, ValueId>& gradients, const UpdateOptions& options,
                        std::vector<TableGradient>* tables) {
  std::vector<ValueId> finite, norms;
  for (size_t k = 0; k < groups.size(); ++k) {
    for (const ValueId objective : groups[k].objectives) {
      if (!absl::c_linear_search(finite, objective)) finite.push_back(objective);
    }
    const bool last = k + 1 == groups.size();
    Updates updates(imported, registry, groups[k], finite, gradients, options);
    SNUG_RETURN_IF_ERROR(updates.Run(last, tables));
    if (updates.norm().valid()) norms.push_back(updates.norm());
  }
  if (!options.gradient_norm || norms.empty()) return absl::OkStatus();
  Graph& graph = imported.graph;
  if (norms.size() > 1) {
    GraphBuilder builder(registry, &graph);
    SNUG_ASSIGN_OR_RETURN(const NodeId all, builder.Add({.name = absl::StrCat(kGradientNormName, ".all"),
                                                         .op = "global_norm",
                                                         .inputs = norms,
                                                         .phase = Phase::kUpdate}));
    norms = graph.node(all).outputs;
  }
  graph.outputs.push_back({std::string(kGradientNormName), norms[0]});
  return absl::OkStatus();
}

}  // namespace snug::core
