// Convolutions of bfloat16 images in slices: where they pay.
#include "engine/base/status.h"
#if SNUG_HAS_ONEDNN
#include <gtest/gtest.h>

#include <vector>

#include "ops/kernels/conv/onednn_slices.h"
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

// Of images that are `side` pixels high and wide, or of rows, or of cubes.
ConvSpec SpecOf(const char* text, int64_t channels, int64_t side, int axes = 2, int64_t batch = 64, int threads = 2) {
  std::vector<int64_t> x = {batch, channels};
  x.insert(x.end(), static_cast<size_t>(axes), side);
  const auto options = proto::ParseOptions<proto::Conv>(text);
  const absl::StatusOr<ops::ConvGeometry> g = ops::MakeConvGeometry(options.Get<proto::Conv>(), Shape(x));
  SNUG_CHECK_OK(g.status());
  return {.geometry = *g,
          .x = {DType::kBFloat16, g->input_shape(), Layout::ChannelsLast()},
          .w = {DType::kFloat32, g->weight_shape()},
          .y = {DType::kBFloat16, g->output_shape(), Layout::ChannelsLast()},
          .threads = threads};
}

bool BeatTiles(const ConvSpec& spec) { return ConvSlices(spec).beat_tiles(spec); }

TEST(ConvSlices, BeatTilesWhereTheseAreNearlyEmpty) {
  EXPECT_TRUE(BeatTiles(SpecOf("filters: 6 kernel: 5 pad: 2", 1, 28))) << "LeNet's first convolution";
  EXPECT_TRUE(BeatTiles(SpecOf("filters: 16 kernel: 5", 6, 14))) << "its second one";
  EXPECT_TRUE(BeatTiles(SpecOf("filters: 32 kernel: 3 pad: 1 stride: 2", 3, 224))) << "MobileNet's first convolution";
}

TEST(ConvSlices, DoNotBeatTilesThatAreFuller) {
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 64 kernel: 7 pad: 3 stride: 2", 3, 224))) << "ResNet's first convolution";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 64 kernel: 3 pad: 1 stride: 2", 3, 224))) << "many filters";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 512 kernel: 3 pad: 1", 3, 32))) << "many filters";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 16 kernel: 5 pad: 2", 6, 28))) << "long rows";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 64 kernel: 3 pad: 1", 8, 12))) << "more channels";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 64 kernel: 3 pad: 1", 64, 14))) << "many channels";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 32 kernel: 6", 6, 6))) << "a single pixel";
  EXPECT_FALSE(BeatTiles(SpecOf("filters: 6 kernel: 5 pad: 2 groups: 2", 2, 28))) << "groups";
}

TEST(ConvSlices, DoNotBeatTilesWhereTheyDoNotPayOrWereNotMeasured) {
  constexpr char kConv[] = "filters: 6 kernel: 5 pad: 2";
  EXPECT_FALSE(BeatTiles(SpecOf(kConv, 1, 28, 1))) << "rows";
  EXPECT_FALSE(BeatTiles(SpecOf(kConv, 1, 28, 3))) << "cubes";
  EXPECT_FALSE(BeatTiles(SpecOf(kConv, 1, 28, 2, /*batch=*/1))) << "one image";
  EXPECT_FALSE(BeatTiles(SpecOf(kConv, 1, 28, 2, /*batch=*/64, /*threads=*/9))) << "more threads than parts";
}

}  // namespace
}  // namespace snug::core::onednn
#endif
