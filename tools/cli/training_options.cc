#include "tools/cli/training_options.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <utility>

#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/compile/check_optimizer.h"
#include "engine/compile/memory_settings.h"
#include "engine/train/check_training.h"
#include "proto/train.pb.h"
#include "tools/cli/proto_flags.h"

namespace snug::cli {
namespace {

// Values that only the command line's own parsers know.
absl::Status CheckTexts(const proto::Training& training, const OptionPlaces& places) {
  if (training.has_precision()) {
    const std::optional<DType> dtype = DTypeFromName(training.precision());
    if (!dtype.has_value() || !IsFloating(*dtype)) {
      return places.Error("training.precision",
                          absl::StrCat("expected float32, bfloat16 or float64, found \"", training.precision(), "\""));
    }
  }
  return CheckMemory({&training.memory(), places});
}

// Steps take the place of epochs, and epochs that of steps.
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
  SNUG_RETURN_IF_ERROR(Add(flags.training, flags.optimizer, OptionPlaces::OnCommandLine(), &options));
  if (options.optimizer.kind_case() == proto::Optimizer::KIND_NOT_SET) {
    options.optimizer.mutable_sgd()->set_momentum(0.9);
  }
  return options;
}

}  // namespace snug::cli
