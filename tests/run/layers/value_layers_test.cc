// Layers that choose, repeat and number values, as the model file writes them: what an op's samples cannot say, because
// a layer adds casts and nodes.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Pointwise;

constexpr DType kEveryPrecision[] = {DType::kFloat64, DType::kFloat32, DType::kBFloat16};

std::unique_ptr<Session> MakeValues(const std::string& text, DType precision, std::vector<std::string> gradients,
                                    int64_t batch) {
  auto session = MakeSession(text, {.batch = batch, .precision = precision, .gradients = std::move(gradients)});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *std::move(session) : nullptr;
}

// Where each element of the tiled array comes from.
std::vector<size_t> TiledFrom(const std::vector<int64_t>& dims, const std::vector<int64_t>& repeats) {
  std::vector<size_t> from(
      static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()) *
                          std::accumulate(repeats.begin(), repeats.end(), int64_t{1}, std::multiplies<>())));
  for (size_t i = 0; i < from.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t stride = 1;
    for (size_t axis = dims.size(); axis-- > 0;) {
      const int64_t size = dims[axis] * repeats[axis];
      from[i] += static_cast<size_t>(rest % size % dims[axis] * stride);
      rest /= size;
      stride *= dims[axis];
    }
  }
  return from;
}

void ExpectTile(std::vector<int64_t> dims, std::vector<int64_t> repeats) {
  SCOPED_TRACE(absl::StrCat(absl::StrJoin(dims, ","), " tiled ", absl::StrJoin(repeats, ",")));
  constexpr int64_t kBatch = 2;
  const auto session =
      MakeValues(absl::StrCat(R"(input { name: "x" shape { )",
                              dims.empty() ? "" : absl::StrCat("dim: ", absl::StrJoin(dims, " dim: ")),
                              R"( } } layer { name: "y" input: "x" tile { )",
                              repeats.empty() ? "" : absl::StrCat("repeats: ", absl::StrJoin(repeats, " repeats: ")),
                              R"( } } layer { name: "z" input: "y" square {} } objective: "z" output: "y")"),
                 DType::kFloat64, {"x"}, kBatch);
  ASSERT_NE(session, nullptr);
  dims.insert(dims.begin(), kBatch);
  repeats.insert(repeats.begin(), 1);
  const std::vector<size_t> from = TiledFrom(dims, repeats);
  const auto elements = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  std::vector<double> x(static_cast<size_t>(elements));
  std::iota(x.begin(), x.end(), 1);
  ASSERT_TRUE(session->Feed("x", x).ok());
  const double count = static_cast<double>(from.size()) / static_cast<double>(x.size());
  std::vector<double> y, dx;
  for (const size_t i : from) y.push_back(x[i]);
  for (const double value : x) dx.push_back(2 * count * value);
  ASSERT_TRUE(session->Run().ok());
  EXPECT_EQ(*session->Fetch("y"), y);
  EXPECT_THAT(*session->Fetch("d(x)"), Pointwise(DoubleNear(1e-12), dx));
}

TEST(ValueLayers, Tile) {
  ExpectTile({3}, {2});
  ExpectTile({3}, {1});
  ExpectTile({}, {});
  ExpectTile({2, 3}, {2, 1});
  ExpectTile({2, 3}, {1, 3});
  ExpectTile({2, 3, 2}, {2, 1, 2});
  ExpectTile({1, 5, 1}, {4, 1, 3});
  ExpectTile({2, 3, 4}, {3, 2, 2});
  ExpectTile({2, 3, 2, 3}, {2, 3, 2, 2});
  ExpectTile({2, 1, 2, 2, 2}, {1, 2, 3, 2, 1});
  ExpectTile({2, 1, 2, 1, 2, 2, 2}, {2, 2, 2, 3, 2, 1, 2});
}

TEST(ValueLayers, TileRejectsItsRepeats) {
  const auto error = [](const std::string& repeats) {
    return std::string(MakeSession(absl::StrCat(R"(
        input { name: "x" shape { dim: [2, 3] } }
        layer { name: "y" input: "x" tile { repeats: )",
                                                repeats, R"( } } output: "y")"),
                                   {.batch = 2})
                           .status()
                           .message());
  };
  EXPECT_THAT(error("[1]"), HasSubstr("test:3:55: layer \"y\" (tile): option \"repeats\": expected 2 numbers (one for "
                                      "each dimension of [2, 2, 3] but the batch), found 1"));
  EXPECT_THAT(error("[2, 0]"), HasSubstr("option \"repeats\": expected between 1 and 23456248059221, found 0"));
  EXPECT_THAT(error("[1, 30000000000000]"), HasSubstr("found 30000000000000"));
  EXPECT_THAT(error("[1000000000, 1000000000]"), HasSubstr("option \"repeats\": "));
}

TEST(ValueLayers, WhereTakesAConditionOfAnyType) {
  for (const std::string dtype : {"FLOAT", "FLOAT32", "FLOAT64", "INT32", "INT64", "UINT8"}) {
    for (const DType precision : kEveryPrecision) {
      SCOPED_TRACE(absl::StrCat(dtype, ", ", absl::string_view(Name(precision))));
      const auto session = MakeValues(absl::StrCat(R"(
          input { name: "condition" shape { dim: 3 } dtype: )",
                                                   dtype, dtype[0] == 'F' ? "" : " max_value: 4", R"( }
          input { name: "a" shape { dim: 3 } }
          input { name: "b" shape { dim: 1 } }
          layer { name: "y" input: ["condition", "a", "b"] where {} }
          objective: "y")"),
                                      precision, {"a", "b"}, 2);
      ASSERT_NE(session, nullptr);
      ASSERT_TRUE(session->Feed("condition", std::vector<double>{0, 1, 3, 2, 0, 0}).ok());
      ASSERT_TRUE(session->Feed("a", std::vector<double>{1, 2, 3, 4, 5, 6}).ok());
      ASSERT_TRUE(session->Feed("b", std::vector<double>{-1, -2}).ok());
      ASSERT_TRUE(session->Run().ok());
      EXPECT_THAT(*session->Fetch("y"), ElementsAre(-1, 2, 3, 4, -2, -2));
      EXPECT_THAT(*session->Fetch("d(a)"), ElementsAre(0, 1, 1, 1, 0, 0));
      EXPECT_THAT(*session->Fetch("d(b)"), ElementsAre(1, 2));
    }
  }
}

TEST(ValueLayers, WhereChoosesAmongParameters) {
  for (const DType precision : kEveryPrecision) {
    const auto session = MakeValues(R"(
        input { name: "mask" shape { dim: 3 } dtype: INT32 max_value: 2 }
        layer { name: "a" parameter { dim: 3 init { kind: CONSTANT value: 0.5 } } }
        layer { name: "b" parameter { dim: 1 init { kind: CONSTANT value: 2 } } }
        layer { name: "y" input: ["mask", "a", "b"] where {} }
        objective: "y")",
                                    precision, {"a", "b"}, 1);
    ASSERT_NE(session, nullptr);
    ASSERT_TRUE(session->Feed("mask", std::vector<double>{1, 0, 0}).ok());
    ASSERT_TRUE(session->Run().ok());
    EXPECT_THAT(*session->Fetch("y"), ElementsAre(0.5, 2, 2));
    EXPECT_THAT(*session->Fetch("d(a)"), ElementsAre(1, 0, 0));
    EXPECT_THAT(*session->Fetch("d(b)"), ElementsAre(2));
  }
}

TEST(ValueLayers, OneHotIsOfTheNetworksPrecision) {
  for (const DType precision : kEveryPrecision) {
    const auto session = MakeValues(R"(
        input { name: "label" dtype: INT64 max_value: 3 }
        input { name: "x" shape { dim: 3 } }
        layer { name: "hot" input: "label" one_hot { classes: 3 } }
        layer { name: "y" input: ["x", "hot"] mul {} }
        objective: "y" output: "hot")",
                                    precision, {"x"}, 2);
    ASSERT_NE(session, nullptr);
    ASSERT_TRUE(session->Feed("label", std::vector<double>{2, 0}).ok());
    ASSERT_TRUE(session->Run().ok());
    EXPECT_THAT(*session->Fetch("hot"), ElementsAre(0, 0, 1, 1, 0, 0));
    EXPECT_THAT(*session->Fetch("d(x)"), ElementsAre(0, 0, 1, 1, 0, 0));
  }
}

TEST(ValueLayers, IndicesLeadToWhatTheyNumber) {
  for (const DType precision : kEveryPrecision) {
    const auto session = MakeValues(R"(
        input { name: "x" shape { dim: 4 } }
        layer { name: "best" input: "x" top_k { k: 2 } }
        layer { name: "first" input: "x" argmax {} }
        layer { name: "hot" input: "best:1" one_hot { classes: 4 } }
        layer { name: "both" input: "hot" reduce_sum { axis: 1 } }
        layer { name: "sums" input: "best" cumsum {} }
        objective: "sums" output: ["first", "both", "best:1"])",
                                    precision, {"x"}, 2);
    ASSERT_NE(session, nullptr);
    ASSERT_TRUE(session->Feed("x", std::vector<double>{1, 4, 2, 3, 8, 5, 7, 8}).ok());
    ASSERT_TRUE(session->Run().ok());
    EXPECT_THAT(*session->Fetch("best:1"), ElementsAre(1, 3, 0, 3));
    EXPECT_THAT(*session->Fetch("first"), ElementsAre(1, 0));
    EXPECT_THAT(*session->Fetch("both"), ElementsAre(0, 1, 0, 1, 1, 0, 0, 1));
    EXPECT_THAT(*session->Fetch("sums"), ElementsAre(4, 7, 8, 16));
    EXPECT_THAT(*session->Fetch("d(x)"), ElementsAreArray({0, 2, 0, 1, 2, 0, 0, 1}));
  }
}

}  // namespace
}  // namespace snug::core
