// The models whose depth is a loop, or which have a branch, learn.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/control/control_run.h"

namespace snug::core::test {
namespace {

std::unique_ptr<Session> NewSession(const std::string& model, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(model);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<Session>> session = MakeSession(*loaded, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *std::move(session) : nullptr;
}

// Four images of random numbers, which it begins to learn by heart: to the same bits whether its loop is rolled.
TEST(ModelsWithControlFlow, ARecurrentResNetLearns) {
  std::vector<double> unrolled;
  for (const LoopRule loops : {LoopRule::kUnrolled, LoopRule::kRolled}) {
    const std::unique_ptr<Session> session = NewSession("recurrent_resnet", {.batch = 4, .loops = loops});
    ASSERT_NE(session, nullptr);
    const std::vector<double> losses = Losses(*session, 12);
    EXPECT_NEAR(losses.front(), std::log(10), 1);
    EXPECT_LT(losses.back(), losses.front() * 2 / 3);
    if (loops == LoopRule::kUnrolled) unrolled = losses;
    EXPECT_EQ(losses, unrolled);
  }
}

// A line, a parabola and a bend, each learned by the piece of the network that a sample's x takes it to.
TEST(ModelsWithControlFlow, APiecewiseFunctionIsLearned) {
  constexpr int kBatch = 96, kSteps = 1500;
  const std::unique_ptr<Session> session = NewSession("piecewise", {.batch = kBatch});
  ASSERT_NE(session, nullptr);
  std::mt19937 random(1);
  Numbers x(kBatch), y(kBatch);
  double first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < kBatch; ++i) {
      x[i] = 3.0 * static_cast<double>(random() % 10'000) / 10'000;
      y[i] = x[i] < 1 ? 1 - 2 * x[i] : x[i] < 2 ? x[i] * x[i] - 3 : std::sin(3 * x[i]);
    }
    ASSERT_TRUE(session->Feed("x", x).ok());
    ASSERT_TRUE(session->Feed("y", y).ok());
    ASSERT_TRUE(session->Run().ok());
    last = *session->FetchScalar("loss");
    if (step == 0) first = last;
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.02);
}

}  // namespace
}  // namespace snug::core::test
