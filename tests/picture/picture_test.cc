#include "tools/picture/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

namespace snug::core::cli {
namespace {

using testing::HasSubstr;

PictureStrategy Random(const std::string& name, int nodes, int buffers, int64_t stretch) {
  std::mt19937 random(7);
  PictureStrategy strategy{.name = name, .lower_bound = 1, .seconds = 0.25};
  for (int i = 0; i < nodes; ++i) strategy.nodes.push_back("layer" + std::to_string(i) + ".conv");
  const char* kinds[] = {"activations", "gradients", "optimizer", "workspace", "weights"};
  for (int i = 0; i < buffers; ++i) {
    PictureBuffer b{.name = "value" + std::to_string(i), .op = "conv", .kind = kinds[random() % 5]};
    b.first = static_cast<int32_t>(random() % static_cast<unsigned>(nodes));
    b.last = std::min(nodes - 1, b.first + 1 + static_cast<int32_t>(random() % 40));
    b.size_bytes = 64 + static_cast<int64_t>(random() % 100000);
    b.offset = static_cast<int64_t>(random() % 1000000) * stretch;
    b.producer = b.first;
    b.readers = {b.last};
    strategy.total = std::max(strategy.total, b.offset + b.size_bytes);
    strategy.buffers.push_back(b);
  }
  strategy.lower_bound = FindLivePeak(strategy).bytes;
  return strategy;
}

bool Has(const std::string& page, const char* text) { return page.find(text) != std::string::npos; }

Picture Small() {
  Picture picture{.network = "a<b&c", .batch = 2, .mode = "training", .chosen = "best"};
  picture.strategies.push_back({.name = "best", .nodes = {"n0", "n1</script>"}, .total = 192, .lower_bound = 160});
  picture.strategies[0].buffers = {
      {.name = "x\"y", .op = "relu", .kind = "activations", .size_bytes = 128, .offset = 0, .first = 0, .last = 1},
      {.name = "z", .op = "add", .kind = "gradients", .size_bytes = 32, .offset = 128, .first = 1, .last = 2}};
  return picture;
}

TEST(Picture, PeakIsTheFirstMomentWithTheMostLiveBytes) {
  const LivePeak peak = FindLivePeak(Small().strategies[0]);
  EXPECT_EQ(peak.bytes, 160);
  EXPECT_EQ(peak.position, 1);
}

TEST(Picture, WhatIsWrittenInPlaceCountsOnce) {
  PictureStrategy strategy = Small().strategies[0];
  strategy.buffers[1].offset = 0;
  strategy.buffers[0].written_over = true;
  EXPECT_EQ(FindLivePeak(strategy).bytes, 128);
}

TEST(Picture, PageIsSelfContainedAndNamesCannotBreakOut) {
  const std::string page = PicturePage(Small());
  EXPECT_TRUE(Has(page, R"(["x\"y", "relu", "activations", 128, 0, 0, 1, -1, [], false])"));
  EXPECT_TRUE(Has(page, "n1\\u003c/script>"));
  for (const char* remote : {"http://", "https://", "src=", "@import", "url(", "@DATA@"}) {
    EXPECT_FALSE(Has(page, remote)) << remote;
  }
}

TEST(Picture, SvgHasARectangleForEachBufferAndEscapesNames) {
  const std::string svg = PictureSvg(Small());
  EXPECT_THAT(svg, HasSubstr("a&lt;b&amp;c"));
  EXPECT_THAT(svg, HasSubstr("<title>x&quot;y: relu, 128 bytes at 0, nodes 0 to 1</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>z: add, 32 bytes at 128, nodes 1 to 2</title>"));
}

// To look at: SNUG_PICTURE_OUT=FOLDER writes a page of 10,000 buffers there, and an SVG.
TEST(Picture, TenThousandBuffersMakeAPageOfModestSize) {
  Picture picture{.network = "large", .batch = 32, .mode = "training", .state_bytes = 1 << 20, .chosen = "best"};
  picture.strategies = {Random("none", 3000, 10000, 3), Random("best", 3000, 10000, 1)};
  const std::string page = PicturePage(picture);
  EXPECT_LT(page.size(), 4U << 20);
  if (const char* folder = std::getenv("SNUG_PICTURE_OUT")) {
    std::ofstream(std::string(folder) + "/page.html") << page;
    std::ofstream(std::string(folder) + "/page.svg") << PictureSvg(picture);
  }
}

}  // namespace
}  // namespace snug::core::cli
