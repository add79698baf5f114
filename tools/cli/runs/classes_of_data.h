// Opens the data of a training, and gives its network as many classes as they have where that is asked for
// (--classes-of-data).
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdio>

#include "engine/train/checkpoint/safetensors.h"
#include "engine/train/trainer.h"

namespace snug::proto {
class Network;
class Training;
}  // namespace snug::proto

namespace snug::core::cli {
class Flags;

// `kept` says in the help what else comes of it.
void AddClassesOfDataFlag(Flags& flags, absl::string_view kept, bool* wanted);

// Also says on `out` what there is to know of the data and of the classes. `goes_on_from` is the metadata of the
// checkpoint that the training goes on from, whose number of classes counts; null where it begins.
absl::StatusOr<TrainingData> OpenDataAndSetClasses(const proto::Training& training, bool classes_of_data,
                                                   const checkpoint::Metadata* goes_on_from, proto::Network* network,
                                                   std::FILE* out);

}  // namespace snug::core::cli
