// Tests how convolutions of few channels are folded: that each product of the convolution is one of the folded one's,
// of the same numbers, and that all others there are with zeros.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/options.h"
#include "engine/base/status.h"
#include "ops/kernels/conv/fold.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops {
namespace {

ConvGeometry GeometryOf(const char* options, const Shape& x) {
  const Options parsed = proto::ParseOptions<proto::Conv>(options);
  return MakeConvGeometry(parsed.Get<proto::Conv>(), x).value();
}

struct FoldCase {
  const char* name;
  const char* options;
  Shape x;
};
class ConvFoldTest : public testing::TestWithParam<FoldCase> {};

// What a number of folded data is of x: row, column, channel; outside x it is 0.
using InX = std::array<int32_t, 3>;
InX NumberOf(const ConvFold& fold, int32_t row, int32_t column, int32_t folded_channel) {
  const int32_t in_run = folded_channel % fold.run();
  return {row * fold.row_stride + folded_channel / fold.run() - fold.pad_top,
          column * fold.column_stride + in_run / fold.channels - fold.pad_left, in_run % fold.channels};
}

TEST_P(ConvFoldTest, AddsUpTheSameProducts) {
  const ConvGeometry g = GeometryOf(GetParam().options, GetParam().x);
  const std::optional<ConvFold> fold = FoldOf(g);
  ASSERT_TRUE(fold.has_value());
  const ConvGeometry folded = FoldedGeometry(*fold);
  EXPECT_EQ(folded.output_shape(), g.output_shape());
  EXPECT_EQ(folded.in_channels % 8, 0);
  for (const size_t axis : {0, 1}) EXPECT_EQ(folded.out[axis], folded.in[axis] - folded.kernel[axis] + 1);

  std::map<std::pair<int32_t, int32_t>, InX> taps;  // of the folded kernel: where in the kernel
  for (int32_t tap = 0; tap < fold->taps; ++tap) {
    for (int32_t channel = 0; channel < fold->folded_channels; ++channel) {
      const ConvFold::Tap in_kernel = fold->TapOf(tap, channel);
      if (in_kernel.in_kernel) taps[{tap, channel}] = {in_kernel.row, in_kernel.column, in_kernel.channel};
    }
  }
  EXPECT_EQ(taps.size(), static_cast<size_t>(g.in_channels * g.taps())) << "each once, and nothing else";
  for (int32_t row = 0; row < g.kernel[0]; ++row) {
    for (int32_t column = 0; column < g.kernel[1]; ++column) {
      for (int32_t channel = 0; channel < g.in_channels; ++channel) {
        const ConvFold::Place place = fold->PlaceOf(row, column, channel);
        const InX expected = {row, column, channel};
        ASSERT_EQ((taps[{place.tap, place.channel}]), expected);
        for (int32_t y = 0; y < g.out[0]; ++y) {
          for (int32_t x = 0; x < g.out[1]; ++x) {
            const InX number = {static_cast<int32_t>(y * g.stride[0] - g.pad_begin[0]) + row,
                                static_cast<int32_t>(x * g.stride[1] - g.pad_begin[1]) + column, channel};
            ASSERT_EQ(NumberOf(*fold, y + place.tap, x, place.channel), number);
          }
        }
      }
    }
  }
}

TEST_P(ConvFoldTest, HasRoomForABlock) {
  const ConvFold fold = FoldOf(GeometryOf(GetParam().options, GetParam().x)).value();
  EXPECT_GE(fold.block_columns, 1);
  EXPECT_LE(fold.block_columns, fold.folded_width);
  EXPECT_EQ(fold.block_pitch() % 8, 0);
  EXPECT_LE(fold.block_pitch() * fold.row_stride, kFoldBlockNumbers);
  const int32_t needed = (fold.block_columns - 1) * fold.column_stride * fold.channels + fold.run();
  EXPECT_GE(fold.block_pitch(), needed + 7) << "the first may be the eighth of a pack";
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvFoldTest,
    testing::Values(FoldCase{"resnet", "filters: 4 kernel: 7 stride: 2 pad: 3", {1, 3, 20, 22}},
                    FoldCase{"odd", "filters: 4 kernel: 7 stride: 2 pad: 3", {1, 3, 19, 17}},
                    FoldCase{"mobilenet", "filters: 4 kernel: 3 stride: 2 pad: 1", {1, 3, 8, 8}},
                    FoldCase{"same", "filters: 4 kernel: 3 stride: 2 padding: SAME", {1, 3, 8, 9}},
                    FoldCase{"alexnet", "filters: 4 kernel: 11 stride: 4 pad: 2", {1, 3, 27, 31}},
                    FoldCase{"patches", "filters: 4 kernel: 16 stride: 16", {1, 3, 32, 48}},
                    FoldCase{"one_channel", "filters: 4 kernel: [5, 3] stride: [3, 2] pad: [2, 1]", {1, 1, 9, 10}},
                    FoldCase{"by_3", "filters: 3 kernel: 4 stride: 3 pad: 1", {1, 3, 11, 10}},
                    FoldCase{"wide", "filters: 2 kernel: [32, 34] stride: 32 pad: [0, 1]", {1, 1, 64, 400}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ConvFold, IsForFewChannelsAndStrides) {
  for (const char* options : {"filters: 4 kernel: 3 pad: 1", "filters: 4 kernel: 3 stride: [1, 2]",
                              "filters: 4 kernel: 1 stride: 2", "filters: 4 kernel: 3 stride: 2 dilation: 2",
                              "filters: 4 kernel: 9 stride: 2", "kernel: 3 stride: 2 depthwise: true"}) {
    EXPECT_FALSE(FoldOf(GeometryOf(options, {1, 3, 20, 20})).has_value()) << options;
  }
  EXPECT_FALSE(FoldOf(GeometryOf("filters: 4 kernel: 3 stride: 2", {1, 5, 20, 20})).has_value()) << "channels";
  EXPECT_FALSE(FoldOf(GeometryOf("filters: 4 kernel: 3 stride: 2", {1, 3, 20})).has_value()) << "dimensions";
  EXPECT_FALSE(FoldOf(GeometryOf("filters: 4 kernel: 3 stride: 2", {1, 3, 6, 6, 6})).has_value()) << "dimensions";
}

TEST(ConvFold, DoesWithoutWhatDoesNotFit) {
  EXPECT_TRUE(FoldOf(GeometryOf("filters: 4 kernel: 3 stride: 2", {1000, 3, 301, 301})).has_value());
  EXPECT_FALSE(FoldOf(GeometryOf("filters: 4 kernel: 3 stride: 2", {4000, 3, 301, 301})).has_value()) << "2^31 numbers";
  EXPECT_FALSE(FoldOf(GeometryOf("filters: 4 kernel: 3000 stride: 3000", {1, 3, 3000, 3000})).has_value())
      << "a block has no room for a window";
}

TEST(ConvFold, BeginsAtWholeStridesWhereAWindowHasRoom) {
  const ConvFold resnet = FoldOf(GeometryOf("filters: 4 kernel: 7 stride: 2 pad: 3", {1, 3, 20, 22})).value();
  EXPECT_EQ(resnet.columns, 8);
  EXPECT_EQ(resnet.lead, 1);
  EXPECT_EQ(resnet.pad_left, 4);
  EXPECT_EQ(resnet.taps, 4);
  EXPECT_EQ(resnet.folded_channels, 48);
  const ConvFold patches = FoldOf(GeometryOf("filters: 4 kernel: 16 stride: 16", {1, 3, 32, 48})).value();
  EXPECT_EQ(patches.lead, 0);
  EXPECT_EQ(patches.taps, 1);
  EXPECT_EQ(patches.folded_channels, 768);
}

}  // namespace
}  // namespace snug::core::ops
