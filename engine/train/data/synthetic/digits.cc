// Draws digits: strokes through jittered control points, slanted, turned, stretched and moved, with a pen of random
// width and strength, noise, and sometimes a stray stroke.
#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/train/data/synthetic/tasks.h"

namespace snug::core {
namespace {

constexpr int kDigitSide = 28;

struct Point {
  float x, y;  // in a digit: within the unit square, y downwards; in the image: pixels
};

bool operator==(Point a, Point b) { return a.x == b.x && a.y == b.y; }
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(float s, Point a) { return {s * a.x, s * a.y}; }
float Dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }

// The control points of a quadratic B-spline. An open stroke begins and ends at its end points; a point that is given
// twice makes a corner.
struct Stroke {
  std::vector<Point> points;
  bool closed = false;
};
using Glyph = std::vector<Stroke>;

// Returns the ways to write a digit.
const std::vector<Glyph>& GlyphsOf(int digit) {
  static const std::vector<std::vector<Glyph>> kGlyphs = {
      {{{{{.5, .0}, {.9, .05}, {.9, .95}, {.5, 1.}, {.1, .95}, {.1, .05}}, true}}},
      {{{{{.3, .25}, {.55, .02}, {.55, .02}, {.55, 1.}}}},
       {{{{.3, .25}, {.52, .02}, {.52, .02}, {.52, .98}}}, {{{.25, .98}, {.8, .98}}}}},
      {{{{{.15, .25}, {.2, .0}, {.8, -.02}, {.9, .35}, {.6, .6}, {.12, .98}, {.12, .98}, {.9, .96}}}},
       {{{{.15, .2}, {.3, -.05}, {.9, .0}, {.85, .5}, {.2, 1.}, {.05, .8}, {.4, .8}, {.92, 1.}}}}},
      {{{{{.15, .12},
          {.4, -.04},
          {.9, .02},
          {.85, .45},
          {.4, .47},
          {.4, .47},
          {.92, .48},
          {.92, 1.},
          {.4, 1.04},
          {.1, .85}}}},
       {{{{.15, .03}, {.85, .03}, {.85, .03}, {.42, .42}, {.42, .42}, {.92, .42}, {.95, 1.}, {.4, 1.05}, {.1, .85}}}}},
      {{{{{.68, 1.}, {.68, .02}, {.68, .02}, {.1, .68}, {.1, .68}, {.95, .68}}}},
       {{{{.2, .03}, {.15, .55}, {.15, .55}, {.9, .55}}}, {{{.72, .05}, {.68, 1.}}}}},
      {{{{{.85, .03},
          {.25, .03},
          {.25, .03},
          {.2, .45},
          {.2, .45},
          {.5, .33},
          {.95, .45},
          {.9, .97},
          {.4, 1.04},
          {.1, .88}}}}},
      {{{{{.75, .05}, {.35, .05}, {.1, .5}, {.12, .98}, {.5, 1.03}, {.92, .97}, {.88, .5}, {.45, .45}, {.15, .72}}}}},
      {{{{{.12, .04}, {.9, .04}, {.9, .04}, {.55, .5}, {.42, 1.}}}},
       {{{{.12, .04}, {.9, .04}, {.9, .04}, {.55, .5}, {.42, 1.}}}, {{{.3, .5}, {.82, .5}}}}},
      {{{{{.5, .0}, {.85, .02}, {.82, .46}, {.5, .47}, {.18, .46}, {.15, .02}}, true},
        {{{.5, .46}, {.92, .48}, {.92, .98}, {.5, 1.}, {.08, .98}, {.08, .48}}, true}}},
      {{{{{.85, .3}, {.55, .56}, {.12, .52}, {.1, .03}, {.5, -.03}, {.92, .03}, {.9, .5}, {.75, .85}, {.45, 1.}}}},
       {{{{.85, .25}, {.6, .55}, {.12, .5}, {.1, .02}, {.6, -.05}, {.85, .2}, {.85, .2}, {.8, 1.}}}}},
  };
  return kGlyphs[static_cast<size_t>(digit)];
}

class Canvas {
 public:
  // Draws a curve with a pen of the given radius.
  void Draw(absl::Span<const Point> points, bool closed, float radius) {
    const size_t n = points.size();
    const auto middle = [&](size_t i) { return 0.5F * (points[i % n] + points[(i + 1) % n]); };
    if (n == 2) return Line(points[0], points[1], radius);
    const size_t first = closed ? 0 : 1;
    const size_t last = closed ? n : n - 1;
    for (size_t i = first; i < last; ++i) {
      const Point from = !closed && i == 1 ? points[0] : middle(i + n - 1);
      const Point to = !closed && i == n - 2 ? points[n - 1] : middle(i);
      Curve(from, points[i], to, radius);
    }
  }
  // Returns how much ink is at a pixel, from 0 to 1.
  float at(int i) const { return ink_[i]; }

 private:
  void Curve(Point from, Point control, Point to, float radius) {
    constexpr int kPieces = 6;
    Point before = from;
    for (int i = 1; i <= kPieces; ++i) {
      const float t = static_cast<float>(i) / kPieces;
      const float s = 1 - t;
      const Point next = s * s * from + 2 * s * t * control + t * t * to;
      Line(before, next, radius);
      before = next;
    }
  }
  void Line(Point a, Point b, float radius) {
    const Point d = b - a;
    const float length2 = std::max(Dot(d, d), 1e-6F);
    const float reach = radius + 1;
    const auto low = [&](float v) { return std::max(0, static_cast<int>(v - reach)); };
    const auto high = [&](float v) { return std::min(kDigitSide - 1, static_cast<int>(v + reach)); };
    for (int y = low(std::min(a.y, b.y)); y <= high(std::max(a.y, b.y)); ++y) {
      for (int x = low(std::min(a.x, b.x)); x <= high(std::max(a.x, b.x)); ++x) {
        const Point p = Point{static_cast<float>(x), static_cast<float>(y)} - a;
        const float t = std::clamp(Dot(p, d) / length2, 0.0F, 1.0F);
        const Point off = p - t * d;
        float& ink = ink_[y * kDigitSide + x];
        ink = std::max(ink, std::clamp(radius + 0.5F - std::sqrt(Dot(off, off)), 0.0F, 1.0F));
      }
    }
  }

  float ink_[kDigitSide * kDigitSide] = {};
};

// Maps a glyph's unit square into the image.
class Placement {
 public:
  explicit Placement(Draws& draws) {
    // The rotation uses a rational parametrisation, because sines differ from machine to machine.
    const float t = draws.Uniform(-0.16F, 0.16F);  // the tangent of half the angle, which is at most 18 degrees
    const float cosine = (1 - t * t) / (1 + t * t);
    const float sine = 2 * t / (1 + t * t);
    const float width = draws.Uniform(9, 15);
    const float height = draws.Uniform(15, 21);
    const float slant = draws.Uniform(-0.35F, 0.2F);
    across_ = {width * cosine, width * sine};
    down_ = {height * (slant * cosine - sine), height * (slant * sine + cosine)};
    centre_ = {13.5F + draws.Uniform(-3, 3), 13.5F + draws.Uniform(-3, 3)};
  }
  Point operator()(Point p) const { return centre_ + (p.x - 0.5F) * across_ + (p.y - 0.5F) * down_; }

 private:
  Point across_, down_, centre_;
};

class Digits final : public DrawnDataset {
 public:
  explicit Digits(const SyntheticOptions& options)
      : DrawnDataset("digits",
                     {{.name = "image", .type = {.shape = {1, kDigitSide, kDigitSide}}},
                      {.name = "label", .type = {.dtype = DType::kInt32}, .max_value = 10, .padding = kIgnoredLabel}},
                     options) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    Draws draws = DrawsOf(sample);
    const int digit = draws.Below(10);
    const std::vector<Glyph>& glyphs = GlyphsOf(digit);
    const Glyph& glyph = glyphs[static_cast<size_t>(draws.Below(static_cast<int>(glyphs.size())))];
    const Placement placement(draws);
    const float radius = draws.Uniform(0.5F, 1.7F);
    Canvas canvas;
    for (const Stroke& stroke : glyph) DrawStroke(stroke, placement, radius, draws, canvas);
    if (draws.Chance(0.3F)) {  // a stray stroke
      const Point from = {draws.Uniform(0, 27), draws.Uniform(0, 27)};
      const Point to = from + Point{draws.Uniform(-6, 6), draws.Uniform(-6, 6)};
      const Point line[] = {from, to};
      canvas.Draw(line, false, 0.6F * radius);
    }
    const float strength = draws.Uniform(0.5F, 1);
    const float paper = draws.Uniform(0, 0.15F);
    const float noise = draws.Uniform(0.02F, 0.14F);
    auto* image = reinterpret_cast<float*>(fields[0]);
    for (int i = 0; i < kDigitSide * kDigitSide; ++i) {
      image[i] = ToPixel(paper + (strength - paper) * canvas.at(i) + noise * draws.Noise());
    }
    *reinterpret_cast<int32_t*>(fields[1]) = digit;
    return absl::OkStatus();
  }

 private:
  static constexpr float kJitter = 0.085F;
  static constexpr size_t kMaxPoints = 12;  // the most points that a stroke has

  static void DrawStroke(const Stroke& stroke, const Placement& placement, float radius, Draws& draws, Canvas& canvas) {
    Point points[kMaxPoints];
    const size_t n = stroke.points.size();
    SNUG_CHECK(n <= kMaxPoints);
    for (size_t i = 0; i < n; ++i) {
      const Point jitter = {draws.Uniform(-kJitter, kJitter), draws.Uniform(-kJitter, kJitter)};
      const bool corner = i > 0 && stroke.points[i] == stroke.points[i - 1];
      points[i] = corner ? points[i - 1] : placement(stroke.points[i] + jitter);
    }
    canvas.Draw(absl::MakeConstSpan(points, n), stroke.closed, radius);
  }
};

}  // namespace

std::unique_ptr<Dataset> MakeDigits(const SyntheticOptions& options) { return std::make_unique<Digits>(options); }

}  // namespace snug::core
