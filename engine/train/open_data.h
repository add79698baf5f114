// The Datasets that Training options name.
#pragma once

#include <absl/status/statusor.h>

#include "engine/train/trainer.h"

namespace snug {

namespace proto {
class Data;
class Network;
}  // namespace proto

// `seed` decides which samples are held back, and what synthetic ones look like. The network says how long a window of
// text is, where the options do not. InvalidArgument where no source is named, or its files are not.
absl::StatusOr<TrainingData> OpenData(const proto::Data& data, const proto::Network& network, uint64_t seed);

}  // namespace snug
