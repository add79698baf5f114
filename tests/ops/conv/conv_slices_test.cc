// Convolutions of bfloat16 images in slices: where they pay.
#include "engine/base/status.h"
#if SNUG_HAS_ONEDNN
#include <gtest/gtest.h>

#include "ops/kernels/conv/onednn/slices.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::onednn {
namespace {

ConvSpec SpecOf(int64_t batch, int64_t channels, int threads) {
  const Shape x = {batch, channels, 64, 64};  // so large that a slice is one image
  const auto options = proto::ParseOptions<proto::Conv>("kernel: 3 pad: 1");
  proto::Conv conv = options.Get<proto::Conv>();
  conv.set_filters(channels);
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(conv, x);
  SNUG_CHECK_OK(g.status());
  return {.geometry = *g,
          .x = {DType::kBFloat16, x, Layout::ChannelsLast()},
          .w = {DType::kFloat32, {channels, channels, 3, 3}},
          .y = {DType::kBFloat16, x, Layout::ChannelsLast()},
          .threads = threads};
}

bool Pay(const ConvSpec& spec, bool weights_are_input) { return ConvSlices(spec).pay(spec, weights_are_input); }

TEST(ConvSlices, PayWhereEachThreadHasWork) {
  EXPECT_TRUE(Pay(SpecOf(32, 16, 2), true));
  EXPECT_TRUE(Pay(SpecOf(32, 16, 32), true));
  EXPECT_FALSE(Pay(SpecOf(32, 16, 33), true)) << "fewer images than threads";
  EXPECT_FALSE(Pay(SpecOf(1, 16, 1), true)) << "a single slice";
  EXPECT_FALSE(Pay(SpecOf(32, 256, 2), true)) << "too many weights";
}

// Sums over slices are made in a few parts, whatever the number of threads, so that bits do not depend on it.
TEST(ConvSlices, OfGradientsOfWeightsAreLeftToTheWholeWhereThreadsAreMany) {
  EXPECT_TRUE(Pay(SpecOf(32, 16, 2), false));
  EXPECT_TRUE(Pay(SpecOf(32, 16, 8), false));
  EXPECT_FALSE(Pay(SpecOf(32, 16, 9), false));
}

}  // namespace
}  // namespace snug::core::onednn
#endif
