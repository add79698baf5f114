// The `training { }` and `optimizer { }` of a run: the flags' come first, then those of --training=FILE, then the
// model file's. Each is checked where it was written.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/option_places.h"
#include "proto/text_loader.h"  // with the messages

namespace snug::cli {

struct TrainingOptions {
  proto::Training training;
  proto::Optimizer optimizer;
  OptionPlaces no_decay_places;  // whether its patterns match anything is known once the network is there

  std::unique_ptr<const LoadedNetwork> file;  // of --training; null: none
  std::vector<const LoadedNetwork*> files;    // behind the flags; what comes first stands first
};

// `model` must outlive the result. `flags`: only what the command line says.
absl::StatusOr<TrainingOptions> CombineTrainingOptions(const LoadedNetwork& model, const std::string& training_file,
                                                       const TrainingOptions& flags);

}  // namespace snug::cli
