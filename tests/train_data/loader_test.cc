#include "engine/train/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/train/data/synthetic.h"
#include "tests/train_data/test_dataset.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using LastBatch = LoaderOptions::LastBatch;

std::shared_ptr<const Dataset> Counting(int64_t size, int64_t broken = -1) {
  return std::make_shared<CountingDataset>(size, broken);
}

std::vector<int32_t> EpochOf(Loader& loader) {
  std::vector<int32_t> labels;
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    for (const int32_t label : LabelsOf(loader, NextOf(loader))) labels.push_back(label);
  }
  return labels;
}

TEST(Loader, AnEpochHoldsEverySampleOnce) {
  const auto loader = MakeLoader(Counting(60), {.batch = 5, .seed = 3});
  std::vector<int32_t> all(60);
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int32_t> first = EpochOf(*loader);
  const std::vector<int32_t> second = EpochOf(*loader);
  EXPECT_NE(first, all);
  EXPECT_NE(first, second);
  for (std::vector<int32_t> epoch : {first, second}) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, all);
  }
}

TEST(Loader, TheSeedAloneMakesTheOrder) {
  const auto one = MakeLoader(Counting(60), {.batch = 5, .seed = 3});
  const auto same = MakeLoader(Counting(60), {.batch = 20, .seed = 3});
  const auto other = MakeLoader(Counting(60), {.batch = 5, .seed = 4});
  const std::vector<int32_t> order = EpochOf(*one);
  EXPECT_EQ(EpochOf(*same), order);
  EXPECT_NE(EpochOf(*other), order);
}

TEST(Loader, WithoutShufflingTheOrderIsTheDatasets) {
  const auto loader = MakeLoader(Counting(4), {.batch = 2, .shuffle = false});
  EXPECT_THAT(LabelsOf(*loader, NextOf(*loader)), ElementsAre(0, 1));
  EXPECT_THAT(LabelsOf(*loader, NextOf(*loader)), ElementsAre(2, 3));
  EXPECT_EQ(loader->position(), (LoaderPosition{1, 0}));
  EXPECT_THAT(LabelsOf(*loader, NextOf(*loader)), ElementsAre(0, 1));
}

TEST(Loader, AShortBatchIsDropped) {
  const auto loader = MakeLoader(Counting(7), {.batch = 3, .shuffle = false});
  EXPECT_EQ(loader->batches_per_epoch(), 2);
  EXPECT_EQ(loader->samples_per_epoch(), 6);
  EXPECT_EQ(NextOf(*loader).valid, 3);
  EXPECT_THAT(LabelsOf(*loader, NextOf(*loader)), ElementsAre(3, 4, 5));
  EXPECT_EQ(NextOf(*loader).position, (LoaderPosition{1, 0}));
}

TEST(Loader, AShortBatchIsPadded) {
  const auto loader =
      MakeLoader(Counting(7), {.batch = 3, .shuffle = false, .last_batch = LastBatch::kPad, .buffers = 1});
  EXPECT_EQ(loader->batches_per_epoch(), 3);
  EXPECT_EQ(loader->samples_per_epoch(), 7);
  NextOf(*loader);
  NextOf(*loader);
  const Batch& last = NextOf(*loader);
  EXPECT_EQ(last.valid, 1);
  EXPECT_THAT(LabelsOf(*loader, last), ElementsAre(6, kIgnoredLabel, kIgnoredLabel));
  EXPECT_EQ(reinterpret_cast<const float*>(last.data[0])[31], 6.31F);
  for (int i = 32; i < 96; ++i) EXPECT_EQ(reinterpret_cast<const float*>(last.data[0])[i], 0) << i;
}

TEST(Loader, WorkersAndBuffersChangeNothing) {
  const auto run = [](int workers, int buffers) {
    const auto dataset = *MakeSynthetic("digits", {.seed = 7, .samples = 50});
    const auto loader = MakeLoader(dataset, {.batch = 8,
                                             .seed = 5,
                                             .image = {.crop_padding = 2, .flip = true, .mean = {0.5F}},
                                             .workers = workers,
                                             .buffers = buffers});
    std::string bytes;
    for (int i = 0; i < 20; ++i) bytes += BytesOf(*loader, NextOf(*loader));
    return bytes;
  };
  const std::string truth = run(1, 1);
  for (const int workers : {1, 2, 4}) {
    for (const int buffers : {2, 3, 8}) EXPECT_TRUE(run(workers, buffers) == truth) << workers << ", " << buffers;
  }
}

TEST(Loader, ResumesAtEveryPosition) {
  const LoaderOptions options = {
      .batch = 3, .seed = 11, .last_batch = LastBatch::kPad, .image = {.crop_padding = 1, .flip = true}, .workers = 2};
  const auto truth = MakeLoader(Counting(10), options);
  const auto sought = MakeLoader(Counting(10), options);
  for (int i = 0; i < 13; ++i) {
    const LoaderPosition position = truth->position();
    const std::string bytes = BytesOf(*truth, NextOf(*truth));
    const auto fresh = MakeLoader(Counting(10), options);
    for (Loader* loader : {fresh.get(), sought.get()}) {
      ASSERT_TRUE(loader->Seek(position).ok());
      EXPECT_EQ(loader->position(), position);
      const Batch& batch = NextOf(*loader);
      EXPECT_EQ(batch.position, position);
      EXPECT_EQ(BytesOf(*loader, batch), bytes) << i;
    }
  }
}

TEST(Loader, TheEndOfAnEpochIsTheStartOfTheNext) {
  const auto loader = MakeLoader(Counting(10), {.batch = 3});
  ASSERT_TRUE(loader->Seek({.epoch = 4, .batch = 3}).ok());
  EXPECT_EQ(loader->position(), (LoaderPosition{5, 0}));
  EXPECT_EQ(loader->Seek({.epoch = 4, .batch = 4}).message(),
            "position: expected an epoch of at least 0 and a batch from 0 to 3, found epoch 4, batch 4");
  EXPECT_EQ(loader->position(), (LoaderPosition{5, 0}));
}

TEST(Loader, ABatchStaysUntilTheNext) {
  const auto loader = MakeLoader(Counting(64), {.batch = 2, .shuffle = false, .workers = 4, .buffers = 2});
  for (int i = 0; i < 32; ++i) {
    const Batch& batch = NextOf(*loader);
    for (int again = 0; again < 3; ++again) {
      std::this_thread::yield();
      EXPECT_THAT(LabelsOf(*loader, batch), ElementsAre(2 * i, 2 * i + 1));
    }
  }
}

TEST(Loader, AnErrorComesOutWhereItIs) {
  for (const int workers : {1, 4}) {
    const auto loader = MakeLoader(Counting(20, /*broken=*/9), {.batch = 2, .shuffle = false, .workers = workers});
    for (int i = 0; i < 4; ++i) EXPECT_EQ(NextOf(*loader).valid, 2);
    for (int again = 0; again < 3; ++again) {
      const auto batch = loader->Next();
      EXPECT_EQ(batch.status().message(), "epoch 0, batch 4, sample 9: some.file: byte 12: expected 1, found 2");
      EXPECT_EQ(batch.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(loader->position(), (LoaderPosition{0, 4}));
    }
    ASSERT_TRUE(loader->Seek({0, 5}).ok());
    EXPECT_THAT(LabelsOf(*loader, NextOf(*loader)), ElementsAre(10, 11));
  }
}

TEST(Loader, IsLeftAtAnyTime) {
  for (int taken = 0; taken < 6; ++taken) {
    const auto loader =
        MakeLoader(Counting(1000, /*broken=*/9), {.batch = 2, .shuffle = false, .workers = 2, .buffers = 8});
    for (int i = 0; i < taken; ++i) (void)loader->Next();
  }
}

TEST(Loader, RefusesWhatCannotBe) {
  const auto error = [](const LoaderOptions& options) {
    return std::string(Loader::Create(Counting(10), options).status().message());
  };
  EXPECT_EQ(error({.batch = 0}), "batch: expected at least 1, found 0");
  EXPECT_EQ(error({.workers = 0}), "workers: expected at least 1, found 0");
  EXPECT_EQ(error({.buffers = 0}), "buffers: expected at least 1, found 0");
  EXPECT_EQ(error({.batch = 11}),
            "batch: expected at most the 10 samples there are, since a short batch is dropped; found 11");
  EXPECT_THAT(error({.image = {.field = "img", .flip = true}}), HasSubstr("the data have no field \"img\""));
  EXPECT_THAT(error({.image = {.field = "label", .flip = true}}), HasSubstr("expected float32, found int32[]"));
  EXPECT_THAT(error({.image = {.mean = {1, 2, 3}}}),
              HasSubstr("mean: expected one number, or one for each of 2 channels, found 3"));
  EXPECT_THAT(error({.image = {.deviation = {1, 0}}}), HasSubstr("deviation: expected more than 0, found 0"));
  EXPECT_THAT(error({.image = {.crop_padding = -1}}), HasSubstr("crop padding: expected at least 0, found -1"));
}

}  // namespace
}  // namespace snug::core
