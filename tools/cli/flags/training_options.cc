#include "tools/cli/flags/training_options.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/compile/compile_settings.h"
#include "engine/compile/defaults.h"
#include "engine/compile/import/check_optimizer.h"
#include "engine/compile/memory/memory_settings.h"
#include "engine/train/training_options.h"
#include "proto/train.pb.h"

namespace snug::core::cli {
namespace {

// Checks values that the messages hold as text.
absl::Status CheckTexts(const proto::Training& training, const OptionPlaces& places) {
  if (training.has_precision()) {
    const absl::StatusOr<DType> dtype = ParsePrecision(training.precision());
    if (!dtype.ok()) return places.Error("training.precision", dtype.status().message());
  }
  return CheckMemory({&training.memory(), places});
}

// Steps given on the command line replace the file's epochs, and epochs its steps.
void OverrideTraining(const proto::Training& given, proto::Training* base) {
  if (given.has_steps()) base->clear_epochs();
  if (given.has_epochs()) base->clear_steps();
  Override(given, base);
}

absl::Status Add(const proto::Training& training, const proto::Optimizer& optimizer, const OptionPlaces& places,
                 TrainingOptions* options) {
  SNUG_RETURN_IF_ERROR(CheckTraining(training, places));
  SNUG_RETURN_IF_ERROR(CheckTexts(training, places));
  SNUG_RETURN_IF_ERROR(CheckOptimizer(optimizer, places));
  OverrideTraining(training, &options->training);
  Override(optimizer, &options->optimizer);
  if (training.no_decay_size() > 0) options->no_decay_places = places;
  return absl::OkStatus();
}

// A turned hue needs colours. That is the network's to say, whichever of the files or the command line asks for it.
absl::Status CheckHue(const LoadedNetwork& model, const TrainingOptions& flags, const TrainingOptions& combined) {
  if (!combined.training.data().has_images() || !(combined.training.data().images().hue() > 0)) return absl::OkStatus();
  for (const proto::Input& input : model.network.input()) {
    if (input.name() != "image" || input.shape().dim_size() != 3 || input.shape().dim(0) != 1) continue;
    OptionPlaces places = OptionPlaces::OnCommandLine();
    const auto has_hue = [](const proto::Training& training) { return training.data().images().has_hue(); };
    for (const LoadedNetwork* file : combined.files) {
      if (has_hue(flags.training)) break;
      places = OptionPlaces::InFile(file->source_map);
      if (has_hue(file->network.training())) break;
    }
    return places.Error(
        "training.data.images.hue",
        absl::StrCat("expected 0, as the network's input \"image\" has 1 channel, and grey has no hue; found ",
                     combined.training.data().images().hue()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainingOptions> CombineTrainingOptions(const LoadedNetwork& model, const std::string& training_file,
                                                       const TrainingOptions& flags) {
  TrainingOptions options;
  SNUG_RETURN_IF_ERROR(
      Add(model.network.training(), model.network.optimizer(), OptionPlaces::InFile(model.source_map), &options));
  if (!training_file.empty()) {
    SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadTrainingFile(training_file));
    options.file = std::make_unique<const LoadedNetwork>(std::move(loaded));
    SNUG_RETURN_IF_ERROR(Add(options.file->network.training(), options.file->network.optimizer(),
                             OptionPlaces::InFile(options.file->source_map), &options));
    options.files.push_back(options.file.get());
  }
  options.files.push_back(&model);
  SNUG_RETURN_IF_ERROR(flags.implied_for_training->CheckAgainst(options.training));
  SNUG_RETURN_IF_ERROR(flags.implied_for_optimizer->CheckAgainst(options.optimizer));
  SNUG_RETURN_IF_ERROR(Add(flags.training, flags.optimizer, OptionPlaces::OnCommandLine(), &options));
  SNUG_RETURN_IF_ERROR(CheckHue(model, flags, options));
  SetDefaultKind(&options.optimizer);
  return options;
}

}  // namespace snug::core::cli
