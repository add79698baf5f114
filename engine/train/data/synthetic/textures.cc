// Draws textures: ten kinds of pattern in two random colours, of random scale, phase and orientation, warped a little,
// shaded and noisy. Neither a single pixel nor a colour tells the class; a mirror image has the same class.
#include <algorithm>
#include <cmath>

#include "engine/train/data/synthetic/tasks.h"

namespace snug::core {
namespace {

constexpr int kTextureSide = 32;
constexpr int kTexturePixels = kTextureSide * kTextureSide;

// The names of the classes are those of the kinds.
enum PatternKind { kStripesAcross, kStripesDown, kChecks, kRings, kPlaid, kBricks, kDots, kBlobs, kGrain, kWaves };

// Random numbers at the points of a lattice, smooth in between, from which noise is made. It keeps the corners of one
// cell, because neighbouring pixels are mostly in the same one.
class Lattice {
 public:
  explicit Lattice(Draws& draws) : random_{draws.TwoWords()} {}

  // Returns a number in [0, 1].
  float Smooth(float x, float y) {
    const float left = std::floor(x);
    const float top = std::floor(y);
    if (left != left_ || top != top_) Enter(left, top);
    const auto ease = [](float t) { return t * t * (3 - 2 * t); };
    const auto mix = [](float a, float b, float t) { return a + (b - a) * t; };
    const float across = ease(x - left);
    return mix(mix(corners_[0], corners_[1], across), mix(corners_[2], corners_[3], across), ease(y - top));
  }

 private:
  void Enter(float left, float top) {
    left_ = left;
    top_ = top;
    for (int i = 0; i < 4; ++i) {
      const auto column = static_cast<uint32_t>(static_cast<int>(left) + i % 2);
      const auto row = static_cast<uint32_t>(static_cast<int>(top) + i / 2);
      corners_[i] = ToUniform(random_(column, row)[0]);
    }
  }

  Philox random_;
  float left_ = 1e9F, top_ = 1e9F;  // no cell yet
  float corners_[4] = {};
};

float Fraction(float x) { return x - std::floor(x); }
// Makes a soft step at 0.5.
float Sharpen(float x, float hardness) { return std::clamp(0.5F + hardness * (x - 0.5F), 0.0F, 1.0F); }

// A pattern tells how much of the second colour is at (x, y), in pixels from the centre.
class Pattern {
 public:
  Pattern(int kind, Draws& draws)
      : kind_(kind),
        period_(draws.Uniform(5, 10)),
        phase_x_(draws.Uniform(0, 1)),
        phase_y_(draws.Uniform(0, 1)),
        hardness_(draws.Uniform(1.2F, 4)),
        ratio_(draws.Uniform(0.75F, 1.35F)),
        lattice_(draws) {
    // Some kinds keep within 25 degrees of their direction, because it tells them apart; the others may have any.
    const bool keeps = kind == kStripesAcross || kind == kStripesDown || kind == kBricks || kind == kWaves;
    const float turn = keeps ? draws.Uniform(-0.07F, 0.07F) : draws.Uniform(0, 1);
    cosine_ = CosineOfTurns(turn);
    sine_ = SineOfTurns(turn);
  }

  float operator()(float px, float py) {
    const float x = (cosine_ * px + sine_ * py) / period_;
    const float y = (cosine_ * py - sine_ * px) / period_;
    switch (kind_) {
      case kStripesAcross:
        return Wave(y + phase_y_);
      case kStripesDown:
        return Wave(x + phase_x_);
      case kChecks: {
        const float product = SineOfTurns(0.7F * x + phase_x_) * SineOfTurns(0.7F * y + phase_y_);
        return Sharpen(0.5F + 0.5F * product, 2 * hardness_);
      }
      case kRings: {
        const float dx = x + 3 * (phase_x_ - 0.5F);
        const float dy = y + 3 * (phase_y_ - 0.5F);
        return Wave(std::sqrt(dx * dx + dy * dy) * 1.1F + 7 * phase_y_);
      }
      case kPlaid:
        return 0.5F * (Wave(x + phase_x_) + Wave(ratio_ * y + phase_y_));
      case kBricks: {
        const float row = 1.4F * y + phase_y_;
        const bool odd = Fraction(row / 2) >= 0.5F;
        const bool mortar = Fraction(row) < 0.22F || Fraction(0.7F * x + phase_x_ + (odd ? 0.5F : 0)) < 0.13F;
        return mortar ? 1.0F : 0.25F * hardness_ / 4;
      }
      case kDots: {
        const float cx = Fraction(x + phase_x_) - 0.5F;
        const float cy = Fraction(y + phase_y_) - 0.5F;
        return Sharpen(0.5F + (0.3F - std::sqrt(cx * cx + cy * cy)), 2 * hardness_);
      }
      case kBlobs:
        return Sharpen(lattice_.Smooth(x * 1.2F, y * 1.2F), hardness_);
      case kGrain:
        return Sharpen(lattice_.Smooth(x * 3.7F, y * 3.7F), hardness_);
      default:  // kWaves
        return Wave(y + phase_y_ + 0.45F * ratio_ * SineOfTurns(0.55F * x + phase_x_));
    }
  }

 private:
  float Wave(float turns) const { return Sharpen(0.5F + 0.5F * SineOfTurns(turns), hardness_); }

  int kind_;
  float period_, phase_x_, phase_y_, hardness_, ratio_;
  Lattice lattice_;
  float cosine_, sine_;
};

class Textures final : public DrawnDataset {
 public:
  explicit Textures(const SyntheticOptions& options)
      : DrawnDataset("textures",
                     {{.name = "image", .type = {.shape = {3, kTextureSide, kTextureSide}}},
                      {.name = "label",
                       .type = {.dtype = DType::kInt32},
                       .max_value = 10,
                       .padding = kIgnoredLabel,
                       .classes = {"stripes across", "stripes down", "checks", "rings", "plaid", "bricks", "dots",
                                   "blobs", "grain", "waves"}}},
                     options) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    Draws draws = DrawsOf(sample);
    const int kind = draws.Below(10);
    Pattern pattern(kind, draws);
    float colours[2][3];
    DrawColours(draws, colours);
    Lattice warp_x(draws);
    Lattice warp_y(draws);
    const float warped = draws.Uniform(0, 3);  // in pixels
    const float shade_x = draws.Uniform(-0.012F, 0.012F);
    const float shade_y = draws.Uniform(-0.012F, 0.012F);
    const float noise = draws.Uniform(0.02F, 0.12F);
    auto* image = reinterpret_cast<float*>(fields[0]);
    for (int i = 0; i < kTexturePixels; ++i) {
      const int row = i / kTextureSide;
      const float x = static_cast<float>(i % kTextureSide) - 15.5F;
      const float y = static_cast<float>(row) - 15.5F;
      const float dx = warped * (warp_x.Smooth(x / 9, y / 9) - 0.5F);
      const float dy = warped * (warp_y.Smooth(x / 9, y / 9) - 0.5F);
      const float second = pattern(x + dx, y + dy);
      const float shade = 1 + shade_x * x + shade_y * y;
      for (int c = 0; c < 3; ++c) {
        const float colour = colours[0][c] + (colours[1][c] - colours[0][c]) * second;
        image[c * kTexturePixels + i] = ToPixel(shade * colour + noise * draws.Noise());
      }
    }
    *reinterpret_cast<int32_t*>(fields[1]) = kind;
    return absl::OkStatus();
  }

 private:
  // Draws two colours that differ enough for the pattern to be seen.
  static void DrawColours(Draws& draws, float (&colours)[2][3]) {
    for (float distance = 0; distance < 0.35F;) {
      distance = 0;
      for (int c = 0; c < 3; ++c) {
        colours[0][c] = draws.Uniform(0.05F, 0.95F);
        colours[1][c] = draws.Uniform(0.05F, 0.95F);
        const float difference = colours[1][c] - colours[0][c];
        distance += difference * difference / 3;
      }
      distance = std::sqrt(distance);
    }
  }
};

}  // namespace

std::unique_ptr<Dataset> MakeTextures(const SyntheticOptions& options) { return std::make_unique<Textures>(options); }

}  // namespace snug::core
