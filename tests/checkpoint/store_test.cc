#include "engine/train/checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/checkpoint_content.h"
#include "tests/checkpoint/simulated_disk.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(CheckpointStore, KeepsTheLastAndFindsTheNewest) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 2});
  for (const int64_t step : {10, 200, 1'000'000'000, 30}) {
    ASSERT_TRUE(SaveStep(store, step).ok()) << step;
    EXPECT_TRUE(ContentOfStep(step).IsIn(disk, store.PathOf(step)));
  }
  // A step that was saved after a later one takes nothing of that away.
  EXPECT_THAT(disk.Paths(), ElementsAre("run/step-000000030.safetensors", "run/step-000000200.safetensors",
                                        "run/step-1000000000.safetensors"));
  const auto found = store.Newest();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->step, 1'000'000'000);
  EXPECT_EQ(found->path, "run/step-1000000000.safetensors");
  EXPECT_THAT(found->warnings, IsEmpty());
}

TEST(CheckpointStore, ReplacesAStepThatIsSavedAgain) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 1});
  ASSERT_TRUE(SaveStep(store, 3).ok());
  const ContentOfStep other(4);
  ASSERT_TRUE(store.Save(3, other.tensors(), other.metadata()).ok());
  EXPECT_TRUE(other.IsIn(disk, store.PathOf(3)));
  EXPECT_THAT(disk.Paths(), ElementsAre("run/step-000000003.safetensors"));
}

TEST(CheckpointStore, KeepsTheBestBesideTheOthers) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 1});
  for (const int64_t step : {1, 2, 3, 4}) {
    const ContentOfStep content(step);
    if (step < 3) {
      ASSERT_TRUE(store.SaveBest(step, content.tensors(), content.metadata()).ok());
    }
    ASSERT_TRUE(SaveStep(store, step).ok());
  }
  EXPECT_TRUE(ContentOfStep(2).IsIn(disk, store.BestPath()));
  EXPECT_THAT(disk.Paths(), ElementsAre("run/best.safetensors", "run/step-000000004.safetensors"));
  EXPECT_EQ(store.Newest()->step, 4);
  EXPECT_THAT(*store.Steps(), ElementsAre(4));
  ASSERT_TRUE(disk.Create("run/best.safetensors.tmp").ok());  // as a killed program leaves it
  EXPECT_THAT(store.Tidy(4), IsEmpty());
  EXPECT_THAT(disk.Paths(), ElementsAre("run/best.safetensors", "run/step-000000004.safetensors"));
}

TEST(CheckpointStore, PassesOverWhatIsDamagedAndSaysSo) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 9});
  for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(SaveStep(store, step).ok());
  disk.Content(store.PathOf(4)).pop_back();
  disk.Content(store.PathOf(3)).back() ^= 1;
  const auto found = store.Newest();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->step, 2);
  EXPECT_THAT(found->warnings,
              ElementsAre(HasSubstr("passed over: run/step-000000004.safetensors: expected 168 bytes of data after the "
                                    "header, found 167: the file is cut short"),
                          HasSubstr("passed over: run/step-000000003.safetensors: its content does not have the "
                                    "checksum of its metadata")));
}

// Wherever a bit is wrong, but in the blanks of the header and in how it is spelt.
TEST(CheckpointStore, SeesEveryBitOfTheContent) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run");
  ASSERT_TRUE(SaveStep(store, 7).ok());
  std::string& content = disk.Content(store.PathOf(7));
  for (size_t i = 0; i < content.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::string intact = content;
      content[i] = static_cast<char>(content[i] ^ (1 << bit));
      const auto found = store.Newest();
      if (found.ok()) {
        EXPECT_TRUE(ContentOfStep(7).IsIn(disk, store.PathOf(7))) << "byte " << i << " bit " << bit;
      }
      content = intact;
    }
  }
}

TEST(CheckpointStore, RefusesAFileWithoutAChecksum) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run");
  ASSERT_TRUE(disk.MakeDirectory("run").ok());
  const ContentOfStep content(1);
  ASSERT_TRUE(WriteSafetensors(content.tensors(), content.metadata(), **disk.Create(store.PathOf(1))).ok());
  const auto found = store.Newest();
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(found.status()), HasSubstr("run: no complete checkpoint\n  passed over: run/step-000000001"));
  EXPECT_THAT(Message(found.status()), HasSubstr("expected a checkpoint, found no \"snug.xxh64\" in its metadata"));
}

TEST(CheckpointStore, DoesNotGoBackInSilenceWhereItMayNotRead) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run");
  ASSERT_TRUE(SaveStep(store, 1).ok());
  ASSERT_TRUE(SaveStep(store, 2).ok());
  disk.Deny(store.PathOf(2));
  EXPECT_EQ(store.Newest().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(CheckpointStore, SaysWhichOldFilesItCouldNotRemove) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 1});
  ASSERT_TRUE(SaveStep(store, 1).ok());
  disk.Deny(store.PathOf(1));
  const ContentOfStep content(2);
  const auto saved = store.Save(2, content.tensors(), content.metadata());
  ASSERT_TRUE(saved.ok());
  EXPECT_THAT(saved->warnings, ElementsAre("run/step-000000001.safetensors: cannot remove"));
}

TEST(CheckpointStore, LeavesOtherFilesAlone) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 1});
  ASSERT_TRUE(disk.MakeDirectory("run").ok());
  for (const char* name : {"run/best.safetensors", "run/step-1.safetensors", "run/step-000000001.safetensors.bak",
                           "run/notes.tmp", "run/step-000000002.safetensors.tmp"}) {
    ASSERT_TRUE(disk.Create(name).ok());
  }
  ASSERT_TRUE(SaveStep(store, 5).ok());
  EXPECT_THAT(disk.Paths(), ElementsAre("run/best.safetensors", "run/notes.tmp", "run/step-000000001.safetensors.bak",
                                        "run/step-000000005.safetensors", "run/step-1.safetensors"));
}

TEST(CheckpointStore, TidiesUpAfterAProgramThatWasKilled) {
  SimulatedDisk disk;
  CheckpointStore killed(&disk, "run", {.keep_last = 9});
  for (int64_t step = 1; step <= 4; ++step) ASSERT_TRUE(SaveStep(killed, step).ok());
  ASSERT_TRUE(disk.Create("run/step-000000005.safetensors.tmp").ok());
  CheckpointStore store(&disk, "run", {.keep_last = 2});
  EXPECT_THAT(store.Tidy(3), IsEmpty());
  EXPECT_THAT(disk.Paths(), ElementsAre("run/step-000000002.safetensors", "run/step-000000003.safetensors",
                                        "run/step-000000004.safetensors"))
      << "a later one is not its to remove";
}

TEST(CheckpointStore, RefusesWhatItCannotKeep) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run");
  EXPECT_EQ(Message(store.Save(1, {}, {{"snug.step", "2"}}).status()),
            "metadata \"snug.step\": keys \"snug.*\" are reserved");
  EXPECT_EQ(Message(store.Save(-1, {}, {}).status()), "step: expected at least 0, found -1");
  CheckpointStore keeps_none(&disk, "run", {.keep_last = 0});
  EXPECT_EQ(Message(keeps_none.Save(1, {}, {}).status()), "keep_last: expected at least 1, found 0");
  EXPECT_EQ(disk.calls(), 0);
  EXPECT_EQ(store.Newest().status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace snug::core::checkpoint
