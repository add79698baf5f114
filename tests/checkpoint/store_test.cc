#include "engine/train/checkpoint/store.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/bfloat16.h"
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

// A training whose checkpoints are those of even steps, interrupted after step 3 and 5.
TEST(CheckpointStore, WhatDoesNotCountDisplacesNothing) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 2});
  store.CountOnly([](int64_t step) { return step % 2 == 0; });
  const auto save = [&](int64_t step) {
    EXPECT_TRUE(SaveStep(store, step).ok());
    return *store.Steps();
  };
  EXPECT_THAT(save(2), ElementsAre(2));
  EXPECT_THAT(save(3), ElementsAre(2, 3));
  EXPECT_THAT(save(4), ElementsAre(2, 4));
  EXPECT_THAT(save(5), ElementsAre(2, 4, 5));
  EXPECT_THAT(save(7), ElementsAre(2, 4, 7));
  EXPECT_THAT(save(8), ElementsAre(4, 8));
}

// A training that saved after each step goes on with a checkpoint every ten steps.
TEST(CheckpointStore, WhatDoesNotCountStaysWhereThereIsRoom) {
  SimulatedDisk disk;
  CheckpointStore before(&disk, "run", {.keep_last = 4});
  for (int64_t step = 1; step <= 12; ++step) ASSERT_TRUE(SaveStep(before, step).ok());
  CheckpointStore store(&disk, "run", {.keep_last = 4});
  store.CountOnly([](int64_t step) { return step % 10 == 0; });
  const auto save = [&](int64_t step) {
    EXPECT_TRUE(SaveStep(store, step).ok());
    return *store.Steps();
  };
  EXPECT_THAT(store.Tidy(12), IsEmpty());
  EXPECT_THAT(*store.Steps(), ElementsAre(9, 10, 11, 12));
  EXPECT_THAT(save(13), ElementsAre(10, 11, 12, 13));  // by an interruption
  EXPECT_THAT(save(20), ElementsAre(10, 12, 13, 20));
  EXPECT_THAT(save(30), ElementsAre(10, 13, 20, 30));
  EXPECT_THAT(save(40), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(save(43), ElementsAre(10, 20, 30, 40, 43));
  EXPECT_THAT(save(50), ElementsAre(20, 30, 40, 50));
}

// Tensors of all types, one larger than what is read at a time; `b.slot` does not count.
std::vector<TensorBytes> Weights(const std::vector<float>& large, const std::vector<BFloat16>& narrow,
                                 const std::vector<double>& wide, const std::vector<int32_t>& counts) {
  const auto tensor = [](const char* name, ElementType type, const auto& values) {
    const auto bytes = absl::MakeConstSpan(values);
    return TensorBytes{name,
                       type,
                       {static_cast<int64_t>(values.size())},
                       {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size() * sizeof(bytes[0])}};
  };
  return {tensor("a", ElementType::kF32, large), tensor("b", ElementType::kBF16, narrow),
          tensor("b.slot", ElementType::kF64, wide), tensor("c", ElementType::kF64, wide),
          tensor("d", ElementType::kI32, counts)};
}

TEST(CheckpointStore, TheAverageIsTheMeanInDoubleOfEachElement) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 3});
  constexpr size_t kCount = kChunkBytes / sizeof(float) + 5;
  for (const int64_t step : {10, 20, 30}) {
    std::vector<float> large(kCount);
    for (size_t i = 0; i < kCount; ++i) large[i] = static_cast<float>(i % 97) + 0x1p-20F * static_cast<float>(step);
    const int64_t tens = step / 10;
    const auto part = static_cast<float>(tens);
    ASSERT_TRUE(store
                    .Save(step,
                          Weights(large, {BFloat16(1.0F), BFloat16(1 + part * 0x1p-7F)},
                                  {0.1, static_cast<double>(step)}, {static_cast<int32_t>(step)}),
                          {{"network", "net"}, {"epoch", absl::StrCat(step)}})
                    .ok());
  }
  const auto wanted = [](const SafetensorsFile&, const std::string& name) { return name != "b.slot"; };
  const auto saved = store.SaveAverage({10, 20, 30}, wanted);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->path, "run/average.safetensors");
  const auto file = SafetensorsFile::Open(disk, saved->path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->VerifyDigest(/*required=*/true).ok());
  EXPECT_EQ(file->metadata().at("averaged"), "10,20,30");
  EXPECT_EQ(file->metadata().at("epoch"), "30");
  EXPECT_EQ(file->metadata().at("snug.step"), "30");
  EXPECT_EQ(file->Find("b.slot"), nullptr);
  const auto read = [&]<class T>(const char* name, std::vector<T> values) {
    EXPECT_TRUE(
        file->ReadWhole(*file->Find(name), {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)})
            .ok());
    return values;
  };
  const std::vector<float> large = read("a", std::vector<float>(kCount));
  for (size_t i = 0; i < kCount; ++i) {
    double mean = 0;  // of what a float holds of each
    for (const float step : {10.0F, 20.0F, 30.0F}) {
      mean += static_cast<double>(static_cast<float>(i % 97) + 0x1p-20F * step);
    }
    ASSERT_EQ(large[i], static_cast<float>(mean / 3)) << i;
  }
  EXPECT_THAT(read("c", std::vector<double>(2)), ElementsAre((0.1 + 0.1 + 0.1) / 3, 20.0));
  const std::vector<BFloat16> narrow = read("b", std::vector<BFloat16>(2));
  EXPECT_EQ(static_cast<float>(narrow[1]), 1 + 2 * 0x1p-7F);
  EXPECT_THAT(read("d", std::vector<int32_t>(1)), ElementsAre(30));
  // None of the others looks at it, and a killed program's beginning of one is removed.
  EXPECT_EQ(store.Newest()->step, 30);
  ASSERT_TRUE(disk.Create("run/average.safetensors.tmp").ok());
  EXPECT_THAT(store.Tidy(30), IsEmpty());
  EXPECT_THAT(disk.Paths(), testing::Not(testing::Contains("run/average.safetensors.tmp")));
}

TEST(CheckpointStore, AnAverageGoesBeforeANewerCheckpointComes) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 9});
  for (const int64_t step : {1, 2}) ASSERT_TRUE(SaveStep(store, step).ok());
  ASSERT_TRUE(store.SaveAverage({1, 2}, [](const SafetensorsFile&, const std::string&) { return true; }).ok());
  const ContentOfStep content(3);
  ASSERT_TRUE(store.SaveBest(3, content.tensors(), content.metadata()).ok());
  EXPECT_THAT(disk.Paths(), testing::Contains(store.AveragePath())) << "the best displaces none of the newest";
  const auto saved = store.Save(3, content.tensors(), content.metadata());
  ASSERT_TRUE(saved.ok());
  EXPECT_THAT(saved->warnings,
              ElementsAre("run/average.safetensors: removed, because it was the mean of older checkpoints"));
  EXPECT_THAT(disk.Paths(), testing::Not(testing::Contains(store.AveragePath())));
}

TEST(CheckpointStore, AnAverageNeedsAllOfItsCheckpoints) {
  SimulatedDisk disk;
  CheckpointStore store(&disk, "run", {.keep_last = 9});
  for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(SaveStep(store, step).ok());
  const auto all = [](const SafetensorsFile&, const std::string&) { return true; };
  EXPECT_THAT(Message(store.SaveAverage({1, 7}, all).status()), HasSubstr("run/step-000000007.safetensors"));
  disk.Content(store.PathOf(2)).back() ^= 1;
  EXPECT_THAT(Message(store.SaveAverage({1, 2, 3}, all).status()),
              HasSubstr("run/step-000000002.safetensors: its content does not have the checksum"));
  const float number = 1;
  const TensorBytes other{
      "other", ElementType::kF32, {}, {reinterpret_cast<const std::byte*>(&number), sizeof(number)}};
  ASSERT_TRUE(store.Save(4, {other}, {}).ok());
  EXPECT_EQ(
      Message(store.SaveAverage({3, 4}, all).status()),
      "run/step-000000003.safetensors: tensor \"other\": expected F32[] as in run/step-000000004.safetensors, found "
      "none");
  EXPECT_THAT(disk.Paths(), testing::Each(testing::Not(HasSubstr("average"))));
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
