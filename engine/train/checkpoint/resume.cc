#include "engine/train/checkpoint/resume.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/train/run_folder.h"
#include "ops/platform.h"
#include "proto/internal.pb.h"

namespace snug::core::checkpoint {
namespace {

constexpr absl::string_view kAccumulate = "accumulate", kThreads = "threads", kTuning = "tuning",
                            kPlatform = "platform", kRounding = "rounding";
constexpr char kSparseTables[] = "sparse_tables", kNoTables[] = "none";
constexpr char kUpdates[] = "updates", kOneUpdate[] = "one of all";

// What held for checkpoints that do not name a condition, as they are from before there was a choice; null: nobody
// knows.
const char* BeforeThereWasAChoice(absl::string_view condition) {
  return condition == kSparseTables ? kNoTables : condition == kUpdates ? kOneUpdate : nullptr;
}

std::string PlatformText(const Platform& platform) {
  return absl::StrCat(platform.device, " ", platform.instructions, " ", platform.library);
}

bool ChangesRoundingAlone(absl::string_view condition) {
  return condition == kAccumulate || condition == kThreads || condition == kTuning || condition == kPlatform ||
         condition == kRounding;
}

// The rule of weight decay is not compared here: whether a different rule matters depends on the network, and LoadState
// checks that.
struct Difference {
  std::string condition, before, here;

  std::string ToString() const { return absl::StrCat("made with ", condition, " ", before, ", this run has ", here); }
};

std::vector<Difference> Compare(const Metadata& before, const Metadata& here) {
  std::vector<Difference> differences;
  for (const auto& [condition, value] : here) {
    const auto found = before.find(condition);
    const char* const unsaid = BeforeThereWasAChoice(condition);
    if (condition == kDecayKey || (found == before.end() && unsaid == nullptr)) continue;
    const std::string was = found == before.end() ? unsaid : found->second;
    if (was != value) differences.push_back({condition, was, value});
  }
  return differences;
}

absl::Status Refuse(const std::vector<Difference>& differences, const std::string& path, const ResumeOptions& options) {
  bool rounding_alone = true;
  for (const Difference& one : differences) rounding_alone = rounding_alone && ChangesRoundingAlone(one.condition);
  const std::string all = absl::StrJoin(
      differences, "; it was ", [](std::string* out, const Difference& one) { absl::StrAppend(out, one.ToString()); });
  return absl::InvalidArgumentError(absl::StrCat(options.what, path, ": the checkpoint was ", all, "; ",
                                                 rounding_alone ? options.rounding_advice : options.advice));
}

Metadata With(const Metadata& more, Metadata conditions) {
  conditions.insert(more.begin(), more.end());
  return conditions;
}

std::string RoundingText(const Difference& difference) {
  return absl::StrCat(
      "the checkpoint was ", difference.ToString(), ": results differ in rounding",
      difference.condition == kAccumulate ? ", and by what batch norm and dropout do in each micro-batch" : "");
}

// Returns the types in which the optimizer keeps what belongs to parameters, averages aside; empty: it keeps nothing.
std::string OptimizerState(const Graph& graph) {
  std::set<absl::string_view> types;
  for (const Variable& variable : graph.variables()) {
    if (variable.role != VariableRole::kSlot || absl::EndsWith(variable.name, kAverageSuffix)) continue;
    types.insert(variable.type.dtype == DType::kUint8 ? kStateIn8Bits : Name(variable.type.dtype));
  }
  return absl::StrJoin(types, " and ");
}

// An update of a parameter: which of the updates that a step makes one after the other it belongs to, and its rule by
// its name in the model file.
struct ParameterUpdate {
  std::optional<size_t> turn;  // nothing: it has no gate
  absl::string_view kind;      // empty: it is no optimizer's
  VariableId parameter;
};

absl::string_view KindOf(const Node& node) {
  static constexpr std::pair<absl::string_view, absl::string_view> kKinds[] = {
      {"sgd_update", "sgd"},         {"momentum_update", "sgd"},
      {"rmsprop_update", "rmsprop"}, {"rmsprop_momentum_update", "rmsprop"},
      {"adagrad_update", "adagrad"}, {"lion_update", "lion"},
      {"lamb_update", "lamb"},       {"adam_update", "adam"}};
  absl::string_view op = node.op;
  if (!absl::ConsumePrefix(&op, "dense_")) absl::ConsumePrefix(&op, "embedding_");  // an update as made
  absl::ConsumeSuffix(&op, "_rows");                                                // or of rows
  for (const auto& [update, kind] : kKinds) {
    if (op == update) return kind == "adam" && node.options.Get<proto::Update>().decoupled_decay() ? "adamw" : kind;
  }
  return "";
}

// Updates that are made at once have the same gate, the only input that is a single byte.
std::vector<ParameterUpdate> FindUpdates(const Graph& graph) {
  std::vector<ParameterUpdate> updates;
  std::map<ValueId, size_t> turns;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    ParameterUpdate update{.kind = KindOf(node)};
    const bool changes = node.phase == Phase::kUpdate && node.outputs.empty() && !node.inputs.empty();
    const VariableId variable = changes ? graph.value(node.inputs[0]).variable : VariableId();
    if (variable.valid() && graph.variable(variable).role == VariableRole::kParameter) update.parameter = variable;
    if (update.kind.empty() && !update.parameter.valid()) continue;
    for (const ValueId input : node.inputs) {
      if (!input.valid() || !(graph.type(input) == ValueType{DType::kUint8, Shape(), {}})) continue;
      update.turn = turns.emplace(input, turns.size()).first->second;
    }
    updates.push_back(update);
  }
  return updates;
}

// Returns which rules change the parameters, by their names in the model file; empty: nothing is trained. Slots do not
// tell it: those of Adam, AdamW and LAMB have the same names. Where updates that are made one after the other have
// different ones, they are named in the order of these.
std::string OptimizerKinds(const Graph& graph) {
  std::map<size_t, absl::string_view> of_turn;
  for (const ParameterUpdate& update : FindUpdates(graph)) {
    if (!update.kind.empty()) of_turn.emplace(update.turn.value_or(0), update.kind);
  }
  std::vector<absl::string_view> kinds;
  for (const auto& [turn, kind] : of_turn) kinds.push_back(kind);
  const bool same = absl::c_all_of(kinds, [&](absl::string_view kind) { return kind == kinds[0]; });
  if (same && !kinds.empty()) kinds.resize(1);
  return absl::StrJoin(kinds, " and ");
}

// Returns how many updates a step makes one after the other, and a digest of which parameters each changes.
std::string UpdatesInTurn(const Graph& graph) {
  std::set<size_t> turns;
  std::vector<std::string> changed;  // a turn and a parameter
  for (const ParameterUpdate& update : FindUpdates(graph)) {
    if (!update.parameter.valid() || !update.turn.has_value()) continue;
    turns.insert(*update.turn);
    changed.push_back(absl::StrCat(*update.turn, " ", graph.variable(update.parameter).name));
  }
  if (turns.size() < 2) return kOneUpdate;
  absl::c_sort(changed);
  return absl::StrCat(turns.size(), " in turn, of ", absl::Hex(HashName(absl::StrJoin(changed, "\n"))));
}

// Returns the tables whose rows are left alone where the optimizer would change them otherwise. A checkpoint that
// does not name them is from before there was a choice, and had none.
std::string TablesLeftAlone(const Compiled& compiled) {
  std::vector<absl::string_view> names;
  for (const TableGradient& table : compiled.tables) {
    if (table.rows && !table.exact) names.push_back(table.table);
  }
  return names.empty() ? kNoTables : absl::StrJoin(names, " ");
}

absl::StatusOr<Resumed> CompareWith(const SafetensorsFile& file, const Session& session, const std::string& path,
                                    const ResumeOptions& options) {
  Resumed resumed;
  std::vector<Difference> refused;
  for (Difference& one : Compare(file.header().metadata, ConditionsOf(session))) {
    if (options.not_compared.contains(one.condition)) continue;
    if (options.other_rounding && ChangesRoundingAlone(one.condition)) {
      resumed.differences.push_back(RoundingText(one));
    } else {
      refused.push_back(std::move(one));
    }
  }
  if (!refused.empty()) return Refuse(refused, path, options);
  return resumed;
}

}  // namespace

Metadata ConditionsOf(const Session& session) {
  const Compiled& compiled = session.compiled();
  const int64_t parts = compiled.micro_batches.count;
  Metadata conditions = {
      {"network", compiled.graph.name},
      {"batch", absl::StrCat(compiled.batch * parts)},
      {std::string(kAccumulate), absl::StrCat(parts)},
      {"seed", absl::StrCat(session.seed())},
      {"precision", std::string(Name(compiled.precision))},
      {"stochastic_rounding", compiled.stochastic_rounding ? "on" : "off"},
      {std::string(kDecayKey), std::string(Name(compiled.decay_rule))},
      {std::string(kThreads), absl::StrCat(compiled.threads)},
      {std::string(kRounding), compiled.rounding.empty() ? "none" : absl::StrJoin(compiled.rounding, " ")},
      {std::string(kTuning), compiled.tuning == nullptr ? "none" : absl::StrCat(absl::Hex(compiled.tuning->Digest()))}};
  if (const std::string kinds = OptimizerKinds(compiled.graph); !kinds.empty()) {
    conditions["optimizer"] = kinds;
    conditions[kUpdates] = UpdatesInTurn(compiled.graph);
  }
  if (const std::string state = OptimizerState(compiled.graph); !state.empty()) conditions["optimizer.state"] = state;
  if (!compiled.tables.empty()) conditions[kSparseTables] = TablesLeftAlone(compiled);
  // The platform is asked of the device's libraries. Where the device is missing, nothing is noted about it.
  if (const absl::StatusOr<Platform> platform = PlatformOf(compiled.device); platform.ok()) {
    conditions[std::string(kPlatform)] = PlatformText(*platform);
  }
  return conditions;
}

absl::StatusOr<CheckpointStore::Saved> SaveTraining(CheckpointStore& store, int64_t step, Session& session,
                                                    const Metadata& more) {
  return store.Save(step, StateOf(session), With(more, ConditionsOf(session)));
}

absl::StatusOr<CheckpointStore::Saved> SaveBest(CheckpointStore& store, int64_t step, Session& session,
                                                const Metadata& more) {
  return store.SaveBest(step, StateOf(session), With(more, ConditionsOf(session)));
}

absl::StatusOr<CheckpointStore::Saved> SaveAverage(CheckpointStore& store, const std::vector<int64_t>& steps) {
  return store.SaveAverage(
      steps, [](const SafetensorsFile& file, const std::string& name) { return !IsTrainingState(file, name); });
}

absl::StatusOr<CheckpointStore::Found> FindCheckpoint(FileSystem& files, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return CheckpointStore::Found{.step = -1, .path = path};
  const std::string inner = RunFolder(path).checkpoints();
  return CheckpointStore(&files, std::filesystem::is_directory(inner, error) ? inner : path).Newest();
}

absl::StatusOr<Resumed> CompareConditions(const Session& session, FileSystem& files, const std::string& path,
                                          const ResumeOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, path));
  return CompareWith(file, session, path, options);
}

absl::StatusOr<Resumed> Resume(Session& session, FileSystem& files, const std::string& path,
                               const ResumeOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, path));
  SNUG_ASSIGN_OR_RETURN(Resumed resumed, CompareWith(file, session, path, options));
  SNUG_RETURN_IF_ERROR(LoadState(session, file, LoadMode::kResume).status());
  return resumed;
}

}  // namespace snug::core::checkpoint
