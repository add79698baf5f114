// The layers of a classifier whose outputs are its classes, and how they get another number of these, as data have
// another number of classes than the network's file says.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace snug::proto {
class Network;
}

namespace snug::core {
struct TrainingData;

// More classes than any data have; a layer of so many outputs can still be counted in bytes.
inline constexpr int64_t kMostClasses = 10'000'000;

struct ClassHeads {
  std::string labels;               // the input that has the class of each sample
  std::vector<std::string> layers;  // dense or conv layers, each with an output for each class
  int64_t classes = 0;
};

// Finds them by what reads the labels that a loss or metric of the network compares with scores: back from each such
// scores through layers that keep the number of classes. Fails with InvalidArgument, which says why, where a layer is
// met that does not, or where the scores are those of a language model or say yes or no.
absl::StatusOr<ClassHeads> FindClassHeads(const proto::Network& network);

// Gives the layers as many outputs, and the labels that bound.
void SetClasses(const ClassHeads& heads, int64_t classes, proto::Network* network);

// How many classes the labels of the data have: those that have names, or else what the data themselves bound. Nothing
// where they do not say.
std::optional<int64_t> ClassesOf(const TrainingData& data);

// A checkpoint keeps the number of classes where it is not that of the file: a key of TrainingData::learnt.
extern const char kHeadClassesKey[];
// Does what SetClasses does where the metadata of a checkpoint have a number. Returns what there is to say about it;
// empty: nothing. The error is about the metadata, or says why this network has no such layers.
absl::StatusOr<std::string> SetKeptClasses(const std::map<std::string, std::string>& metadata, proto::Network* network);

}  // namespace snug::core
