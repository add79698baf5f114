#include "engine/run/dependency/task_function.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace snug::core {
namespace {

// Holds a share of a counter, and as many bytes as wanted.
template <size_t kBytes>
struct Held {
  std::shared_ptr<int> calls;
  std::array<char, kBytes> bytes = {};

  absl::Status operator()() {
    ++*calls;
    return absl::OkStatus();
  }
};

template <size_t kBytes>
void MovesCallsAndDestroysOnce() {
  auto calls = std::make_shared<int>(0);
  {
    TaskFunction first = Held<kBytes>{calls};
    EXPECT_EQ(calls.use_count(), 2);
    TaskFunction second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_TRUE(second({}).ok());
    TaskFunction third;
    third = std::move(second);
    EXPECT_TRUE(third({}).ok());
    EXPECT_EQ(calls.use_count(), 2);
    third = TaskFunction(Held<kBytes>{calls});
    EXPECT_EQ(calls.use_count(), 2);
    third.Reset();
    EXPECT_EQ(calls.use_count(), 1);
    EXPECT_FALSE(third);
    third = Held<kBytes>{calls};
  }
  EXPECT_EQ(calls.use_count(), 1);
  EXPECT_EQ(*calls, 2);
}

TEST(TaskFunction, SmallOnesMoveCallAndDestroyOnce) { MovesCallsAndDestroysOnce<1>(); }
TEST(TaskFunction, LargeOnesMoveCallAndDestroyOnce) { MovesCallsAndDestroysOnce<1000>(); }

TEST(TaskFunction, TakesTheContextOrNot) {
  int stream = 0;
  TaskFunction with = [&](const TaskContext& context) {
    stream = context.stream.index;
    return absl::OkStatus();
  };
  EXPECT_TRUE(with({.stream = {.index = 5}}).ok());
  EXPECT_EQ(stream, 5);
  TaskFunction without = [] { return absl::InternalError("said"); };
  EXPECT_EQ(without({}), absl::InternalError("said"));
}

}  // namespace
}  // namespace snug::core
