// Tests that inputs are what a sample says.
#include "tests/testing/sample_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/testing/fake_op.h"

namespace snug::core::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

OpDef Op() {
  OpDef op = FakeOp("f",
                    {{"x"},
                     {.name = "w", .plain_layout = true},
                     {"stat", PortType::kFloat32},
                     {"label", PortType::kInteger},
                     {"mask", PortType::kBytes},
                     {.name = "more", .variadic = true}},
                    {{"y"}});
  op.traits.layout = LayoutRule::kAgnostic;
  return op;
}

TEST(SampleTypes, FollowThePorts) {
  Sample sample("s");
  sample.Input({2, 3, 4}).Input({3, 3, 3}).Input({3}).Int({2}, 0, 9).Bytes({5}).Input({}).Absent();
  const NodeTypes half = SampleTypes(Op(), sample, DType::kBFloat16, Layout::ChannelsLast());
  std::vector<std::string> texts;
  for (const ValueType& type : half.inputs) texts.push_back(type.ToString());
  texts.pop_back();  // the absent input has none
  EXPECT_THAT(texts, ElementsAre("bfloat16[2, 3, 4]nhwc", "bfloat16[3, 3, 3]", "float32[3]", "int32[2]", "uint8[5]",
                                 "bfloat16[]"));
  EXPECT_FALSE(half.has_input(6));
  EXPECT_EQ(SampleTypes(Op(), sample, DType::kFloat64).inputs[2].dtype, DType::kFloat64);
}

TEST(SampleTypes, AsOverridesThePort) {
  Sample sample("s");
  sample.Input({2}).As(DType::kFloat32).Int({2}, 0, 9, DType::kInt64);
  const NodeTypes types = SampleTypes(Op(), sample, DType::kFloat64);
  EXPECT_EQ(types.inputs[0].dtype, DType::kFloat32);
  EXPECT_EQ(types.inputs[1].dtype, DType::kInt64);
}

TEST(SampleValues, AreTheSameNumbersInEveryTypeAndLayout) {
  Sample sample("s");
  sample.Input({2, 3, 5});
  const auto values = [&](DType dtype, const Layout& layout) {
    return SampleValues(Op(), sample, SampleTypes(Op(), sample, dtype, layout))[0];
  };
  const Tensor plain = values(DType::kFloat64, Layout::Plain());
  EXPECT_EQ(values(DType::kFloat64, Layout::ChannelsLast()).ToDoubles(), plain.ToDoubles());
  EXPECT_EQ(values(DType::kFloat32, Layout::Plain()).ToDoubles(), WithDType(plain, DType::kFloat32).ToDoubles());
}

TEST(SampleValues, KeepToRangesAndKinks) {
  Sample sample("s");
  sample.Input({1000}).Range(-2, 3).AwayFrom({0, 1}).Input({1}).Input({1}).Int({1000}, 2, 5);
  const std::vector<Tensor> values = SampleValues(Op(), sample, SampleTypes(Op(), sample, DType::kFloat64));
  for (const double x : values[0].ToDoubles()) {
    EXPECT_GE(x, -2);
    EXPECT_LT(x, 3);
    EXPECT_GE(std::abs(x), 0.05);
    EXPECT_GE(std::abs(x - 1), 0.05);
  }
  const std::vector<double> integers = values[3].ToDoubles();
  EXPECT_THAT(integers, Each(::testing::AnyOf(2, 3, 4)));
  EXPECT_THAT(integers, ::testing::IsSupersetOf({2.0, 3.0, 4.0}));
}

TEST(SampleValues, DistinctOnesStayApart) {
  for (const int64_t count : {3, 50, 300}) {
    Sample sample("s");
    sample.Input({count}).Distinct();
    std::vector<double> values = SampleValues(Op(), sample, SampleTypes(Op(), sample, DType::kBFloat16))[0].ToDoubles();
    if (count > 10) {
      EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
    }
    std::sort(values.begin(), values.end());
    for (size_t i = 1; i < values.size(); ++i) ASSERT_GE(values[i] - values[i - 1], 0.01) << count;
  }
}

TEST(SampleValues, GivenOnesAreTaken) {
  Sample sample("s");
  sample.Input({2, 2}).Values({1, 2, 3, 4});
  const NodeTypes types = SampleTypes(Op(), sample, DType::kFloat32);
  EXPECT_THAT(SampleValues(Op(), sample, types)[0].ToDoubles(), ElementsAre(1, 2, 3, 4));
}

TEST(SampleBuilder, KeepsReferencesAndTolerances) {
  SampleBuilder builder;
  Sample& first = builder.Case("first");
  for (int i = 0; i < 100; ++i) builder.Case("more");
  first.Tolerance(1e-3, 1e-1).Fails("text").Only({DType::kFloat32}).RandomId(3);
  const Sample& stored = builder.cases().front();
  EXPECT_EQ(stored.tolerance(DType::kFloat32), 1e-3);
  EXPECT_EQ(stored.tolerance(DType::kBFloat16), 1e-1);
  EXPECT_EQ(stored.infer_error(), "text");
  EXPECT_THAT(stored.dtypes(), ElementsAre(DType::kFloat32));
  EXPECT_EQ(stored.random_id(), 3);
}

}  // namespace
}  // namespace snug::core::test
