// The `training { }` and `optimizer { }` of a run: flags come first, then --training=FILE, then the model file. Each
// value is checked, and errors name the place where it was written.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/option_places.h"
#include "proto/text_loader.h"  // includes the messages
#include "tools/cli/flags/proto_flags.h"

namespace snug::core::cli {

struct TrainingOptions {
  proto::Training training;
  proto::Optimizer optimizer;
  OptionPlaces no_decay_places;  // for the check that patterns match something, which needs the network

  std::unique_ptr<const LoadedNetwork> file;  // the file of --training, or null
  std::vector<const LoadedNetwork*> files;    // in the sequence in which they count, after the flags

  // Of options from the command line.
  std::shared_ptr<const ImpliedChoices> implied_for_training, implied_for_optimizer;
};

// `model` must outlive the result. `flags` has only what the command line says.
absl::StatusOr<TrainingOptions> CombineTrainingOptions(const LoadedNetwork& model, const std::string& training_file,
                                                       const TrainingOptions& flags);

}  // namespace snug::core::cli
