#include "engine/base/event.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "engine/base/device.h"

namespace snug::core {
namespace {

TEST(Event, WaitersSeeWhatWasDoneBefore) {
  for (int round = 0; round < 200; ++round) {
    auto ready = std::make_unique<Event>();
    int value = 0;
    std::thread signaller([&] {
      value = round;
      ready->Signal();
    });
    ready->Wait();
    EXPECT_TRUE(ready->passed());
    ready.reset();  // at once: the signaller must be through with it
    EXPECT_EQ(value, round);
    signaller.join();
  }
}

TEST(Event, WakesAllWhoSleep) {
  Event ready;
  std::vector<std::thread> waiters;
  waiters.reserve(4);
  for (int i = 0; i < 4; ++i) waiters.emplace_back([&] { ready.Wait(); });
  EXPECT_FALSE(ready.passed());
  ready.Signal();
  for (std::thread& t : waiters) t.join();
  ready.Wait();  // has passed for good
}

TEST(Device, IsNamedByKindAndIndex) {
  EXPECT_EQ(Device{}.ToString(), "cpu:0");
  EXPECT_EQ((Device{Device::Kind::kCuda, 3}.ToString()), "cuda:3");
}

}  // namespace
}  // namespace snug::core
