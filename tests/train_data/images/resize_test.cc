#include "engine/train/data/images/resize.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train_data/image_files.h"

namespace snug::core {
namespace {

std::vector<float> Resized(const Pixels& image, const ImageBox& box, int64_t height, int64_t width) {
  std::vector<float> planes(static_cast<size_t>(image.channels * height * width)), scratch;
  ResizeBox(image.view(), box, height, width, planes.data(), &scratch);
  return planes;
}

Pixels Noise(int64_t width, int64_t height) {
  return Painted(width, height, 3, [](int64_t x, int64_t y, int64_t c) {
    return static_cast<int>(((x * 31 + y * 17 + c * 7) * 2654435761U) >> 9 & 255);
  });
}

TEST(ResizeBox, ItsOwnSizeIsTheImage) {
  const Pixels image = Noise(9, 7);
  const std::vector<float> planes = Resized(image, {.left = 2, .top = 1, .width = 5, .height = 4}, 4, 5);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 4; ++y) {
      for (int64_t x = 0; x < 5; ++x) {
        EXPECT_NEAR(planes[static_cast<size_t>((c * 4 + y) * 5 + x)], image.view().row(1 + y)[(2 + x) * 3 + c] / 255.0,
                    1e-6);
      }
    }
  }
}

// By definition: weights of a triangle as wide as two pixels of the coarser grid, over the box, in double.
double Defined(const Pixels& image, const ImageBox& box, int64_t height, int64_t width, int64_t c, int64_t y,
               int64_t x) {
  const auto axis = [](double from, double length, int64_t samples, int64_t i, int64_t p) {
    const double step = length / static_cast<double>(samples);
    const double middle = from + (static_cast<double>(i) + 0.5) * step;
    return std::max(0.0, 1 - std::abs(static_cast<double>(p) + 0.5 - middle) / std::max(step, 1.0));
  };
  double sum = 0, weights = 0;
  for (auto py = static_cast<int64_t>(box.top); py < static_cast<int64_t>(box.top + box.height); ++py) {
    for (auto px = static_cast<int64_t>(box.left); px < static_cast<int64_t>(box.left + box.width); ++px) {
      const double weight = axis(box.top, box.height, height, y, py) * axis(box.left, box.width, width, x, px);
      sum += weight * image.view().row(py)[px * 3 + c];
      weights += weight;
    }
  }
  return sum / weights / 255;
}

TEST(ResizeBox, SmallerAndLargerAreAsDefined) {
  const Pixels image = Noise(40, 30);
  const ImageBox boxes[] = {{.left = 0, .top = 0, .width = 40, .height = 30},
                            {.left = 3, .top = 5, .width = 31, .height = 7},
                            {.left = 39, .top = 29, .width = 1, .height = 1}};
  for (const ImageBox& box : boxes) {
    for (const int64_t side : {1, 8, 13, 50}) {
      const std::vector<float> planes = Resized(image, box, side, side);
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t y = 0; y < side; y += 3) {
          for (int64_t x = 0; x < side; x += 2) {
            ASSERT_NEAR(planes[static_cast<size_t>((c * side + y) * side + x)],
                        Defined(image, box, side, side, c, y, x), 2e-6)
                << box.left << " to " << side << ": " << c << " " << y << " " << x;
          }
        }
      }
    }
  }
}

TEST(ImageBoxes, DrawnOnesLieWithinTheImageAndVary) {
  const Philox random = {7};
  double least = 1, most = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    const ImageBox box = RandomBox(100, 60, 0.08, 1, random, /*epoch=*/3, sample);
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.top, 0);
    ASSERT_LE(box.left + box.width, 100);
    ASSERT_LE(box.top + box.height, 60);
    ASSERT_LT(std::abs(std::log(box.width / box.height)), std::log(4.0 / 3) + 0.1);
    const double share = box.width * box.height / 6000;
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_GT(most, 0.6);
  const ImageBox again = RandomBox(100, 60, 0.08, 1, random, 3, 5), other = RandomBox(100, 60, 0.08, 1, random, 4, 5);
  EXPECT_EQ(again.left, RandomBox(100, 60, 0.08, 1, random, 3, 5).left);
  EXPECT_NE(again.left + again.width * 1000, other.left + other.width * 1000);
}

TEST(ImageBoxes, WhereNoDrawFitsItIsTheMiddle) {
  const ImageBox box = RandomBox(1000, 2, 1, 1, {7}, 0, 0);
  EXPECT_EQ(box.width, 2);
  EXPECT_EQ(box.height, 2);
  EXPECT_EQ(box.left, 499);
}

TEST(ImageBoxes, TheMiddleIsSevenEighthsOfTheShorterSide) {
  const ImageBox box = MiddleBox(320, 256, 1);
  EXPECT_EQ(box.width, 224);
  EXPECT_EQ(box.height, 224);
  EXPECT_EQ(box.left, 48);
  EXPECT_EQ(box.top, 16);
}

}  // namespace
}  // namespace snug::core
