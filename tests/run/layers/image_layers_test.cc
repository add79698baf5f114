// Layers that make images larger and are made of other ops, against what defines them.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/compile/summary.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int64_t kBatch = 2;

std::string Input(const std::vector<int64_t>& dims) {
  return absl::StrCat("input { name: \"x\" shape { dim: [", absl::StrJoin(dims, ", "), "] } }\n");
}

std::string ErrorOf(const std::vector<int64_t>& dims, const std::string& layer) {
  const auto session = MakeSession(
      absl::StrCat(Input(dims), "layer { name: \"y\" input: \"x\" ", layer, " } output: \"y\""), {.training = false});
  return std::string(session.status().message());
}

// Small whole numbers, which all precisions hold.
std::vector<double> Numbers(int64_t n, int64_t step) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(static_cast<double>(i * step % 7 - 3));
  return numbers;
}

struct Transposed {
  int64_t channels, filters, groups;
  std::vector<int64_t> size, kernel, stride, dilation, pad, output_pad;
  std::vector<int64_t> result;

  std::string Layer() const {
    const auto list = [](const char* name, const std::vector<int64_t>& numbers) {
      return numbers.empty() ? "" : absl::StrCat(" ", name, ": [", absl::StrJoin(numbers, ", "), "]");
    };
    return absl::StrCat("conv_transpose { filters: ", filters, " groups: ", groups, list("kernel", kernel),
                        list("stride", stride), list("dilation", dilation), list("pad", pad),
                        list("output_pad", output_pad), " }");
  }
};

int64_t Count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (const int64_t dim : dims) n *= dim;
  return n;
}

// The index that the i-th element of an array has, the last dimension fastest.
std::vector<int64_t> IndexOf(int64_t i, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; i /= dims[axis]) index[axis] = i % dims[axis];
  return index;
}

// Each element of x adds the weights, times itself, to y.
std::vector<double> Define(const Transposed& t, const std::vector<double>& x, const std::vector<double>& w,
                           const std::vector<double>& bias) {
  const auto at = [](const std::vector<int64_t>& numbers, size_t axis, int64_t unless) {
    return numbers.empty() ? unless : numbers[numbers.size() == 1 ? 0 : axis];
  };
  const int64_t pixels = Count(t.size);
  const int64_t results = Count(t.result);
  const int64_t taps = Count(t.kernel);
  const int64_t group_filters = t.filters / t.groups;
  std::vector<double> y(static_cast<size_t>(kBatch * t.filters * results));
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = bias[i / static_cast<size_t>(results) % static_cast<size_t>(t.filters)];
  }
  for (int64_t i = 0; i < kBatch * t.channels * pixels; ++i) {
    const int64_t channel = i / pixels % t.channels;
    const int64_t group = channel / (t.channels / t.groups);
    const std::vector<int64_t> pixel = IndexOf(i % pixels, t.size);
    for (int64_t j = 0; j < group_filters * taps; ++j) {
      const std::vector<int64_t> tap = IndexOf(j % taps, t.kernel);
      int64_t place = i / pixels / t.channels * t.filters + group * group_filters + j / taps;
      bool inside = true;
      for (size_t axis = 0; axis < pixel.size(); ++axis) {
        const int64_t to =
            pixel[axis] * at(t.stride, axis, 1) + tap[axis] * at(t.dilation, axis, 1) - at(t.pad, axis, 0);
        inside = inside && to >= 0 && to < t.result[axis];
        place = place * t.result[axis] + to;
      }
      if (!inside) continue;
      y[static_cast<size_t>(place)] +=
          x[static_cast<size_t>(i)] * w[static_cast<size_t>(channel * group_filters * taps + j)];
    }
  }
  return y;
}

const std::vector<Transposed>& Cases() {
  static const auto* const cases = new std::vector<Transposed>{
      {3, 4, 1, {5}, {3}, {2}, {}, {1}, {1}, {10}},
      {4, 6, 2, {3, 4}, {3, 2}, {2, 3}, {}, {1, 0}, {1, 0}, {6, 11}},
      {2, 3, 1, {3, 3}, {2, 2}, {2}, {}, {}, {}, {6, 6}},
      {3, 3, 3, {4, 3}, {3, 3}, {}, {2}, {1}, {1}, {7, 6}},  // a stride or more is added to the output
      {3, 5, 1, {2, 2}, {1, 1}, {3}, {4}, {}, {3, 2}, {7, 6}},
      {1, 2, 1, {1, 1}, {3, 3}, {2}, {}, {1}, {1}, {2, 2}},
      {2, 4, 2, {2, 3, 2}, {2, 3, 2}, {2, 1, 2}, {}, {0, 1, 0}, {}, {4, 3, 4}},
  };
  return *cases;
}

TEST(ImageLayers, ConvTransposeAddsWeightsTimesEachPixel) {
  for (const Transposed& t : Cases()) {
    std::vector<int64_t> dims = t.size;
    dims.insert(dims.begin(), t.channels);
    for (const DType precision : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
      SCOPED_TRACE(absl::StrCat(t.Layer(), " ", Name(precision)));
      const auto session =
          MakeSession(absl::StrCat(Input(dims), "layer { name: \"y\" input: \"x\" ", t.Layer(), " } output: \"y\""),
                      {.batch = kBatch, .training = false, .precision = precision});
      ASSERT_TRUE(session.ok()) << session.status().message();
      const std::vector<double> x = Numbers(kBatch * Count(dims), 5);
      const std::vector<double> w = Numbers(t.channels * t.filters / t.groups * Count(t.kernel), 3);
      const std::vector<double> bias = Numbers(t.filters, 2);
      ASSERT_TRUE((*session)->Feed("x", x).ok());
      ASSERT_TRUE((*session)->SetVariable("y.weight", w).ok());
      ASSERT_TRUE((*session)->SetVariable("y.bias", bias).ok());
      ASSERT_TRUE((*session)->Run().ok());
      EXPECT_THAT(*(*session)->Fetch("y"), ElementsAreArray(Define(t, x, w, bias)));
    }
  }
}

TEST(ImageLayers, ConvTransposeCountsItsMultiplyAdds) {
  const auto multiply_adds = [](bool train) {
    const auto session = MakeSession(absl::StrCat(Input({4, 5, 6}), R"(
        layer { name: "y" input: "x" conv_transpose { filters: 6 kernel: 3 stride: 2 groups: 2 } }
        layer { name: "loss" input: "y" reduce_mean {} } objective: "loss")"),
                                     {.batch = 1, .training = train});
    EXPECT_TRUE(session.ok()) << session.status().message();
    return Summarize((*session)->compiled().graph, OpRegistry::Builtin()).multiply_adds;
  };
  EXPECT_EQ(multiply_adds(false), 4 * 5 * 6 * (6 / 2) * 3 * 3);  // of each pixel of x
  EXPECT_EQ(multiply_adds(true), multiply_adds(false));
}

TEST(ImageLayers, ConvTransposeSaysWhichOptionIsWrong) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"kernel: 3", "option \"filters\": is missing"},
      {"kernel: 3 filters: 0", "option \"filters\": expected between 1 and 1073741824, found 0"},
      {"filters: 4", "option \"kernel\": is missing"},
      {"filters: 4 kernel: [3, 3, 3]", "option \"kernel\": expected 1 or 2 numbers"},
      {"filters: 4 kernel: 3 stride: 0", "option \"stride\": expected between 1"},
      {"filters: 4 kernel: 3 dilation: 0", "option \"dilation\": expected between 1"},
      {"filters: 4 kernel: 3 pad: -1", "option \"pad\": expected between 0"},
      {"filters: 4 kernel: 3 pad: 3",
       "option \"pad\": expected less than the kernel, which spans 3 of axis 2, found 3"},
      {"filters: 4 kernel: 3 groups: 3", "option \"groups\": expected a divisor of the input's 4 channels, found 3"},
      {"filters: 3 kernel: 3 groups: 2", "option \"filters\": expected a multiple of the 2 groups, found 3"},
      {"filters: 4 kernel: 3 stride: 2 output_pad: 2",
       "option \"output_pad\": expected less than the stride, 2, or the dilation, 1, of axis 2, found 2"},
      {"filters: 4 kernel: 3 output_pad: -1", "option \"output_pad\": expected between 0"},
      {"filters: 4 kernel: [5, 1] stride: 1 pad: [4, 0]",
       "option \"pad\": leaves nothing of axis 2: 4 on both sides of 7"},
      {"filters: 4 kernel: 3 stride: 1073741824", "too many elements"},
  };
  for (const auto& [options, message] : bad) {
    EXPECT_THAT(ErrorOf({4, 3, 3}, absl::StrCat("conv_transpose { ", options, " }")),
                testing::AllOf(HasSubstr("test:2:"), HasSubstr("layer \"y\" (conv_transpose): "), HasSubstr(message)));
  }
  EXPECT_THAT(ErrorOf({4}, "conv_transpose { filters: 4 kernel: 3 }"),
              HasSubstr("input 0 \"x\" [1, 4]: expected 3 to 5 dimensions"));
}

// Runs a layer on 0, 1, 2, ... and returns what it makes of them.
std::vector<double> Shuffled(const std::vector<int64_t>& dims, const std::string& layer) {
  const auto session =
      MakeSession(absl::StrCat(Input(dims), "layer { name: \"y\" input: \"x\" ", layer, " } output: \"y\""),
                  {.batch = 1, .training = false});
  EXPECT_TRUE(session.ok()) << session.status().message();
  std::vector<double> x;
  for (int64_t i = 0; i < Count(dims); ++i) x.push_back(static_cast<double>(i));
  EXPECT_TRUE((*session)->Feed("x", x).ok());
  EXPECT_TRUE((*session)->Run().ok());
  return *(*session)->Fetch("y");
}

TEST(ImageLayers, PixelShufflePutsChannelsBetweenPixels) {
  EXPECT_THAT(Shuffled({4, 1, 2}, "pixel_shuffle { factor: 2 }"), ElementsAreArray({0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_THAT(Shuffled({8, 1, 1}, "pixel_shuffle { factor: 2 }"), ElementsAreArray({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THAT(Shuffled({6, 2}, "pixel_shuffle { factor: 3 }"),
              ElementsAreArray({0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  EXPECT_THAT(Shuffled({1, 2, 4}, "pixel_unshuffle { factor: 2 }"), ElementsAreArray({0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(ImageLayers, PixelUnshuffleIsTheInverse) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{18, 3, 2}, {9, 4}, {54, 2, 1, 3}}) {
    const std::string text = absl::StrCat(Input(dims), R"(
        layer { name: "y" input: "x" pixel_shuffle { factor: 3 } }
        layer { name: "z" input: "y" pixel_unshuffle { factor: 3 } }
        layer { name: "sum" input: "z" reduce_sum {} } objective: "sum" output: "z")");
    const auto session = MakeSession(text, {.batch = kBatch, .gradients = {"x"}});
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::vector<double> x = Numbers(kBatch * Count(dims), 5);
    ASSERT_TRUE((*session)->Feed("x", x).ok());
    ASSERT_TRUE((*session)->Run().ok());
    EXPECT_EQ(*(*session)->Fetch("z"), x);
    EXPECT_THAT(*(*session)->Fetch("d(x)"), testing::Each(1));
  }
}

TEST(ImageLayers, PixelShuffleSaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf({6, 2, 2}, "pixel_shuffle { factor: 2 }"),
              HasSubstr("input 0 \"x\" [1, 6, 2, 2]: expected a multiple of 2^2 channels, found 6"));
  EXPECT_THAT(ErrorOf({4, 2, 3}, "pixel_unshuffle { factor: 2 }"),
              HasSubstr("input 0 \"x\" [1, 4, 2, 3]: expected a multiple of 2 along axis 3, found 3"));
  EXPECT_THAT(ErrorOf({4, 2, 2}, "pixel_shuffle {}"), HasSubstr("option \"factor\": is missing"));
  EXPECT_THAT(ErrorOf({4, 2, 2}, "pixel_shuffle { factor: 0 }"), HasSubstr("\"factor\": expected at least 1, found 0"));
  EXPECT_THAT(ErrorOf({4}, "pixel_shuffle { factor: 2 }"), HasSubstr("expected 3 to 5 dimensions"));
}

}  // namespace
}  // namespace snug::core
