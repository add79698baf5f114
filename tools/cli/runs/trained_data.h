// How the data of a training were read, as its checkpoint keeps that, for commands that judge or predict: parameters
// know numbers that were normalised, filled up and held back in one way, and of others they say something, too.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/train/checkpoint/safetensors.h"

namespace snug::proto {
class Data;
}

namespace snug::core::cli {

// Flags as a user would give them, for messages. Empty: there are none.
struct TrainedData {
  std::string taken;    // from the checkpoint, where model file and flags say something else or nothing
  std::string differs;  // what flags say otherwise than the training had it, and how that was
};

// Makes `data`, which has what the model file and the flags say, and `seed` what the training had, but for what flags
// say themselves: these are `given`, and `given_seed`. A checkpoint of an earlier version, of the library or from
// elsewhere keeps none of it and changes nothing.
absl::StatusOr<TrainedData> TakeTrainedData(const checkpoint::Metadata& metadata, const proto::Data& given,
                                            const std::optional<int64_t>& given_seed, proto::Data* data, int64_t* seed);

}  // namespace snug::core::cli
