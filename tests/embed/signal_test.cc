// Handlers of signals that interrupt steps at any place.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "snug/snug.h"

namespace snug::testing {
namespace {

std::atomic<int> handled = 0;

void Count(int) { handled.fetch_add(1, std::memory_order_relaxed); }

// Raises SIGALRM every tenth of a millisecond, and handles it on the stack for handlers.
class Alarms {
 public:
  Alarms() {
    struct sigaction action = {};
    action.sa_handler = Count;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    EXPECT_EQ(sigaction(SIGALRM, &action, &before_), 0);
    Every(100);
  }
  ~Alarms() {
    Every(0);
    EXPECT_EQ(sigaction(SIGALRM, &before_, nullptr), 0);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static void Every(suseconds_t microseconds) {
    const itimerval timer = {.it_interval = {0, microseconds}, .it_value = {0, microseconds}};
    EXPECT_EQ(setitimer(ITIMER_REAL, &timer, nullptr), 0);
  }
  struct sigaction before_ = {};
};

// A dense layer of a small batch is a product of oneDNN's, where there is oneDNN.
constexpr const char* kNetwork = R"(
name: "handlers"
input { name: "x" shape { dim: 784 } }
input { name: "y" dtype: INT32 }
layer { name: "fc1" input: "x" dense { units: 512 } }
layer { name: "act" input: "fc1" relu {} }
layer { name: "fc2" input: "act" dense { units: 10 } }
layer { name: "loss" input: "fc2" input: "y" softmax_cross_entropy {} }
objective: "loss"
optimizer { learning_rate: 0.01 sgd { momentum: 0.9 } }
)";
constexpr int kBatch = 64;

std::vector<float> WeightsAfter(int steps) {
  Result<Session> session = Session::Create(*Network::FromText(kNetwork), {.batch = kBatch, .threads = 1});
  EXPECT_TRUE(session.ok()) << session.status().message();
  std::vector<float> x(kBatch * 784);
  std::vector<int32_t> y(kBatch);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 97;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
  for (int i = 0; i < steps; ++i) EXPECT_TRUE(session->Step({{"x", x}, {"y", y}}).ok());
  const Tensor weight = *session->FindVariable("fc1.weight");
  const auto values = weight.as<const float>();
  return {values.begin(), values.end()};
}

// They came while the stack pointer was in a buffer on the heap, and what lay beside it was written over.
TEST(Signals, HandlersMayComeInTheMiddleOfAStep) {
  constexpr int kSteps = 600;
  const std::vector<float> undisturbed = WeightsAfter(kSteps);
  handled = 0;
  std::vector<float> disturbed;
  {
    const Alarms alarms;
    disturbed = WeightsAfter(kSteps);
  }
  EXPECT_GT(handled, 100);
  EXPECT_EQ(disturbed, undisturbed);
}

}  // namespace
}  // namespace snug::testing
