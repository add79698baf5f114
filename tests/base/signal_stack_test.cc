#include "engine/base/signal_stack.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

namespace snug::core {
namespace {

stack_t StackOfHandlers() {
  stack_t now = {};
  EXPECT_EQ(sigaltstack(nullptr, &now), 0);
  return now;
}

TEST(SignalStack, AThreadWithoutOneGetsOne) {
  std::thread([] {
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    ASSERT_EQ(sigaltstack(&none, nullptr), 0);  // sanitizers may have given it one
    NeedSignalStack();
    const stack_t given = StackOfHandlers();
    EXPECT_EQ(given.ss_flags & SS_DISABLE, 0);
    EXPECT_GE(given.ss_size, size_t{32} << 10);
    NeedSignalStack();
    EXPECT_EQ(StackOfHandlers().ss_sp, given.ss_sp);
  }).join();
}

TEST(SignalStack, AThreadWithOneKeepsIt) {
  std::thread([] {
    std::vector<char> bytes(64 << 10);
    const stack_t before = StackOfHandlers();
    const stack_t own = {.ss_sp = bytes.data(), .ss_flags = 0, .ss_size = bytes.size()};
    ASSERT_EQ(sigaltstack(&own, nullptr), 0);
    NeedSignalStack();
    EXPECT_EQ(StackOfHandlers().ss_sp, bytes.data());
    ASSERT_EQ(sigaltstack(&before, nullptr), 0);
  }).join();
}

}  // namespace
}  // namespace snug::core
