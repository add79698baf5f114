#include "engine/base/text/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace snug::core {
namespace {

TEST(Json, NestsAndSeparates) {
  Json json;
  json.Object().Key("a").Array().Number(int64_t{1}).Bool(true).Null().Array().End().End();
  json.Key("b").Object().End().End();
  EXPECT_EQ(json.text(), R"({"a": [1, true, null, []], "b": {}})");
}

TEST(Json, StringsAreQuoted) {
  Json json;
  json.String("a\"b\\c\n\t\x01");
  EXPECT_EQ(json.text(), R"("a\"b\\c\u000a\u0009\u0001")");
}

TEST(Json, NumbersAreTheShortestThatComeBack) {
  Json json;
  json.Array().Number(0.1).Number(1234.567).Number(3.0).Number(std::numeric_limits<double>::quiet_NaN());
  json.Number(std::numeric_limits<double>::infinity()).End();
  EXPECT_EQ(json.text(), "[0.1, 1234.567, 3, null, null]");
  for (const double value : {1.0 / 3, 1e-300, 6.02214076e23, -2.2250738585072014e-308}) {
    Json one;
    one.Number(value);
    EXPECT_EQ(std::strtod(one.text().c_str(), nullptr), value) << one.text();
  }
}

}  // namespace
}  // namespace snug::core
