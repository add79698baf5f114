// Opens folders or tables of image files as the data of a training, an evaluation or predictions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/train/trainer.h"
#include "engine/train/training_options.h"

namespace snug::proto {
class Data;
class Network;
}  // namespace snug::proto

namespace snug::core {

// As OpenData. The names of the classes go with the parameters from then on (TrainingData::learnt): where `kept` has
// them, they are the classes, whichever of them have folders here. With `may_lack_labels`, the images may be of no
// class.
absl::StatusOr<TrainingData> OpenImageData(const proto::Data& data, const proto::Network& network, uint64_t seed,
                                           const std::map<std::string, std::string>* kept, bool may_lack_labels,
                                           const DataProgress& progress);

}  // namespace snug::core
