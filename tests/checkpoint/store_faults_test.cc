// A training run that saves six checkpoints meets a full disk, is killed, or loses the power, at each of its calls in
// turn: the last checkpoint whose saving returned is there, or the one after it, complete.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/checkpoint/store.h"
#include "tests/checkpoint/checkpoint_content.h"
#include "tests/checkpoint/simulated_disk.h"

namespace snug::core::checkpoint {
namespace {

constexpr int64_t kSteps = 6;

struct Run {
  int64_t acknowledged = 0;  // the last step whose saving returned OK
  int64_t started = 0;
};

Run Train(SimulatedDisk& disk) {
  CheckpointStore store(&disk, "run", kKeepTwo);
  Run run;
  for (run.started = 1; run.started <= kSteps; ++run.started) {
    if (!SaveStep(store, run.started).ok()) return run;
    run.acknowledged = run.started;
  }
  return run;
}

// "" if what the disk holds is right.
std::string WhatIsLost(SimulatedDisk& disk, const Run& run) {
  const CheckpointStore store(&disk, "run", kKeepTwo);
  const auto found = store.Newest();
  if (!found.ok()) {
    return run.acknowledged == 0 && absl::IsNotFound(found.status()) ? "" : std::string(found.status().message());
  }
  if (found->step != run.acknowledged && found->step != run.started) return "an older checkpoint came back";
  if (!ContentOfStep(found->step).IsIn(disk, found->path)) return "a checkpoint is not what was saved";
  return "";
}

// Saving goes on, and tidies up.
void ExpectGoesOn(SimulatedDisk& disk) {
  CheckpointStore store(&disk, "run", kKeepTwo);
  for (const int64_t step : {kSteps + 1, kSteps + 2}) {
    const absl::Status saved = SaveStep(store, step);
    ASSERT_TRUE(saved.ok()) << saved;
  }
  EXPECT_THAT(disk.Paths(), testing::ElementsAre(store.PathOf(kSteps + 1), store.PathOf(kSteps + 2)));
}

// A fault at every call; how many of them lost something, the first of them in `example`.
int TrainWithEveryFault(Fault fault, uint64_t seeds, const std::function<void(SimulatedDisk&)>& prepare,
                        std::string* example) {
  int losses = 0;
  int64_t runs = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (int64_t call = 0;; ++call) {
      SimulatedDisk disk;
      prepare(disk);
      disk.FailAfter(call, fault, MixKeys(seed, static_cast<uint64_t>(call)));
      const Run run = Train(disk);
      if (!disk.fault_is_done()) break;
      ++runs;
      disk.Restart();
      const std::string lost = WhatIsLost(disk, run);
      if (lost.empty()) {
        ExpectGoesOn(disk);
      } else if (losses++ == 0) {
        *example = absl::StrCat("call ", call, ", seed ", seed, ": ", lost);
      }
    }
  }
  EXPECT_GT(runs, static_cast<int64_t>(seeds) * kSteps * 8);
  return losses;
}

class EveryFault : public testing::TestWithParam<Fault> {};

TEST_P(EveryFault, LosesNothingThatWasSaved) {
  std::string example;
  EXPECT_EQ(TrainWithEveryFault(
                GetParam(), 100, [](SimulatedDisk&) {}, &example),
            0)
      << example;
}

std::string NameOf(const testing::TestParamInfo<Fault>& info) {
  switch (info.param) {
    case Fault::kError:
      return "Error";
    case Fault::kKill:
      return "Kill";
    case Fault::kPowerLoss:
      return "PowerLoss";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryFault, testing::Values(Fault::kError, Fault::kKill, Fault::kPowerLoss), NameOf);

// The simulation would see it: without either sync checkpoints are lost.
TEST(EveryFaultIsSeen, WouldLoseSomethingWithoutSyncs) {
  std::string example;
  const auto no_file_syncs = [](SimulatedDisk& disk) { disk.IgnoreSyncs(true, false); };
  const auto no_directory_syncs = [](SimulatedDisk& disk) { disk.IgnoreSyncs(false, true); };
  EXPECT_GT(TrainWithEveryFault(Fault::kPowerLoss, 10, no_file_syncs, &example), 0);
  EXPECT_GT(TrainWithEveryFault(Fault::kPowerLoss, 10, no_directory_syncs, &example), 0);
}

TEST(FullDisk, IsSaidWithTheStepAndLeavesNoPartBehind) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", kKeepTwo);
  ASSERT_TRUE(SaveStep(store, 1).ok());
  disk.FailAfter(4, Fault::kError, 1);  // directory, list, create, header
  const absl::Status status = SaveStep(store, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "checkpoint of step 2: No space left on device");
  EXPECT_THAT(disk.Paths(), testing::ElementsAre(store.PathOf(1)));
}

}  // namespace
}  // namespace snug::core::checkpoint
