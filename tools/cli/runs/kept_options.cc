#include "tools/cli/runs/kept_options.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/base/text/suggest.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/data_checksum.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/proto_flags.h"
#include "tools/cli/runs/kept_layers.h"

namespace snug::core::cli {
namespace {

constexpr const char* kLearningRate = "learning-rate";
constexpr const char* kSchedule = "schedule";
constexpr const char* kSteps = "steps";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kData = "data";
constexpr const char* kAugmentation = "augmentation";
constexpr const char* kBatch = "batch";
constexpr const char* kLayers = "layers";
constexpr const char* kNames[] = {kLearningRate, kSchedule, kOptimizer, kData, kAugmentation, kBatch, kLayers};

// Of updates that a step makes one after the other: "update-2-adam-beta1".
constexpr const char* kUpdatePrefix = "update-";

// Words, because no flags say it.
constexpr const char* kSamples = "training samples";
constexpr const char* kChecksum = "checksum of samples";
constexpr const char* kUpdates = "updates of the network";
constexpr const char* kEvaluationSamples = "evaluation samples";
constexpr const char* kEvaluationChecksum = "checksum of evaluation samples";

constexpr const char* kEvaluateBatches = "evaluate-batches";
constexpr const char* kAverageEvaluate = "average-evaluate";
constexpr const char* kImagesCache = "data-images-cache";
constexpr const char* kAllBatches = "all";
constexpr const char* kDefault = "its default";
constexpr const char* kNone = "none";  // of layers

bool IsOfEvaluation(absl::string_view option) { return option == kEvaluationSamples || option == kEvaluationChecksum; }
// Which of these samples an evaluation takes, and which of the parameters.
bool IsOfEvaluating(absl::string_view option) { return option == kEvaluateBatches || option == kAverageEvaluate; }
bool IsOfUpdate(absl::string_view option) { return option == kUpdates || absl::StartsWith(option, kUpdatePrefix); }
bool IsOfSamples(absl::string_view option) {
  return option == kSamples || option == kChecksum || IsOfEvaluation(option);
}

// Where files lie is not what is in them, which the checksum tells; evaluation changes no parameter.
bool NamesFiles(absl::string_view option) {
  constexpr absl::string_view kEnds[] = {"-file", "-directory", "-list", "-images", "-labels", "-tokenizer", "-cache"};
  return absl::StrContains(option, "-test-") ||
         std::any_of(std::begin(kEnds), std::end(kEnds), [&](auto end) { return absl::EndsWith(option, end); });
}

// How batches are read, and what is done about broken files.
bool ChangesNothing(absl::string_view option) {
  return option == "data-readers" || option == "data-images-skip-broken";
}

// Whether what an option says is seen in the samples: how many they are, what they are made of (a table's columns are
// kept with what was learnt of it), and how large. What is said as it is by itself is no change then.
bool IsToldBySamples(absl::string_view option) {
  return absl::StartsWith(option, "data-csv-") ||
         (absl::StartsWith(option, "data-") && absl::EndsWith(option, "-samples")) || option == "data-images-size" ||
         option == "data-text-window";
}

// Whether 0, or false, is what an option is where nothing is said of it. Their fields have no default that says so.
bool IsNothingByDefault(absl::string_view option) {
  constexpr absl::string_view kEnds[] = {"weight-decay", "momentum", "nesterov", "lr-decay",
                                         "initial-accumulator-value"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](auto end) { return absl::EndsWith(option, end); });
}

bool IsNothing(absl::string_view value) { return value == "0" || value == "false" || value == kDefault; }

using OptionList = std::vector<std::pair<std::string, std::string>>;

// The files that samples come from, as the options name them.
std::string ListFiles(const OptionList& options, bool for_evaluation) {
  std::vector<std::string> files, test_files;
  for (const auto& [name, value] : options) {
    if (value.empty() || !NamesFiles(name) || absl::EndsWith(name, "-tokenizer") || absl::EndsWith(name, "-cache"))
      continue;
    (absl::StrContains(name, "-test-") ? test_files : files).push_back(Printable(value));
  }
  // Without files of their own, the samples to evaluate with are held back.
  return absl::StrJoin(for_evaluation && !test_files.empty() ? test_files : files, ", ");
}

// Whether the learning rate of a step depends on how many steps there will be.
bool DependsOnLength(const proto::Schedule& schedule) {
  switch (schedule.kind_case()) {
    case proto::Schedule::kStaircase:
    case proto::Schedule::kCosine:
    case proto::Schedule::kLinear:
    case proto::Schedule::kOneCycle:
      return true;
    case proto::Schedule::kConstant:
    case proto::Schedule::kPlateau:
    case proto::Schedule::KIND_NOT_SET:
      break;
  }
  return false;
}

std::string LengthOf(const proto::Training& training) {
  if (training.has_steps()) return absl::StrCat(training.steps());
  return training.has_epochs() ? absl::StrCat(training.epochs(), " epochs") : "those of the default epochs";
}

}  // namespace

std::string NamesToResumeWith() { return absl::StrJoin(kNames, ", "); }

absl::StatusOr<std::set<std::string>> ParseResumeWith(const std::vector<std::string>& given) {
  std::set<std::string> names;
  for (const std::string& one : given) {
    const std::string name = absl::StrReplaceAll(one, {{"_", "-"}});
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      Suggester suggester(name);
      for (const char* known : kNames) suggester.Consider(known);
      return absl::InvalidArgumentError(absl::StrCat("--resume-with: expected what may change, some of ",
                                                     NamesToResumeWith(), "; found \"", one, "\"",
                                                     suggester.Question()));
    }
    names.insert(name);
  }
  return names;
}

std::string NameToResumeWith(const std::string& option) {
  constexpr absl::string_view kAugments[] = {"data-crop", "data-flip", "data-images-hue", "data-images-jitter",
                                             "data-images-least-area"};
  if (option == kSteps) return "";
  if (option == kLearningRate || option == kBatch) return option;
  if (IsOfLayers(option)) return kLayers;
  if (IsOfUpdate(option)) return absl::EndsWith(option, absl::StrCat("-", kLearningRate)) ? kLearningRate : kOptimizer;
  if (std::find(std::begin(kAugments), std::end(kAugments), option) != std::end(kAugments)) return kAugmentation;
  if (IsOfSamples(option) || IsOfEvaluating(option) || option == kData || absl::StartsWith(option, "data-"))
    return kData;
  // A schedule may go by evaluations.
  if (absl::StartsWith(option, kSchedule) || absl::StartsWith(option, "evaluate-")) return kSchedule;
  return kOptimizer;
}

bool ChangesOrder(const std::string& option) {
  const std::string name = NameToResumeWith(option);
  return name == kBatch || (name == kData && option != kChecksum && option != kImagesCache && !IsOfEvaluation(option) &&
                            !IsOfEvaluating(option));
}

bool ChangesEvaluation(const std::string& option) {
  return IsOfEvaluation(option) || IsOfEvaluating(option) || option == kData || option == kImagesCache ||
         option == "data-mean" || option == "data-deviation";
}

KeptOptions KeptOptions::Of(const TrainingOptions& given, const TrainingData& data, const proto::Network& network) {
  KeptOptions kept;
  const bool by_evaluations = given.training.schedule().has_plateau();
  const bool judged = data.evaluation != nullptr && (by_evaluations || !given.training.best().metric().empty());
  proto::Optimizer optimizer = given.optimizer;
  optimizer.mutable_average()->clear_evaluate();
  if (judged) optimizer.mutable_average()->set_evaluate(given.optimizer.average().evaluate());
  if (!given.optimizer.has_average()) optimizer.clear_average();
  for (auto& [name, value] : ListProtoFlags("", kOptimizer, optimizer)) kept.values_[name] = std::move(value);
  // The session's conditions have these.
  kept.values_.erase(kOptimizer);
  kept.values_.erase("state");
  if (!kept.values_.contains(kLearningRate)) kept.values_[kLearningRate] = absl::StrCat(optimizer.learning_rate());
  kept.KeepUpdates(network, optimizer.learning_rate());
  kept.values_.merge(WordsOfLayers(network));

  proto::Training training;
  *training.mutable_schedule() = given.training.schedule();
  *training.mutable_no_decay() = given.training.no_decay();
  if (by_evaluations && given.training.has_evaluate_every()) {
    training.set_evaluate_every(given.training.evaluate_every());
  }
  for (auto& [name, value] : ListProtoFlags("", "training", training)) kept.values_[name] = std::move(value);
  if (!kept.values_.contains(kSchedule)) kept.values_[kSchedule] = "constant";
  if (DependsOnLength(given.training.schedule())) kept.values_[kSteps] = LengthOf(given.training);

  if (judged) {
    const int64_t batches = given.training.evaluate_batches();
    kept.values_[kEvaluateBatches] = batches > 0 ? absl::StrCat(batches) : kAllBatches;
  }

  const OptionList data_options = ListProtoFlags("data-", kData, given.training.data());
  for (const auto& [name, value] : data_options) {
    if (!NamesFiles(name) && !ChangesNothing(name)) kept.values_[name] = value;
  }
  const Dataset& samples = data.training_judged == nullptr ? *data.training : *data.training_judged;
  kept.values_[kSamples] = absl::StrCat(data.training->size());
  kept.values_[kChecksum] = ChecksumOf(samples);
  kept.files_[kSamples] = kept.files_[kChecksum] = ListFiles(data_options, /*for_evaluation=*/false);
  if (given.training.data().has_images()) {
    kept.values_[kImagesCache] = given.training.data().images().cache().empty() ? "none" : "a file";
  }
  if (judged) {
    kept.values_[kEvaluationSamples] = absl::StrCat(data.evaluation->size());
    kept.values_[kEvaluationChecksum] = ChecksumOf(*data.evaluation);
    kept.files_[kEvaluationSamples] = kept.files_[kEvaluationChecksum] =
        ListFiles(data_options, /*for_evaluation=*/true);
  }
  kept.LeaveOut();
  return kept;
}

// `learning_rate` is that of the training, which may be another than the file's: then each update's own is another in
// the same ratio.
void KeptOptions::KeepUpdates(const proto::Network& network, double learning_rate) {
  values_[kUpdates] = absl::StrCat(network.update_size());
  for (int k = 0; k < network.update_size(); ++k) {
    const auto& update = network.update(k);
    const std::string prefix = absl::StrCat(kUpdatePrefix, k + 1, "-");
    values_[prefix + "objective"] = absl::StrJoin(update.objective(), ",");
    values_[prefix + kOptimizer] = update.has_optimizer() ? "its own" : "the network's";
    if (!update.has_optimizer()) continue;
    proto::Optimizer own = update.optimizer();
    own.clear_state();    // the session's conditions have it,
    own.clear_average();  // and this is of all updates
    const double in_file = network.optimizer().learning_rate();
    if (learning_rate != in_file && in_file != 0) {
      own.set_learning_rate(own.learning_rate() / in_file * learning_rate);
    }
    for (auto& [name, value] : ListProtoFlags(prefix, prefix + "kind", own)) values_[name] = std::move(value);
    values_.erase(prefix + "kind");  // the session's conditions have it, too
    values_.try_emplace(prefix + kLearningRate, absl::StrCat(own.learning_rate()));
  }
}

void KeptOptions::LeaveOut() {
  std::erase_if(values_, [](const auto& one) { return IsToldBySamples(one.first); });
}

bool KeptOptions::HasEvaluation() const { return values_.contains(kEvaluationChecksum); }

bool KeptOptions::EvaluatesSomeBatches() const {
  const auto found = values_.find(kEvaluateBatches);
  return found != values_.end() && found->second != kAllBatches;
}

std::string KeptOptions::FilesOf(const std::string& option) const {
  const auto found = files_.find(option);
  return found == files_.end() ? "" : found->second;
}

std::optional<std::string> KeptOptions::ValueOf(const std::string& option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::nullopt : std::optional<std::string>(found->second);
}

void KeptOptions::SetBatch(int64_t samples) { SetBatch(absl::StrCat(samples)); }
void KeptOptions::SetBatch(const std::string& samples) { values_[kBatch] = samples; }

absl::StatusOr<std::optional<KeptOptions>> KeptOptions::From(const checkpoint::Metadata& metadata) {
  const auto found = metadata.find(kKey);
  if (found == metadata.end()) return std::nullopt;
  KeptOptions kept;
  const auto read = [&]() -> absl::Status {
    checkpoint::JsonReader json(found->second);
    SNUG_RETURN_IF_ERROR(json.BeginObject());
    std::string name;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&name));
      if (!more) return json.End();
      SNUG_ASSIGN_OR_RETURN(kept.values_[name], json.String());
    }
  };
  SNUG_RETURN_IF_ERROR(Annotate(read(), absl::StrCat("metadata \"", kKey, "\"")));
  kept.LeaveOut();
  return kept;
}

std::string KeptOptions::ToJson() const {
  Json json;
  json.Object();
  for (const auto& [name, value] : values_) json.Key(name).String(value);
  json.End();
  return json.text();
}

std::vector<OptionChange> KeptOptions::ChangesTo(const KeptOptions& later, int64_t step) const {
  std::set<std::string> names;
  for (const auto& [name, value] : values_) names.insert(name);
  for (const auto& [name, value] : later.values_) names.insert(name);
  const auto value_of = [](const KeptOptions& options, const std::string& name) {
    const auto found = options.values_.find(name);
    if (found != options.values_.end()) return found->second;
    return std::string(IsOfLayers(name) ? kNone : kDefault);
  };
  // Older checkpoints say nothing of layers, nor of updates. Where there are more or fewer than before, that says
  // enough.
  const bool both_tell_updates = values_.contains(kUpdates) && later.values_.contains(kUpdates);
  const bool other_updates = both_tell_updates && value_of(*this, kUpdates) != value_of(later, kUpdates);
  const auto tells_layers = [](const KeptOptions& options) {
    return std::any_of(options.values_.begin(), options.values_.end(),
                       [](const auto& one) { return IsOfLayers(one.first); });
  };
  const bool both_tell_layers = tells_layers(*this) && tells_layers(later);
  std::vector<OptionChange> changes;
  for (const std::string& name : names) {
    if (IsOfLayers(name) && !both_tell_layers) continue;
    if (IsOfUpdate(name) && (!both_tell_updates || (other_updates && name != kUpdates))) continue;
    // With other data there may be another length, and where the schedule does not go by it, none is kept. Nor is what
    // evaluations are of where nothing went by them.
    const bool in_both = values_.contains(name) && later.values_.contains(name);
    const bool may_be_unknown = name == kSteps || name == kImagesCache || IsOfEvaluation(name) || IsOfEvaluating(name);
    if (may_be_unknown && !in_both) continue;
    const std::string before = value_of(*this, name), after = value_of(later, name);
    if (IsNothingByDefault(name) && IsNothing(before) && IsNothing(after)) continue;
    if (before != after) changes.push_back({.step = step, .name = name, .before = before, .after = after});
  }
  // The samples tell whether a cache has other numbers than the files that it was made of. It is named for that.
  const bool other_numbers = std::any_of(changes.begin(), changes.end(), [](const OptionChange& one) {
    return one.name == kChecksum || one.name == kEvaluationChecksum;
  });
  if (!other_numbers) std::erase_if(changes, [](const OptionChange& one) { return one.name == kImagesCache; });
  return changes;
}

bool ChangesTensors(const OptionChange& change) {
  if (absl::EndsWith(change.name, "momentum")) return IsNothing(change.before) != IsNothing(change.after);
  // Averages are kept where anything is said of them.
  return absl::StartsWith(change.name, "average-") && (change.before == kDefault) != (change.after == kDefault);
}

}  // namespace snug::core::cli
