#include <absl/strings/str_cat.h>

#include <cmath>
#include <limits>

#include "engine/base/status.h"
#include "engine/train/training_options.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

// What is counted is multiplied by batches of an epoch and the like, and must not overflow then.
constexpr int64_t kMostCount = 1'000'000'000'000, kMostEpochs = 1'000'000'000, kMostKept = 1'000'000'000;
constexpr int64_t kMostSide = 1 << 14;  // of a picture, in pixels

class Checker {
 public:
  explicit Checker(const OptionPlaces& places) : places_(places) {}

  absl::Status AtLeast(absl::string_view option, int64_t value, int64_t least, int64_t most = kMostCount) const {
    if (value < least) {
      return Error(option, absl::StrCat("expected a whole number of at least ", least, ", found ", value));
    }
    if (value <= most) return absl::OkStatus();
    return Error(option, absl::StrCat("expected a whole number of at most ", most, ", found ", value));
  }

  absl::Status Within(absl::string_view option, double value, double low, double high, int index = 0) const {
    if (value >= low && value <= high) return absl::OkStatus();  // NaN fails both comparisons
    return Error(option, absl::StrCat("expected a number from ", low, " to ", high, ", found ", value), index);
  }

  absl::Status Positive(absl::string_view option, double value, int index = 0) const {
    if (std::isfinite(value) && value > 0) return absl::OkStatus();
    return Error(option, absl::StrCat("expected a number above 0, found ", value), index);
  }

  absl::Status Error(absl::string_view option, absl::string_view message, int index = 0) const {
    return places_.Error(absl::StrCat("training.", option), message, index);
  }

 private:
  const OptionPlaces& places_;
};

absl::Status CheckSchedule(const Checker& check, const proto::Schedule& schedule) {
  constexpr double kMostGrowth = 1e6;
  SNUG_RETURN_IF_ERROR(check.AtLeast("schedule.warm_up", schedule.warm_up(), 0));
  for (int i = 0; i < schedule.staircase().at_size(); ++i) {
    SNUG_RETURN_IF_ERROR(check.Within("schedule.staircase.at", schedule.staircase().at(i), 0, 1, i));
  }
  SNUG_RETURN_IF_ERROR(check.Within("schedule.staircase.factor", schedule.staircase().factor(), 0, kMostGrowth));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.cosine.final", schedule.cosine().final(), 0, kMostGrowth));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.linear.final", schedule.linear().final(), 0, kMostGrowth));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.one_cycle.peak_at", schedule.one_cycle().peak_at(), 0, 1));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.one_cycle.initial", schedule.one_cycle().initial(), 0, kMostGrowth));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.one_cycle.final", schedule.one_cycle().final(), 0, kMostGrowth));
  SNUG_RETURN_IF_ERROR(check.Within("schedule.plateau.factor", schedule.plateau().factor(), 0, 1));
  SNUG_RETURN_IF_ERROR(check.AtLeast("schedule.plateau.patience", schedule.plateau().patience(), 1));
  return check.Within("schedule.plateau.final", schedule.plateau().final(), 0, 1);
}

constexpr double kMostReaders = 1024;  // each is a thread, with a batch of its own

// Each batch sorts them all.
constexpr double kMostBatchesByLength = 1000;

absl::Status CheckData(const Checker& check, const proto::Data& data) {
  SNUG_RETURN_IF_ERROR(check.Within("data.held_back", data.held_back(), 0, 0.999));
  SNUG_RETURN_IF_ERROR(check.AtLeast("data.crop", data.crop(), 0, kMostSide));
  SNUG_RETURN_IF_ERROR(check.Within("data.readers", static_cast<double>(data.readers()), 1, kMostReaders));
  for (int i = 0; i < data.deviation_size(); ++i) {
    SNUG_RETURN_IF_ERROR(check.Positive("data.deviation", data.deviation(i), i));
  }
  for (int i = 0; i < data.mean_size(); ++i) {
    SNUG_RETURN_IF_ERROR(check.Within("data.mean", data.mean(i), -1e9, 1e9, i));
  }
  if (data.images().has_size()) {
    SNUG_RETURN_IF_ERROR(check.AtLeast("data.images.size", data.images().size(), 1, kMostSide));
  }
  SNUG_RETURN_IF_ERROR(check.Within("data.images.least_area", data.images().least_area(), 0, 1));
  SNUG_RETURN_IF_ERROR(check.Within("data.images.jitter", data.images().jitter(), 0, 1));
  SNUG_RETURN_IF_ERROR(check.Within("data.images.hue", data.images().hue(), 0, 0.5));
  SNUG_RETURN_IF_ERROR(check.Within("data.json_lines.by_length", static_cast<double>(data.json_lines().by_length()), 1,
                                    kMostBatchesByLength));
  SNUG_RETURN_IF_ERROR(check.AtLeast("data.digits.samples", data.digits().samples(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("data.textures.samples", data.textures().samples(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("data.spiral.samples", data.spiral().samples(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("data.copy.samples", data.copy().samples(), 0));
  if (const int64_t classes = data.cifar().classes(); classes != 10 && classes != 100) {
    return check.Error("data.cifar.classes", absl::StrCat("expected 10 or 100, found ", classes));
  }
  return check.AtLeast("data.text.window", data.text().has_window() ? data.text().window() : 1, 1);
}

}  // namespace

absl::Status CheckTraining(const proto::Training& training, const OptionPlaces& places) {
  const Checker check(places);
  if (training.has_epochs() && training.has_steps()) {
    return check.Error("steps", "epochs and steps are both given; one of them says how long it takes");
  }
  SNUG_RETURN_IF_ERROR(check.AtLeast("epochs", training.has_epochs() ? training.epochs() : 1, 1, kMostEpochs));
  SNUG_RETURN_IF_ERROR(check.AtLeast("steps", training.has_steps() ? training.steps() : 1, 1));
  SNUG_RETURN_IF_ERROR(check.AtLeast("seed", training.seed(), 0, std::numeric_limits<int64_t>::max()));
  SNUG_RETURN_IF_ERROR(check.AtLeast("batch", training.has_batch() ? training.batch() : 1, 1));
  SNUG_RETURN_IF_ERROR(check.AtLeast("accumulate", training.accumulate(), 1));
  SNUG_RETURN_IF_ERROR(check.AtLeast("evaluate_every", training.evaluate_every(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("evaluate_batches", training.evaluate_batches(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("log_every", training.log_every(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("checkpoint.every", training.checkpoint().every(), 0));
  SNUG_RETURN_IF_ERROR(check.AtLeast("checkpoint.keep", training.checkpoint().keep(), 1, kMostKept));
  if (const proto::Checkpoint& checkpoint = training.checkpoint(); checkpoint.has_average()) {
    SNUG_RETURN_IF_ERROR(check.AtLeast("checkpoint.average", checkpoint.average(), 1));
    if (checkpoint.average() > checkpoint.keep()) {
      return check.Error("checkpoint.average",
                         absl::StrCat("expected at most as many checkpoints as are kept, checkpoint.keep is ",
                                      checkpoint.keep(), ", found ", checkpoint.average()));
    }
  }
  SNUG_RETURN_IF_ERROR(
      check.AtLeast("best.patience", training.best().has_patience() ? training.best().patience() : 1, 1));
  SNUG_RETURN_IF_ERROR(CheckSchedule(check, training.schedule()));
  return CheckData(check, training.data());
}

}  // namespace snug::core
