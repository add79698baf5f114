// The statistics that batch norm's fast kernels measure, of data from which a shift is easily chosen badly.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/kernels/batch_norm/batch_norm.h"

namespace snug::core {
namespace {

struct Statistics {
  std::vector<float> mean, var;
};

Statistics Measure(const ChannelView& view, const std::vector<float>& x) {
  const auto channels = static_cast<size_t>(view.channels);
  Statistics found = {std::vector<float>(channels), std::vector<float>(channels)};
  std::vector<float> y(x.size());
  std::vector<char> workspace(static_cast<size_t>(BatchNormWorkspace(view)));
  BatchNormFast(2, view,
                BatchNormForward<float>{.x = x.data(),
                                        .y = y.data(),
                                        .batch_mean = found.mean.data(),
                                        .batch_var = found.var.data(),
                                        .epsilon = 1e-5},
                workspace.data());
  return found;
}

// Images whose corners have another number than the rest, as padding, a frame or a watermark makes them.
void ExpectStatistics(int64_t images, int64_t pixels, float corner, float rest) {
  constexpr int64_t kChannels = 3;
  const double n = static_cast<double>(images * pixels), corners = static_cast<double>(images) / n;
  const double off = static_cast<double>(corner) - static_cast<double>(rest);
  const double mean = static_cast<double>(rest) + off * corners, var = off * off * corners * (1 - corners);
  for (const bool apart : {true, false}) {
    const ChannelView view =
        apart ? ChannelView(images, kChannels, pixels) : ChannelView(images * pixels, kChannels, 1);
    const int64_t image = pixels * kChannels;
    std::vector<float> x(static_cast<size_t>(images * image), rest);
    for (int64_t i = 0; i < images; ++i) {
      for (int64_t c = 0; c < kChannels; ++c) x[static_cast<size_t>(i * image + c * (apart ? pixels : 1))] = corner;
    }
    const Statistics found = Measure(view, x);
    for (size_t c = 0; c < kChannels; ++c) {
      EXPECT_NEAR(found.mean[c], mean, 1e-5 * (std::fabs(mean) + std::sqrt(var))) << corner << " in " << rest;
      EXPECT_NEAR(found.var[c], var, 1e-4 * var) << corner << " in " << rest << (apart ? ", planes" : ", rows");
    }
  }
}

TEST(BatchNormStatistics, AreExactWhereTheCornersAreOutliers) {
  ExpectStatistics(16, 112 * 112, 1000.1F, 0);
  ExpectStatistics(32, 112 * 112, 7.7F, 0.3F);
  ExpectStatistics(16, 200 * 200, 0.3F, 0.1F);
  ExpectStatistics(1, 200 * 200, 1000.1F, 0.1F);
}

TEST(BatchNormStatistics, OfNumbersThatAreAllTheSameAreThatAndZero) {
  for (const ChannelView view : {ChannelView(16, 2, 100), ChannelView(1600, 2, 1)}) {
    const Statistics found = Measure(view, std::vector<float>(3200, 0.1F));
    for (const float mean : found.mean) EXPECT_FLOAT_EQ(mean, 0.1F);
    for (const float var : found.var) EXPECT_NEAR(var, 0, 1e-14);
  }
}

TEST(BatchNormStatistics, ANumberThatIsNoneIsNotLost) {
  for (const ChannelView view : {ChannelView(16, 2, 100), ChannelView(1600, 2, 1)}) {
    std::vector<float> x(3200, 0.1F);
    x[1000] = NAN;  // of the first channel in both
    const Statistics found = Measure(view, x);
    EXPECT_TRUE(std::isnan(found.mean[0]) && std::isnan(found.var[0]));
    EXPECT_FLOAT_EQ(found.mean[1], 0.1F);
  }
}

}  // namespace
}  // namespace snug::core
