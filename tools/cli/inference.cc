#include "tools/cli/inference.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/compile/defaults.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/resume.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/tensor_source.h"
#include "engine/train/class_heads.h"
#include "engine/train/training_options.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/proto_flags.h"
#include "tools/cli/preparation_log.h"
#include "tools/cli/runs/trained_data.h"

namespace snug::core::cli {
namespace {

// The file or folder that samples come from, for those sources that may be without labels.
std::string NameOf(const proto::Data& data) {
  if (data.has_images()) return data.images().has_list() ? data.images().list() : data.images().directory();
  return data.has_npy() ? absl::StrJoin(data.npy().file(), ",") : data.csv().file();
}

// The same for those to evaluate with.
std::string NameOfTest(const proto::Data& data) {
  const proto::Images& images = data.images();
  if (data.has_images()) return images.has_test_list() ? images.test_list() : images.test_directory();
  return data.has_npy() ? absl::StrJoin(data.npy().test_file(), ",") : data.csv().test_file();
}

// All samples of data without labels are predicted, so nothing else is read that the same command names.
absl::Status RefuseTestFlags(const proto::Data& given, const std::string& unlabelled) {
  const std::pair<const char*, std::string> flags[] = {
      {"csv-test-file", given.csv().test_file()},
      {"images-test-directory", given.images().test_directory()},
      {"images-test-list", given.images().test_list()},
      {"npy-test-file", absl::StrJoin(given.npy().test_file(), ",")},
  };
  for (const auto& [flag, value] : flags) {
    if (value.empty()) continue;
    const std::string instead = absl::StrReplaceAll(flag, {{"-test", ""}});
    const bool in_folder = given.has_images();
    return absl::InvalidArgumentError(
        absl::StrCat("--data-", flag, "=", value, ": ", unlabelled, " has no labels, so that all of its ",
                     given.has_csv() ? "rows" : "samples", " are predicted and no other ",
                     in_folder ? "images are" : "file is", " read: leave out the flag, or give the ",
                     absl::EndsWith(flag, "directory") ? "folder" : "file", " as --data-", instead));
  }
  return absl::OkStatus();
}

void SayTrainedData(const TrainedData& trained) {
  if (!trained.taken.empty()) absl::FPrintF(stderr, "data: as in the training: %s\n", trained.taken);
  if (!trained.differs.empty()) {
    absl::FPrintF(stderr, "warning: %s: the parameters know other data than these\n", trained.differs);
  }
}

}  // namespace

InferenceFlags::InferenceFlags() : data(std::make_unique<proto::Data>()) {}
InferenceFlags::~InferenceFlags() = default;

void InferenceFlags::AddTo(Flags& flags) {
  flags.Add("checkpoint", &checkpoint,
            "a file of safetensors or of PyTorch, or the directory that `snug train` left: its newest");
  flags.Add("use-average", &use_average,
            "take the parameters' moving averages, which a training with --average-decay keeps");
  flags.Add("part", &part, "of the data: held-back (default) or training");
  flags.Add("seed", &seed,
            "decides what is held back; default: that of the training, as the checkpoint keeps it, or else 0");
  flags.Add("batches", &batches, "at most so many; default: all");
  compile.batch_otherwise = "64, as what comes out does not depend on it";
  compile.AddTo(flags);
  compile.AddKeepDerivedTo(flags);
  memory.AddTo(flags);
  run.AddTo(flags);
  AddProtoFlags("data-", "data", data.get(), flags);
}

absl::StatusOr<std::unique_ptr<Inference>> PrepareInference(LoadedNetwork loaded, const InferenceFlags& flags,
                                                            const std::vector<std::string>& fetch) {
  auto inference = std::make_unique<Inference>();
  inference->loaded = std::move(loaded);
  const proto::Network& network = inference->loaded.network;
  proto::Data data = network.training().data();
  Override(*flags.data, &data);
  if (flags.part != "held-back" && flags.part != "training") {
    return absl::InvalidArgumentError(
        absl::StrCat("--part: expected held-back or training, found \"", flags.part, "\""));
  }
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, flags.compile.Options(flags.memory.streams.count));
  SNUG_ASSIGN_OR_RETURN(options.memory, flags.memory.Options({&inference->loaded}));
  SNUG_ASSIGN_OR_RETURN(SessionOptions session, flags.run.Options(flags.compile.threads > 0, &options));
  SNUG_ASSIGN_OR_RETURN(const Weights weights, OpenWeights(flags.checkpoint));
  SNUG_RETURN_IF_ERROR(SetTrainedClasses(weights, &inference->loaded.network));
  int64_t seed = flags.seed.value_or(0);
  absl::StatusOr<TrainedData> as_trained =
      TakeTrainedData(weights.source->metadata(), *flags.data, flags.seed, &data, &seed);
  if (!as_trained.ok()) return Annotate(as_trained.status(), weights.path);
  SayTrainedData(*as_trained);
  session.seed = static_cast<uint64_t>(seed);
  SNUG_ASSIGN_OR_RETURN(const TrainingData opened,
                        OpenDataAloud(stderr, data, network, static_cast<uint64_t>(seed), &weights.source->metadata(),
                                      /*goes_on=*/false, flags.may_lack_labels));
  inference->read = FilesIn(data);
  inference->read.push_back(weights.path);
  for (const std::string& note : opened.notes) absl::FPrintF(stderr, "data: %s\n", Printable(note));
  if (opened.lacks_labels) SNUG_RETURN_IF_ERROR(RefuseTestFlags(*flags.data, NameOf(data)));
  const bool of_training = flags.part == "training" || opened.lacks_labels;
  if (opened.lacks_labels) inference->unlabelled = NameOf(data);
  if (!of_training && opened.evaluation_lacks_labels) inference->unlabelled = NameOfTest(data);
  const std::shared_ptr<const Dataset>& trained = opened.training_judged ? opened.training_judged : opened.training;
  const std::shared_ptr<const Dataset> dataset = of_training ? trained : opened.evaluation;
  if (dataset == nullptr) {
    return absl::FailedPreconditionError(
        "these data have no part that is held back; --part=training takes all of their samples, and "
        "--data-held-back=0.1 holds some back");
  }
  const bool judged = !opened.lacks_labels && (flags.part == "training" || !opened.evaluation_lacks_labels);
  if (judged) {
    options.fetch = fetch;
  } else {
    // Without labels there is no loss and no metric, nor whatever else reads them.
    for (const std::string& name : fetch) {
      if (std::find(options.only.begin(), options.only.end(), name) == options.only.end()) options.only.push_back(name);
    }
  }
  const int64_t batch = ChooseBatch(BatchFor::kInference, flags.compile.batch, network, network.training());
  SNUG_ASSIGN_OR_RETURN(std::vector<Compiled> programs,
                        Evaluator::CompilePrograms(network, inference->loaded.source_map, OpRegistry::Builtin(),
                                                   options, batch, dataset->size()));
  std::fputs(InVainText(programs.front()).c_str(), stderr);
  SNUG_ASSIGN_OR_RETURN(inference->session, Session::Create(std::move(programs), session));
  SNUG_RETURN_IF_ERROR(LoadWeights(weights, flags.use_average, *inference->session));
  inference->checkpoint = weights.path;
  LoaderOptions loader{.workers = static_cast<int>(data.readers()), .buffers = static_cast<int>(data.readers()) + 2};
  loader.image.mean.assign(data.mean().begin(), data.mean().end());
  loader.image.deviation.assign(data.deviation().begin(), data.deviation().end());
  SNUG_ASSIGN_OR_RETURN(inference->evaluator,
                        Evaluator::Create(network, *inference->session, /*first_program=*/0, dataset, loader));
  return inference;
}

Weights::Weights() = default;
Weights::~Weights() = default;
Weights::Weights(Weights&&) noexcept = default;

absl::StatusOr<Weights> OpenWeights(const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint: expected a file of safetensors or of PyTorch, or the directory that a training left");
  }
  Weights weights;
  weights.files = std::make_unique<checkpoint::PosixFileSystem>();
  SNUG_ASSIGN_OR_RETURN(const checkpoint::CheckpointStore::Found found,
                        checkpoint::FindCheckpoint(*weights.files, path));
  for (const std::string& warning : found.warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
  weights.path = found.path;
  SNUG_ASSIGN_OR_RETURN(weights.source, checkpoint::OpenTensorSource(*weights.files, found.path));
  for (const std::string& note : weights.source->notes()) absl::FPrintF(stderr, "%s: %s\n", found.path, note);
  return weights;
}

absl::Status SetTrainedClasses(const Weights& weights, proto::Network* network) {
  const checkpoint::Metadata& metadata = weights.source->metadata();
  // What a file says of itself must not make the network larger than the file.
  const auto kept = metadata.find(kHeadClassesKey);
  const auto has_as_many = [&](const checkpoint::TensorEntry& tensor) {
    return !tensor.shape.empty() && absl::StrCat(tensor.shape[0]) == kept->second;
  };
  if (kept != metadata.end() && absl::c_none_of(weights.source->tensors(), has_as_many)) {
    return absl::InvalidArgumentError(absl::StrCat(weights.path, ": metadata \"", kHeadClassesKey,
                                                   "\": expected as many classes as a tensor has rows, found ",
                                                   Shown(kept->second)));
  }
  const absl::StatusOr<std::string> said = SetKeptClasses(metadata, network);
  if (!said.ok()) return Annotate(said.status(), weights.path);
  if (!said->empty()) absl::FPrintF(stderr, "network: %s\n", *said);
  return absl::OkStatus();
}

absl::Status LoadWeights(const Weights& weights, bool averages, Session& session) {
  const auto mode = averages ? checkpoint::LoadMode::kAverages : checkpoint::LoadMode::kWeights;
  return checkpoint::LoadState(session, *weights.source, mode).status();
}

}  // namespace snug::core::cli
