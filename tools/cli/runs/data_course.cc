#include "tools/cli/runs/data_course.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace snug::core::cli {
namespace {

using Metadata = std::map<std::string, std::string>;

// Keys in the metadata. Numbers are counted from 0.
constexpr const char* kSamplesOfStep = "batch";
constexpr const char* kEpochsBegun = "epochs.begun";
constexpr const char* kEpochSteps = "epochs.steps";  // how many steps an epoch has
constexpr const char* kDataStep = "data.begin.step";
constexpr const char* kDataEpoch = "data.begin.epoch";
constexpr const char* kDataEarlier = "data.begin.earlier";  // "0:20,25:40": after step 25, epochs of 40 steps began

// Nothing where the metadata have no such key.
absl::StatusOr<std::optional<int64_t>> CountIn(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  int64_t count = 0;
  constexpr int64_t kMost = int64_t{1} << 40;  // so that sums and products with batches of an epoch fit
  if (absl::SimpleAtoi(found->second, &count) && count >= 0 && count <= kMost) return count;
  return absl::DataLossError(
      absl::StrCat("metadata \"", key, "\": expected a whole number, found \"", found->second, "\""));
}

using Earlier = Trainer::DataBegin::Earlier;

std::string EarlierText(const std::vector<Earlier>& earlier) {
  return absl::StrJoin(earlier, ",", [](std::string* out, const Earlier& one) {
    absl::StrAppend(out, one.step, ":", one.steps_per_epoch);
  });
}

absl::StatusOr<std::vector<Earlier>> EarlierIn(const Metadata& metadata, int64_t before) {
  std::vector<Earlier> earlier;
  const auto found = metadata.find(kDataEarlier);
  if (found == metadata.end()) return earlier;
  for (const absl::string_view text : absl::StrSplit(found->second, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
    Earlier one;
    const int64_t after = earlier.empty() ? -1 : earlier.back().step;
    const bool numbers =
        parts.size() == 2 && absl::SimpleAtoi(parts[0], &one.step) && absl::SimpleAtoi(parts[1], &one.steps_per_epoch);
    if (!numbers || one.step <= after || one.step >= before || one.steps_per_epoch < 0) {
      return absl::DataLossError(absl::StrCat("metadata \"", kDataEarlier,
                                              "\": expected pairs of a step and the steps of an epoch, as 0:20,25:40, "
                                              "ascending and up to step ",
                                              before, "; found \"", found->second, "\""));
    }
    earlier.push_back(one);
  }
  return earlier;
}

}  // namespace

absl::StatusOr<Trainer::DataBegin> DataBeginOf(const Metadata& metadata, const Trainer& trainer, int64_t step,
                                               bool begins_epoch, bool other_samples) {
  Trainer::DataBegin before;
  SNUG_ASSIGN_OR_RETURN(const std::optional<int64_t> began, CountIn(metadata, kDataStep));
  SNUG_ASSIGN_OR_RETURN(const std::optional<int64_t> epoch, CountIn(metadata, kDataEpoch));
  if (began.has_value() && epoch.has_value() && *began <= step) {
    before = {.step = *began, .epoch = *epoch};
    SNUG_ASSIGN_OR_RETURN(before.earlier, EarlierIn(metadata, *began));
  }
  if (!begins_epoch) return before;
  SNUG_ASSIGN_OR_RETURN(const std::optional<int64_t> epoch_steps, CountIn(metadata, kEpochSteps));
  SNUG_ASSIGN_OR_RETURN(const std::optional<int64_t> begun, CountIn(metadata, kEpochsBegun));
  SNUG_ASSIGN_OR_RETURN(const std::optional<int64_t> batch, CountIn(metadata, kSamplesOfStep));
  // Checkpoints that do not say it are of one batch from the beginning on, and, as far as is known, of as many samples.
  const int64_t each = std::max<int64_t>(
      1, epoch_steps.value_or(trainer.samples() / std::max<int64_t>(1, batch.value_or(trainer.batch()))));
  Trainer::DataBegin here{
      .step = step, .epoch = begun.value_or((step + each - 1) / each), .earlier = std::move(before.earlier)};
  const bool is_known = epoch_steps.has_value() || !other_samples;
  if (before.step < step) here.earlier.push_back({.step = before.step, .steps_per_epoch = is_known ? each : 0});
  return here;
}

void KeepDataBegin(const Trainer& trainer, Metadata* metadata) {
  (*metadata)[kEpochsBegun] = absl::StrCat(trainer.epochs_begun());
  (*metadata)[kEpochSteps] = absl::StrCat(trainer.steps_per_epoch());
  const Trainer::DataBegin& data = trainer.data_begin();
  if (data.step == 0) return;
  (*metadata)[kDataStep] = absl::StrCat(data.step);
  (*metadata)[kDataEpoch] = absl::StrCat(data.epoch);
  if (!data.earlier.empty()) (*metadata)[kDataEarlier] = EarlierText(data.earlier);
}

}  // namespace snug::core::cli
