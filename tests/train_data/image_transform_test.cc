#include "engine/train/data/image_transform.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace snug::core {
namespace {

constexpr int kSide = 4;
const std::vector<DataField> kFields = {{.name = "image", .type = {.shape = {2, kSide, kSide}}}};

std::vector<float> Apply(const ImageOptions& options, int64_t epoch, int64_t sample, uint64_t key = 1) {
  const auto transform = ImageTransform::Create(kFields, options, key);
  EXPECT_TRUE(transform.ok()) << transform.status().message();
  std::vector<float> image(2 * kSide * kSide);
  std::iota(image.begin(), image.end(), 1.0F);  // no pixel is 0
  std::vector<float> scratch(static_cast<size_t>(transform->scratch_floats()));
  transform->Apply(epoch, sample, image.data(), scratch.data());
  return image;
}

// The image moved by (dy, dx) with zeros around it, and its mirror image: written in the plainest way.
std::vector<float> Moved(int dy, int dx, bool mirrored) {
  std::vector<float> moved;
  for (int c = 0; c < 2; ++c) {
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int from_y = y + dy;
        const int from_x = (mirrored ? kSide - 1 - x : x) + dx;
        const bool inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
        moved.push_back(inside ? static_cast<float>(1 + (c * kSide + from_y) * kSide + from_x) : 0.0F);
      }
    }
  }
  return moved;
}

TEST(ImageTransform, EveryCropAndMirrorImageComesAboutAsOften) {
  std::map<std::vector<float>, int> expected;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      for (const bool mirrored : {false, true}) expected[Moved(dy, dx, mirrored)] = 0;
    }
  }
  ASSERT_EQ(expected.size(), 18U);
  for (int64_t sample = 0; sample < 1800; ++sample) {
    const auto found = expected.find(Apply({.crop_padding = 1, .flip = true}, 0, sample));
    ASSERT_NE(found, expected.end()) << sample;
    ++found->second;
  }
  for (const auto& [image, count] : expected) EXPECT_NEAR(count, 100, 45);
}

TEST(ImageTransform, EpochSampleAndKeyDecide) {
  const ImageOptions options = {.crop_padding = 3, .flip = true};
  EXPECT_EQ(Apply(options, 2, 7), Apply(options, 2, 7));
  std::set<std::vector<float>> by_epoch;
  std::set<std::vector<float>> by_sample;
  std::set<std::vector<float>> by_key;
  for (int i = 0; i < 20; ++i) {
    by_epoch.insert(Apply(options, i, 7));
    by_sample.insert(Apply(options, 2, i));
    by_key.insert(Apply(options, 2, 7, static_cast<uint64_t>(i)));
  }
  EXPECT_GT(by_epoch.size(), 10U);
  EXPECT_GT(by_sample.size(), 10U);
  EXPECT_GT(by_key.size(), 10U);
}

TEST(ImageTransform, EachChannelHasItsMeanAndDeviation) {
  const std::vector<float> image = Apply({.mean = {1, 17}, .deviation = {2, 4}}, 0, 0);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(image[static_cast<size_t>(i)], static_cast<float>(i) / 2);
    EXPECT_EQ(image[static_cast<size_t>(16 + i)], static_cast<float>(i) / 4);
  }
  EXPECT_EQ(Apply({.deviation = {2}}, 0, 0)[31], 16);
}

// Zeros are put around the image, not around the normalised one.
TEST(ImageTransform, CropsBeforeItNormalises) {
  bool seen = false;
  for (int64_t sample = 0; sample < 20; ++sample) {
    const std::vector<float> crop = Apply({.crop_padding = 1}, 0, sample);
    const std::vector<float> normalised = Apply({.crop_padding = 1, .mean = {10}}, 0, sample);
    for (size_t i = 0; i < crop.size(); ++i) EXPECT_EQ(normalised[i], crop[i] - 10);
    seen |= crop[0] == 0;
  }
  EXPECT_TRUE(seen);
}

TEST(ImageTransform, WhatIsNoImageCanOnlyBeNormalised) {
  const std::vector<DataField> flat = {{.name = "image", .type = {.shape = {784}}}};
  EXPECT_TRUE(ImageTransform::Create(flat, {.mean = {0.5F}}, 0).ok());
  EXPECT_EQ(ImageTransform::Create(flat, {.flip = true}, 0).status().message(),
            "image options: field \"image\": only [channels, height, width] can be cropped and flipped, found "
            "float32[784]");
}

}  // namespace
}  // namespace snug::core
