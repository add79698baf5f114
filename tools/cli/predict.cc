// `snug predict NET --checkpoint=...` writes what trained parameters say of each sample, as a table, an array or lines
// of JSON.
#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/train/judgement/class_scores.h"
#include "tools/cli/command.h"
#include "tools/cli/inference.h"
#include "tools/cli/judge/prediction_writer.h"

namespace snug::core::cli {
namespace {

constexpr char kLabelField[] = "label";  // of a table

struct PredictFlags {
  InferenceFlags inference;
  std::vector<std::string> fetch;
  std::string scores, format, output;
  bool json = false;
};

// What is asked for, once the network is known.
struct Predicting {
  PredictionFormat format = PredictionFormat::kCsv;
  std::vector<std::string> written;   // the values whose numbers are written
  std::optional<ClassScores> scores;  // set where the class is told, with its probability
  bool files = false;                 // whether a sample's file is named, where it has one
};

absl::StatusOr<PredictionFormat> FormatOf(const PredictFlags& flags) {
  if (flags.json && !flags.format.empty()) {
    return absl::InvalidArgumentError(
        "--json and --format exclude each other: --format=jsonl writes a document a line");
  }
  if (flags.json) return PredictionFormat::kDocument;
  if (flags.format.empty() || flags.format == "csv") return PredictionFormat::kCsv;
  if (flags.format == "npy") return PredictionFormat::kNpy;
  if (flags.format == "jsonl") return PredictionFormat::kJsonLines;
  return absl::InvalidArgumentError(absl::StrCat("--format: expected csv, npy or jsonl, found \"", flags.format, "\""));
}

absl::StatusOr<Predicting> ChoosePredicting(const PredictFlags& flags, const proto::Network& network) {
  Predicting predicting;
  SNUG_ASSIGN_OR_RETURN(predicting.format, FormatOf(flags));
  std::optional<ClassScores> scores = FindScores(network, flags.scores);
  if (flags.fetch.empty() && !scores.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--fetch: expected the name of a layer whose output is wanted, as there are no class scores: ", kNoScores));
  }
  const bool array = predicting.format == PredictionFormat::kNpy || predicting.format == PredictionFormat::kDocument;
  predicting.written = flags.fetch;
  if (flags.fetch.empty() && array) predicting.written = {scores->scores};
  if (predicting.format == PredictionFormat::kDocument && predicting.written.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--json: expected one value in --fetch, found ",
                                                   predicting.written.size(), "; --format=jsonl writes several"));
  }
  // A table that nobody asked another format for has numbers alone, for programs that read only these.
  const bool numbers_alone = array || (flags.format.empty() && !flags.fetch.empty() && flags.scores.empty());
  const bool among =
      scores.has_value() && (flags.fetch.empty() || !flags.scores.empty() ||
                             std::find(flags.fetch.begin(), flags.fetch.end(), scores->scores) != flags.fetch.end());
  predicting.files = !numbers_alone;
  if (!numbers_alone && among) predicting.scores = std::move(scores);
  return predicting;
}

// What is made of labels is no prediction where these are not known.
absl::Status CheckLabels(const std::vector<std::string>& names, const Inference& inference) {
  if (inference.unlabelled.empty()) return absl::OkStatus();
  const Evaluator& evaluator = *inference.evaluator;
  const Graph& graph = evaluator.first_program().compiled().graph;
  std::set<ValueId> of_labels;
  for (const ValueId input : graph.inputs()) {
    const DataField* const field = evaluator.FieldOf(graph.value(input).name);
    if (field != nullptr && field->name == kLabelField) of_labels.insert(input);
  }
  const auto is_of_labels = [&](ValueId value) { return of_labels.contains(value); };
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    if (!absl::c_any_of(node.inputs, is_of_labels)) continue;
    of_labels.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const std::string& name : names) {
    const auto made_so = [&](const Output& output) { return output.name == name && is_of_labels(output.value); };
    if (!absl::c_any_of(graph.outputs, made_so)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--fetch=", name, ": depends on the labels, and ",
                                                   inference.unlabelled, " has none: leave it out"));
  }
  return absl::OkStatus();
}

// Writes samples batch by batch.
class Predictor {
 public:
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(const PredictFlags& flags, const Predicting& predicting,
                                                           const Inference& inference) {
    const Evaluator& evaluator = *inference.evaluator;
    const Program& program = evaluator.first_program();
    std::unique_ptr<Predictor> predictor(new Predictor(predicting, evaluator.dataset()));
    PredictionTable table{.checkpoint = inference.checkpoint,
                          .samples = evaluator.SamplesIn(flags.inference.batches),
                          .read = inference.read};
    for (const std::string& name : predicting.written) {
      SNUG_ASSIGN_OR_RETURN(const ValueType* const type, predictor->TypeOf(program, name));
      if (type->shape.rank() == 0 || type->shape[0] != program.compiled().batch) {
        return absl::InvalidArgumentError(absl::StrCat("--fetch=", name, ": ", type->ToString(),
                                                       " has no row for each sample; `snug eval` prints such means"));
      }
      table.values.push_back({name, {.dtype = type->dtype, .shape = type->shape.Without(0), .layout = {}}});
    }
    predictor->types_ = table.values;
    if (predicting.scores.has_value()) {
      SNUG_ASSIGN_OR_RETURN(const ValueType* const type, predictor->TypeOf(program, predicting.scores->scores));
      SNUG_ASSIGN_OR_RETURN(predictor->rows_, ScoreReader::Create(*predicting.scores, *type, program.compiled().batch));
      table.told_rows = predictor->rows_->rows_per_sample();
      table.names = NamesOfClasses(evaluator, *predicting.scores);
    }
    table.files = predicting.files && !evaluator.dataset().NameOf(0).empty();
    predictor->files_ = table.files;
    SNUG_ASSIGN_OR_RETURN(predictor->writer_, MakePredictionWriter(predicting.format, std::move(table), flags.output));
    return predictor;
  }

  absl::Status WriteBatch(Program& program, int64_t valid) {
    std::vector<ValueView> batch;
    for (const PredictionTable::Value& value : types_) {
      SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Output(value.name));
      batch.push_back(view);
    }
    std::optional<ValueView> scores;
    if (rows_.has_value()) {
      SNUG_ASSIGN_OR_RETURN(scores, program.Output(predicting_.scores->scores));
    }
    for (int64_t s = 0; s < valid; ++s) {
      PredictedSample sample{.number = samples_++};
      if (files_) sample.file = Printable(dataset_.NameOf(sample.number));
      for (size_t i = 0; i < batch.size(); ++i) {
        sample.values.push_back({&types_[i].type, batch[i].data + s * types_[i].type.size_bytes()});
      }
      for (int64_t row = 0; scores.has_value() && row < rows_->rows_per_sample(); ++row) {
        rows_->Read(*scores, s * rows_->rows_per_sample() + row, &logits_);
        const Prediction p = PredictionOf(logits_);
        sample.told.push_back({p.best, p.probability(p.largest)});
      }
      writer_->Write(sample);
    }
    return writer_->EndBatch();
  }

  absl::Status Finish() { return writer_->Finish(); }
  std::string place() const { return writer_->place(); }
  int64_t samples() const { return samples_; }

 private:
  Predictor(const Predicting& predicting, const Dataset& dataset) : predicting_(predicting), dataset_(dataset) {}

  static absl::StatusOr<const ValueType*> TypeOf(const Program& program, const std::string& name) {
    for (const Endpoint& output : program.compiled().executable.outputs) {
      if (output.name == name) return &output.type;
    }
    return absl::InternalError(absl::StrCat("\"", name, "\" was asked for and is no output"));
  }

  const Predicting& predicting_;
  const Dataset& dataset_;
  std::vector<PredictionTable::Value> types_;
  std::optional<ScoreReader> rows_;
  std::vector<double> logits_;  // of a row
  bool files_ = false;
  std::unique_ptr<PredictionWriter> writer_;
  int64_t samples_ = 0;
};

}  // namespace

absl::StatusOr<int> RunPredict(const Arguments& arguments) {
  PredictFlags f;
  Flags flags(
      "snug predict NET --checkpoint=PATH [--fetch=NAME,...] [flags]",
      "Runs trained parameters over data and writes values of the network for each sample, in the sequence of\n"
      "the data; without --fetch, the most probable class and its probability, or in an array and with --json the\n"
      "scores of all classes. It is written a batch at a time.\n"
      "Nothing needs labels: a table may be without their column, images may lie in a folder that has none of a\n"
      "class, or be named by a list without classes, and of NumPy's files the labels' may be left out. All of such\n"
      "samples are predicted.");
  f.inference.AddTo(flags);
  flags.Add("fetch", &f.fetch, "the values: layers' names, as the last one before the loss");
  flags.Add(
      "format", &f.format,
      "csv, npy (an array; of several values a file each) or jsonl (a JSON object a line); csv and jsonl name the "
      "class, and give its probability, where a value scores classes; default: what the name of --output ends with, or "
      "csv, of numbers alone where there is --fetch");
  flags.Add("scores", &f.scores,
            "the layer whose output scores the classes; default: what the network's accuracy or loss reads");
  flags.Add("output", &f.output, "file for it, which appears when it is whole; default: standard output");
  AddJsonFlag(flags, &f.json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (f.format.empty() && !f.json) {
    for (const char* const format : {"npy", "jsonl"}) {
      if (absl::EndsWith(f.output, absl::StrCat(".", format))) f.format = format;
    }
  }
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(const Predicting predicting, ChoosePredicting(f, loaded.network));
  f.inference.may_lack_labels = true;
  std::vector<std::string> fetch = predicting.written;
  if (predicting.scores.has_value()) fetch.push_back(predicting.scores->scores);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> inference,
                        PrepareInference(std::move(loaded), f.inference, fetch));
  SNUG_RETURN_IF_ERROR(CheckLabels(predicting.written, *inference));
  inference->read.push_back(file);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Predictor> predictor, Predictor::Create(f, predicting, *inference));
  SNUG_RETURN_IF_ERROR(
      inference->evaluator
          ->Run(f.inference.batches,
                {.after_run = [&](Program& program, int64_t valid) { return predictor->WriteBatch(program, valid); }})
          .status());
  SNUG_RETURN_IF_ERROR(predictor->Finish());
  if (!f.output.empty()) {
    std::fprintf(f.json ? stderr : stdout, "%lld rows in %s\n", static_cast<long long>(predictor->samples()),
                 predictor->place().c_str());
  }
  return 0;
}

}  // namespace snug::core::cli
