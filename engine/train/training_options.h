// What Training options mean: whether they make sense, which data they name (open_data.cc), and the learning rate
// (schedule.cc).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "engine/train/trainer.h"
#include "proto/option_places.h"

namespace snug::proto {
class Data;
class Network;
class Schedule;
class Training;
}  // namespace snug::proto

namespace snug::core {

// Checks that Training options make sense, before anything is compiled, opened or written. Fails with InvalidArgument
// that names the option, and where it was written: `training.checkpoint.keep: expected ..., found ...`.
absl::Status CheckTraining(const proto::Training& training, const OptionPlaces& places = {});

// Opens the Datasets that the options name. `seed` decides which samples are held back, and how synthetic ones are
// drawn. The network says how long a window of text is if the options do not. Fails with InvalidArgument where no
// source is named, or where its files are unusable. `kept` are the metadata of a checkpoint that trained parameters
// come from: what was learnt of its data (TrainingData::learnt) then counts for these, and where the data do not fit
// it, that is an error. Null where no checkpoint is read. `goes_on` says that its training goes on with these data.
// `may_lack_labels` says that they are for predictions: a table may have no column of labels then. `progress` hears
// how many of all images are decoded, where that is done before the first step; where it returns false, this fails with
// Aborted.
using DataProgress = std::function<bool(int64_t done, int64_t all)>;
absl::StatusOr<TrainingData> OpenData(const proto::Data& data, const proto::Network& network, uint64_t seed,
                                      const std::map<std::string, std::string>* kept = nullptr, bool goes_on = false,
                                      bool may_lack_labels = false, const DataProgress& progress = nullptr);

// The factor of the optimizer's learning rate over a training. It depends on the step alone, so a training that is
// resumed goes on as it would have. Returns the factor for step `step`, from 0, of `steps`. In a warm-up of w steps,
// step s has (s + 1) / w of the schedule's first factor.
double LearningRateFactor(const proto::Schedule& schedule, int64_t step, int64_t steps);

}  // namespace snug::core
