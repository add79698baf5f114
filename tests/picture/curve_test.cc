#include "tools/picture/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace snug::core {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

Series Line(std::string name, const std::vector<double>& values) {
  Series series{.name = std::move(name)};
  for (size_t i = 0; i < values.size(); ++i) series.points.emplace_back(static_cast<double>(i), values[i]);
  return series;
}

TEST(Curve, NamesTheEndOfEachCurve) {
  const std::string svg = CurveSvg(
      "a <net>", {{.title = "loss", .series = {Line("training", {3, 2, 1.25}), Line("evaluation", {3, 1.5})}}});
  EXPECT_THAT(svg, HasSubstr("a &lt;net&gt;"));
  EXPECT_THAT(svg, HasSubstr("training 1.25</text>"));
  EXPECT_THAT(svg, HasSubstr("evaluation 1.5</text>"));
}

TEST(Curve, IsLogarithmicWhereALossFallsFar) {
  const std::vector<double> far = {100, 10, 1}, near = {3, 2, 1};
  EXPECT_THAT(CurveSvg("", {{.title = "loss", .series = {Line("a", far)}, .falls = true}}), HasSubstr("(logarithmic)"));
  EXPECT_THAT(CurveSvg("", {{.title = "loss", .series = {Line("a", near)}, .falls = true}}),
              Not(HasSubstr("(logarithmic)")));
  EXPECT_THAT(CurveSvg("", {{.title = "accuracy", .series = {Line("a", far)}}}), Not(HasSubstr("(logarithmic)")));
}

TEST(Curve, DrawsWhatIsThere) {
  EXPECT_THAT(CurveSvg("empty", {}), HasSubstr("</svg>"));
  EXPECT_THAT(CurveSvg("no points", {{.title = "loss", .series = {{.name = "a"}}}}), HasSubstr("</svg>"));
  const std::string svg = CurveSvg("", {{.title = "x", .series = {Line("a", {1, std::nan(""), 2, 2})}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(CurveSvg("", {{.title = "x", .series = {Line("one", {5})}}}), Not(HasSubstr("nan")));
}

TEST(Curve, HasTheAxisThatItIsGiven) {
  const Series rates{.name = "a", .points = {{1e-4, 3}, {1e-2, 2}, {1, 1}}};
  const std::vector<CurvePanel> panels = {{.title = "loss", .series = {rates}}};
  const std::string svg =
      CurveSvg("", panels, {.name = "learning <rate>", .logarithmic = true, .marks = {{1e-2, "here & there"}}});
  EXPECT_THAT(svg, HasSubstr(">learning &lt;rate&gt;</text>"));
  EXPECT_THAT(svg, HasSubstr(">here &amp; there</text>"));
  for (const char* mark : {">0.0001<", ">0.01<", ">1<"}) EXPECT_THAT(svg, HasSubstr(mark));
  EXPECT_THAT(svg, HasSubstr("M64.0 "));  // a decade is as wide as another: the middle point lies in the middle
  EXPECT_THAT(svg, HasSubstr("L347.0 "));
  EXPECT_THAT(svg, HasSubstr("L630.0 "));
  EXPECT_THAT(CurveSvg("", panels), HasSubstr(">step</text>"));
}

TEST(Curve, SmoothsOverAWindow) {
  const Series smooth = Smoothed(Line("a", {4, 0, 2, 6}), 2, "mean");
  EXPECT_EQ(smooth.name, "mean");
  EXPECT_EQ(smooth.points, (std::vector<std::pair<double, double>>{{0, 4}, {1, 2}, {2, 1}, {3, 4}}));
}

void ExpectDrawn(const std::string& svg) {
  EXPECT_THAT(svg, EndsWith("</svg>\n"));
  EXPECT_THAT(svg, Not(HasSubstr("\"nan")));
  EXPECT_THAT(svg, Not(HasSubstr("\"-nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
}

TEST(Curve, NothingIsDrawnOnEitherKindOfAxis) {
  const CurvePanel nothing{.title = "loss", .series = {{.name = "smoothed", .points = {}}}, .falls = true};
  for (const bool logarithmic : {false, true}) {
    ExpectDrawn(CurveSvg("t", {nothing}, {.name = "learning rate", .logarithmic = logarithmic, .marks = {}}));
  }
}

TEST(Curve, OneValueGetsAnAxisAroundIt) {
  for (const double value : {0.0, 0.94, 1e-300, 1e17, -1e300}) {
    ExpectDrawn(CurveSvg("t", {{.title = "a", .series = {{.name = "a", .points = {{1, value}, {2, value}}}}}}));
  }
}

}  // namespace
}  // namespace snug::core
