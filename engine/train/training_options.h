// Opens the Datasets that Training options name.
#pragma once

#include <absl/status/statusor.h>

#include "engine/train/trainer.h"

namespace snug::proto {
class Data;
class Network;
}  // namespace snug::proto

namespace snug::core {

// `seed` decides which samples are held back, and how synthetic ones are drawn. The network says how long a window of
// text is if the options do not. Fails with InvalidArgument where no source is named, or where its files are unusable.
absl::StatusOr<TrainingData> OpenData(const proto::Data& data, const proto::Network& network, uint64_t seed);

}  // namespace snug::core
