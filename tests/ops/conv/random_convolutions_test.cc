// Convolutions of shapes that nobody would think of: what libraries and our own kernels are asked for by all the
// networks that users have. Each part is checked as the conformance suite checks an op's samples: against the plain
// kernel, whose sums are in double or as good, with guards around all memory, on several threads.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "ops/kernels/conv/geometry.h"
#include "ops/kit/options.h"
#include "ops/registry.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#include "tests/ops/conformance.h"

namespace snug::core::test {
namespace {

class RandomConvolution {
 public:
  explicit RandomConvolution(uint64_t seed) : random_(seed) {
    while (!Draw()) {
    }
  }

  void AddTo(std::deque<OpSamples>& all) const {
    const OpRegistry& registry = OpRegistry::Builtin();
    const Shape x = geometry_.input_shape(), w = geometry_.weight_shape(), y = geometry_.output_shape();
    const auto add = [&](const char* op, Options options, const Shape& first, const Shape& second) {
      SampleBuilder& samples = all.emplace_back(OpSamples{registry.Find(op), {}}).samples;
      samples.Case(options_.ShortDebugString())
          .With(std::move(options))
          .Input(first)
          .Input(second)
          .Only({DType::kFloat32, DType::kBFloat16});
    };
    add("conv", proto::MakeOptions(options_), x, w);
    add("conv_grad_input", GradOptions(x), y, w);
    add("conv_grad_weight", GradOptions(w), x, y);
  }

 private:
  int64_t From(std::initializer_list<int64_t> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }
  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }

  // One number for all axes, or one for each.
  template <class DrawNumber, class Add>
  void ForAxes(int spatial, const DrawNumber& draw, const Add& add) {
    const bool alike = Chance(0.6);
    int64_t number = draw();
    for (int axis = 0; axis < spatial; ++axis) {
      add(number);
      if (!alike) number = draw();
    }
  }

  // Draws anew; false: no convolution has these options.
  bool Draw() {
    options_.Clear();
    const int spatial = static_cast<int>(From({1, 2, 2, 2, 3}));
    const int64_t channels = From({1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65});
    Shape x({From({1, 1, 2, 3, 5}), channels});
    const int64_t longest = spatial == 1 ? 40 : spatial == 2 ? 20 : 8;
    ForAxes(
        spatial,
        [&] {
          return Chance(0.2) ? From({1, 2}) : Between(1, longest);
        },
        [&](int64_t n) { x.Append(n); });
    ForAxes(
        spatial,
        [&] {
          return From({1, 1, 2, 3, 3, 4, 5, 7});
        },
        [&](int64_t n) { options_.add_kernel(n); });
    if (Chance(0.5))
      ForAxes(
          spatial,
          [&] {
            return From({1, 2, 2, 3, 4});
          },
          [&](int64_t n) { options_.add_stride(n); });
    if (Chance(0.3))
      ForAxes(
          spatial,
          [&] {
            return From({1, 2, 3});
          },
          [&](int64_t n) { options_.add_dilation(n); });
    if (Chance(0.2)) {
      options_.set_padding(proto::SAME);
    } else if (Chance(0.7)) {
      ForAxes(
          spatial, [&] { return Between(0, 3); }, [&](int64_t n) { options_.add_pad(n); });
    }
    if (Chance(0.2)) {
      options_.set_depthwise(true);
    } else {
      options_.set_filters(static_cast<int32_t>(From({1, 2, 3, 5, 7, 8, 12, 16, 17, 32, 33, 48, 64, 65})));
      if (Chance(0.2)) options_.set_groups(static_cast<int32_t>(From({2, 3, 4, 8})));
    }
    const absl::StatusOr<ops::ConvGeometry> geometry = ops::MakeConvGeometry(options_, x);
    if (!geometry.ok() || geometry->multiply_adds() > 4e6) return false;
    geometry_ = *geometry;
    return true;
  }

  Options GradOptions(const Shape& result) const {
    proto::ConvGrad options;
    *options.mutable_conv() = options_;
    SetShapeOption(result, &options);
    return proto::MakeOptions(options);
  }

  std::mt19937_64 random_;
  proto::Conv options_;
  ops::ConvGeometry geometry_;
};

void Check(uint64_t begin, uint64_t end) {
  for (uint64_t seed = begin; seed < end; ++seed) {
    std::deque<OpSamples> samples;
    RandomConvolution(seed).AddTo(samples);
    for (const ConformanceCase& c : CasesOf(samples)) {
      Failures failures = CheckKernels(OpRegistry::Builtin(), c);
      for (std::string& more : CheckResults(OpRegistry::Builtin(), c)) failures.push_back(std::move(more));
      for (const std::string& failure : failures) {
        ADD_FAILURE() << "seed " << seed << ", " << c.Name() << " of "
                      << absl::StrJoin(c.sample->inputs(), " and ",
                                       [](std::string* out, const SampleInput& input) {
                                         absl::StrAppend(out, input.shape.ToString());
                                       })
                      << ": " << failure;
      }
    }
  }
}

TEST(RandomConvolutions, AreAsPlainOnes) { Check(0, 100); }

TEST(RandomConvolutions, CampaignAreAsPlainOnes) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
  Check(100, 10000);
}

}  // namespace
}  // namespace snug::core::test
