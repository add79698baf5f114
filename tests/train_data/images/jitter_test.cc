#include "engine/train/data/images/jitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/random.h"

namespace snug::core {
namespace {

using Colour = std::array<float, 3>;
struct Turned {
  float turn;
  Colour from, to;
};

// What torchvision 0.29 makes of them: torchvision.transforms.functional.adjust_hue(image, turn), an image of float32.
constexpr Turned kTurned[] = {
    {-0.5F, {1.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 1.0F}},
    {-0.5F, {0.0F, 1.0F, 0.0F}, {1.0F, 0.0F, 1.0F}},
    {-0.5F, {0.0F, 0.0F, 1.0F}, {0.9999995F, 1.0F, 0.0F}},
    {-0.5F, {0.25F, 0.75F, 0.25F}, {0.75F, 0.25F, 0.75F}},
    {-0.5F, {0.9F, 0.1F, 0.9F}, {0.1000002F, 0.9F, 0.1F}},
    {-0.5F, {0.02352941F, 0.4705882F, 0.05882353F}, {0.4705882F, 0.02352942F, 0.4352943F}},
    {-0.5F, {0.772549F, 0.7450981F, 0.5960785F}, {0.5960785F, 0.6235294F, 0.772549F}},
    {-0.5F, {0.8901961F, 0.4509804F, 0.8F}, {0.4509804F, 0.8901961F, 0.5411766F}},
    {-0.5F, {0.1490196F, 0.4F, 0.05098039F}, {0.3019607F, 0.05098038F, 0.4F}},
    {-0.5F, {0.8470588F, 0.8745098F, 0.6470588F}, {0.6745099F, 0.6470588F, 0.8745098F}},
    {-0.1F, {1.0F, 0.0F, 0.0F}, {1.0F, 0.0F, 0.6000004F}},
    {-0.1F, {0.0F, 1.0F, 0.0F}, {0.5999997F, 1.0F, 0.0F}},
    {-0.1F, {0.0F, 0.0F, 1.0F}, {0.0F, 0.5999997F, 1.0F}},
    {-0.1F, {0.25F, 0.75F, 0.25F}, {0.5499998F, 0.75F, 0.25F}},
    {-0.1F, {0.9F, 0.1F, 0.9F}, {0.4199997F, 0.1F, 0.9F}},
    {-0.1F, {0.02352941F, 0.4705882F, 0.05882353F}, {0.2564706F, 0.4705882F, 0.02352942F}},
    {-0.1F, {0.772549F, 0.7450981F, 0.5960785F}, {0.772549F, 0.6392157F, 0.5960785F}},
    {-0.1F, {0.8901961F, 0.4509804F, 0.8F}, {0.7168627F, 0.4509804F, 0.8901961F}},
    {-0.1F, {0.1490196F, 0.4F, 0.05098039F}, {0.3584315F, 0.4F, 0.05098038F}},
    {-0.1F, {0.8470588F, 0.8745098F, 0.6470588F}, {0.8745098F, 0.7654903F, 0.6470588F}},
    {0.05F, {1.0F, 0.0F, 0.0F}, {1.0F, 0.3F, 0.0F}},
    {0.05F, {0.0F, 1.0F, 0.0F}, {0.0F, 1.0F, 0.3000002F}},
    {0.05F, {0.0F, 0.0F, 1.0F}, {0.3000007F, 0.0F, 1.0F}},
    {0.05F, {0.25F, 0.75F, 0.25F}, {0.25F, 0.75F, 0.4000001F}},
    {0.05F, {0.9F, 0.1F, 0.9F}, {0.9F, 0.1F, 0.6599998F}},
    {0.05F, {0.02352941F, 0.4705882F, 0.05882353F}, {0.02352942F, 0.4705882F, 0.1929411F}},
    {0.05F, {0.772549F, 0.7450981F, 0.5960785F}, {0.7470588F, 0.772549F, 0.5960785F}},
    {0.05F, {0.8901961F, 0.4509804F, 0.8F}, {0.8901961F, 0.4509804F, 0.6682352F}},
    {0.05F, {0.1490196F, 0.4F, 0.05098039F}, {0.05098038F, 0.4F, 0.0576469F}},
    {0.05F, {0.8470588F, 0.8745098F, 0.6470588F}, {0.7788235F, 0.8745098F, 0.6470588F}},
    {1.0F / 3, {1.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 0.0F}},
    {1.0F / 3, {0.0F, 1.0F, 0.0F}, {4.768372e-07F, 0.0F, 1.0F}},
    {1.0F / 3, {0.0F, 0.0F, 1.0F}, {1.0F, 7.152557e-07F, 0.0F}},
    {1.0F / 3, {0.25F, 0.75F, 0.25F}, {0.2500002F, 0.25F, 0.75F}},
    {1.0F / 3, {0.9F, 0.1F, 0.9F}, {0.9F, 0.8999997F, 0.1F}},
    {1.0F / 3, {0.02352941F, 0.4705882F, 0.05882353F}, {0.05882362F, 0.02352942F, 0.4705882F}},
    {1.0F / 3, {0.772549F, 0.7450981F, 0.5960785F}, {0.5960785F, 0.772549F, 0.7450981F}},
    {1.0F / 3, {0.8901961F, 0.4509804F, 0.8F}, {0.7999998F, 0.8901961F, 0.4509804F}},
    {1.0F / 3, {0.1490196F, 0.4F, 0.05098039F}, {0.05098038F, 0.1490196F, 0.4F}},
    {1.0F / 3, {0.8470588F, 0.8745098F, 0.6470588F}, {0.6470588F, 0.8470587F, 0.8745098F}},
    {0.5F, {1.0F, 0.0F, 0.0F}, {0.0F, 1.0F, 1.0F}},
    {0.5F, {0.25F, 0.75F, 0.25F}, {0.75F, 0.25F, 0.75F}},
    {0.5F, {0.8901961F, 0.4509804F, 0.8F}, {0.4509804F, 0.8901961F, 0.5411766F}},
    {0.5F, {0.2117647F, 0.9529412F, 0.01176471F}, {0.7529411F, 0.0117647F, 0.9529412F}},
};

Colour TurnOne(Colour colour, float turn) {
  TurnHue(colour.data(), 1, turn);
  return colour;
}

TEST(Jitter, HueIsTurnedAsTorchvisionDoes) {
  for (const Turned& one : kTurned) {
    const Colour found = TurnOne(one.from, one.turn);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(found[c], one.to[c], 2e-6) << one.turn << " of " << &one - kTurned;
  }
}

TEST(Jitter, GreysHaveNoHueAndAWholeTurnIsNone) {
  for (const float grey : {0.0F, 0.25F, 1.0F}) {
    EXPECT_EQ(TurnOne({grey, grey, grey}, 0.3F), (Colour{grey, grey, grey}));
  }
  const Philox random{7};
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto words = random(0, i);
    const Colour colour = {ToUniform(words[0]), ToUniform(words[1]), ToUniform(words[2])};
    const Colour there = TurnOne(colour, 0.5F), back = TurnOne(there, -0.5F);
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(back[c], colour[c], 5e-6);
      EXPECT_TRUE(there[c] >= 0 && there[c] <= 1);
    }
  }
}

TEST(Jitter, HueIsDrawnBesideTheRest) {
  constexpr int64_t kPixels = 8;
  const Philox random{3};
  const auto drawn = [&](int64_t channels, const ColourJitter& jitter, uint64_t sample) {
    std::vector<float> planes(static_cast<size_t>(channels * kPixels));
    for (size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<float>(i * 5 % planes.size()) / 24;
    JitterColours(planes.data(), channels, kPixels, jitter, random, 0, sample);
    return planes;
  };
  EXPECT_EQ(drawn(3, {.hue = 0.2F}, 1), drawn(3, {.hue = 0.2F}, 1));
  EXPECT_NE(drawn(3, {.hue = 0.2F}, 1), drawn(3, {.hue = 0.2F}, 2));
  EXPECT_NE(drawn(3, {.amount = 0.3F, .hue = 0.2F}, 1), drawn(3, {.amount = 0.3F}, 1));
  EXPECT_EQ(drawn(1, {.hue = 0.2F}, 1), drawn(1, {}, 1));  // what is grey has none
  EXPECT_FALSE(ColourJitter{}.any());
  // By at most so much: the hue of pure red moves by less than a sixth of a turn, so red stays what there is most of.
  for (uint64_t sample = 0; sample < 200; ++sample) {
    std::vector<float> red = {1, 0, 0};
    JitterColours(red.data(), 3, 1, {.hue = 0.1F}, random, 0, sample);
    EXPECT_EQ(red[0], 1);
    EXPECT_LE(std::max(red[1], red[2]), 0.6001F);
    EXPECT_EQ(std::min(red[1], red[2]), 0);
  }
}

}  // namespace
}  // namespace snug::core
