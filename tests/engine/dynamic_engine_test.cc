// What only shows in parallel: who waits for whom. Gates, not sleeps: a task that must not have run yet is one that a
// closed gate holds back, and what must be possible meanwhile is done before the gate opens.
#include "engine/run/dependency/dynamic_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/event.h"
#include "tests/engine/engines.h"

namespace snug::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TaskFunction WaitFor(Event& gate) {
  return [&gate] {
    gate.Wait();
    return absl::OkStatus();
  };
}
TaskFunction Signal(Event& event) {
  return [&event] {
    event.Signal();
    return absl::OkStatus();
  };
}

// The sequence in which tasks ran.
struct Log {
  std::mutex mu;
  std::vector<int> entries;

  TaskFunction Add(int entry) {
    return [this, entry] {
      const std::lock_guard lock(mu);
      entries.push_back(entry);
      return absl::OkStatus();
    };
  }
};

TEST(DynamicEngine, AWaitOnALongWriteBlocks) {
  const auto engine = MakeEngine(2);
  const Tag x = engine->NewTag();
  Event gate;
  bool written = false;
  ASSERT_TRUE(engine
                  ->Push({.writes = {x}},
                         [&] {
                           gate.Wait();
                           written = true;
                           return absl::OkStatus();
                         })
                  .ok());
  std::thread opener([&] { gate.Signal(); });
  ASSERT_TRUE(engine->Wait(x).ok());
  EXPECT_TRUE(written);
  opener.join();
}

TEST(DynamicEngine, AWaitDuringALongReadDoesNot) {
  const auto engine = MakeEngine(1);
  const Tag x = engine->NewTag();
  Event begun, gate;
  ASSERT_TRUE(engine
                  ->Push({.reads = {x}},
                         [&] {
                           begun.Signal();
                           gate.Wait();
                           return absl::OkStatus();
                         })
                  .ok());
  begun.Wait();
  ASSERT_TRUE(engine->Wait(x).ok());  // returns although the read has not ended
  gate.Signal();
  ASSERT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, ReadsRunSideBySideAndWritesWaitForThem) {
  const auto engine = MakeEngine(2);
  const Tag x = engine->NewTag();
  Event first, second;
  std::atomic<int> reads = 0;
  // Each read needs the other to have begun.
  const auto read = [&](Event& mine, Event& others) -> TaskFunction {
    return [&] {
      mine.Signal();
      others.Wait();
      ++reads;
      return absl::OkStatus();
    };
  };
  int seen_by_write = -1, seen_by_read = -1;
  ASSERT_TRUE(engine->Push({.reads = {x}}, read(first, second)).ok());
  ASSERT_TRUE(engine->Push({.reads = {x}}, read(second, first)).ok());
  ASSERT_TRUE(engine
                  ->Push({.writes = {x}},
                         [&] {
                           seen_by_write = reads;
                           reads = 10;
                           return absl::OkStatus();
                         })
                  .ok());
  ASSERT_TRUE(engine
                  ->Push({.reads = {x}},
                         [&] {
                           seen_by_read = reads;
                           return absl::OkStatus();
                         })
                  .ok());
  ASSERT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(seen_by_write, 2);
  EXPECT_EQ(seen_by_read, 10);
}

TEST(DynamicEngine, IndependentTasksRunSideBySide) {
  const auto engine = MakeEngine(4);
  std::array<Event, 4> events;
  for (size_t i = 0; i < events.size(); ++i) {  // in a circle: each needs the next to have begun
    ASSERT_TRUE(engine
                    ->Push({.writes = {Region{0, static_cast<int64_t>(i) * 8, static_cast<int64_t>(i) * 8 + 8}}},
                           [&, i] {
                             events[i].Signal();
                             events[(i + 1) % events.size()].Wait();
                             return absl::OkStatus();
                           })
                    .ok());
  }
  ASSERT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, PrioritiesOrderWhatIsReady) {
  const auto engine = MakeEngine(1);
  const Tag x = engine->NewTag();
  Event begun, gate;
  Log log;
  ASSERT_TRUE(engine
                  ->Push({},
                         [&] {
                           begun.Signal();
                           gate.Wait();
                           return absl::OkStatus();
                         })
                  .ok());
  begun.Wait();
  ASSERT_TRUE(engine->Push({.writes = {x}, .priority = 1}, log.Add(10)).ok());
  ASSERT_TRUE(engine->Push({.priority = -1}, log.Add(50)).ok());
  ASSERT_TRUE(engine->Push({.priority = 3}, log.Add(30)).ok());
  ASSERT_TRUE(engine->Push({.priority = 1}, log.Add(11)).ok());
  ASSERT_TRUE(engine->Push({.reads = {x}, .priority = 9}, log.Add(90)).ok());  // never before what it depends on
  ASSERT_TRUE(engine->Push({.reads = {x}, .priority = 0}, log.Add(40)).ok());  // ready with 90, but behind 11
  gate.Signal();
  ASSERT_TRUE(engine->WaitAll().ok());
  EXPECT_THAT(log.entries, ElementsAre(30, 10, 90, 11, 40, 50));
}

TEST(DynamicEngine, StreamHintsKeepTasksOnOneWorker) {
  const auto engine = MakeEngine(2);
  // Both workers are held, so that all is queued before anything runs; the last task of each stream lets go of its own.
  std::array<Event, 2> begun, gate;
  std::array<std::atomic<int>, 2> held_stream = {-1, -1};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(engine
                    ->Push({},
                           [&, i](const TaskContext& context) {
                             held_stream[i] = context.stream.index;
                             begun[i].Signal();
                             gate[i].Wait();
                             return absl::OkStatus();
                           })
                    .ok());
    begun[i].Wait();
  }
  // Only the worker of stream 0 is let go: it takes its own first, in sequence, and then the other's.
  Log log;
  for (const int i : {1, 2, 3}) {
    ASSERT_TRUE(engine->Push({.stream = 1}, log.Add(100 + i)).ok());
    ASSERT_TRUE(engine->Push({.stream = 0}, log.Add(i)).ok());
  }
  Event last;
  ASSERT_TRUE(engine->Push({.priority = -1}, Signal(last)).ok());
  const size_t of_stream_0 = held_stream[0] == 0 ? 0 : 1;
  gate[of_stream_0].Signal();
  last.Wait();
  gate[1 - of_stream_0].Signal();
  ASSERT_TRUE(engine->WaitAll().ok());
  EXPECT_THAT(log.entries, ElementsAre(1, 2, 3, 101, 102, 103));
}

TEST(DynamicEngine, DevicesHaveWorkersOfTheirOwn) {
  const Device first{Device::Kind::kCpu, 0}, second{Device::Kind::kCpu, 1}, third{Device::Kind::kCpu, 2};
  const auto engine = DynamicEngine::Create({.devices = {{first, 1}, {second, 1}}}).value();
  const Tag x = engine->NewTag();
  Event from_first;
  Device ran_on = first;
  ASSERT_TRUE(engine->Push({.writes = {x}, .device = first}, WaitFor(from_first)).ok());
  ASSERT_TRUE(engine->Push({.device = second}, Signal(from_first)).ok());  // while the other device's worker is held
  ASSERT_TRUE(engine
                  ->Push({.reads = {x}, .device = second},
                         [&](const TaskContext& context) {
                           ran_on = context.stream.device;
                           return absl::OkStatus();
                         })
                  .ok());
  ASSERT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(ran_on, second);
  EXPECT_THAT(std::string(engine->Push({.device = third}, Nothing).message()), HasSubstr("cpu:2"));
}

// Pushes from a thread of its own until told to stop; reports how far it came.
struct Pusher {
  std::atomic<int> pushed = 0;
  std::thread thread;

  Pusher(Engine& engine, int tasks, int64_t bytes, Event& gate)
      : thread([this, &engine, tasks, bytes, &gate] {
          for (int i = 0; i < tasks; ++i) {
            EXPECT_TRUE(engine.Push({.bytes = bytes}, WaitFor(gate)).ok());
            ++pushed;
          }
        }) {}
};

TEST(DynamicEngine, PushingAheadIsBoundedByCount) {
  const auto engine = DynamicEngine::Create({.devices = {{{}, 1}}, .max_tasks = 4}).value();
  Event gate;
  Pusher pusher(*engine, 100, 0, gate);
  while (pusher.pushed < 4) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) std::this_thread::yield();
  EXPECT_EQ(pusher.pushed, 4);
  // The engine's own tasks are not held up, nor are waits.
  EXPECT_TRUE(engine->Delete(engine->NewTag()).ok());
  EXPECT_TRUE(engine->Wait(engine->NewTag()).ok());
  gate.Signal();
  pusher.thread.join();
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, PushingAheadIsBoundedByBytes) {
  const auto engine = DynamicEngine::Create({.devices = {{{}, 1}}, .max_bytes = 1000}).value();
  Event gate;
  ASSERT_TRUE(engine->Push({.bytes = 5000}, WaitFor(gate)).ok());  // alone, a task may hold more
  Event open;
  open.Signal();
  Pusher pusher(*engine, 50, 400, open);
  for (int i = 0; i < 30; ++i) std::this_thread::yield();
  EXPECT_EQ(pusher.pushed, 0);
  ASSERT_TRUE(engine->Push({}, Nothing).ok());  // without bytes
  gate.Signal();
  pusher.thread.join();
  EXPECT_EQ(pusher.pushed, 50);
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, RoomForBytesIsToldTaskByTask) {
  const auto engine = DynamicEngine::Create({.devices = {{{}, 1}}, .max_bytes = 1000}).value();
  Event first, second;
  ASSERT_TRUE(engine->Push({.bytes = 600}, WaitFor(first)).ok());
  ASSERT_TRUE(engine->Push({.bytes = 400}, WaitFor(second)).ok());
  Pusher pusher(*engine, 1, 500, second);
  first.Signal();
  while (pusher.pushed < 1) std::this_thread::yield();  // although the worker never comes to rest
  second.Signal();
  pusher.thread.join();
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, TasksArePushedByTasksPastTheLimit) {
  const auto engine = DynamicEngine::Create({.devices = {{{}, 1}}, .max_tasks = 1}).value();
  std::atomic<int> ran = 0;
  ASSERT_TRUE(engine
                  ->Push({},
                         [&] {
                           for (int i = 0; i < 20; ++i) {
                             EXPECT_TRUE(engine
                                             ->Push({},
                                                    [&] {
                                                      ++ran;
                                                      return absl::OkStatus();
                                                    })
                                             .ok());
                           }
                           return absl::OkStatus();
                         })
                  .ok());
  ASSERT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(ran, 20);
}

TEST(DynamicEngine, AnotherThreadsWaitSeesAllThatWasPushed) {
  const auto engine = MakeEngine(1);
  const Tag x = engine->NewTag();
  for (int round = 0; round < 300; ++round) {
    Event pushed;
    int value = 0;
    std::thread waiter([&] {
      pushed.Wait();
      EXPECT_TRUE(engine->Wait(x).ok());
      EXPECT_EQ(value, 1);
      EXPECT_TRUE(engine->WaitAll().ok());
    });
    ASSERT_TRUE(engine
                    ->Push({.writes = {x}},
                           [&] {
                             value = 1;
                             return absl::OkStatus();
                           })
                    .ok());
    pushed.Signal();
    waiter.join();
  }
}

TEST(DynamicEngine, SeveralThreadsMayPush) {
  for (const int workers : {1, 2, 4}) {
    const auto engine = DynamicEngine::Create({.devices = {{{}, workers}}, .max_tasks = 64}).value();
    const Tag x = engine->NewTag();
    int64_t sum = 0;  // guarded by x
    std::vector<std::thread> pushers;
    for (int t = 0; t < 3; ++t) {
      pushers.emplace_back([&, t] {
        const Tag own = engine->NewTag();
        int64_t mine = 0;
        for (int i = 0; i < 2000; ++i) {
          EXPECT_TRUE(engine
                          ->Push({.writes = {own}},
                                 [&mine] {
                                   ++mine;
                                   return absl::OkStatus();
                                 })
                          .ok());
          EXPECT_TRUE(engine
                          ->Push({.reads = {own}, .writes = {x}, .priority = t},
                                 [&sum, &mine, i] {
                                   EXPECT_EQ(mine, i + 1);
                                   ++sum;
                                   return absl::OkStatus();
                                 })
                          .ok());
        }
        EXPECT_TRUE(engine->Wait(own).ok());
        EXPECT_TRUE(engine->Wait(x).ok());
        EXPECT_TRUE(engine->Delete(own).ok());
      });
    }
    for (std::thread& pusher : pushers) pusher.join();
    EXPECT_TRUE(engine->WaitAll().ok());
    EXPECT_EQ(sum, 6000);
    EXPECT_EQ(engine->Version(x).value(), 6000);
  }
}

TEST(DynamicEngine, CancellingSkipsWhatHasNotBegun) {
  const auto engine = MakeEngine(1);
  const Tag x = engine->NewTag(), y = engine->NewTag(), z = engine->NewTag();
  Event begun, gate;
  bool ran = false, destroyed = false;
  ASSERT_TRUE(engine
                  ->Push({.writes = {x}},
                         [&] {
                           begun.Signal();
                           gate.Wait();
                           return absl::OkStatus();
                         })
                  .ok());
  begun.Wait();
  ASSERT_TRUE(engine
                  ->Push({.reads = {x}, .writes = {y}},
                         [&] {
                           ran = true;
                           return absl::OkStatus();
                         })
                  .ok());
  ASSERT_TRUE(engine
                  ->Delete(z,
                           [&] {
                             destroyed = true;
                             return absl::OkStatus();
                           })
                  .ok());
  std::thread stopper([&] { EXPECT_TRUE(engine->Stop(StopMode::kCancel).ok()); });
  // Only when the engine takes no more is it cancelling for sure; then the running task may end. Until then tasks come
  // slowly: on a busy machine the other thread may be long in coming, and a full queue would wait for that task.
  while (engine->Push({}, Nothing).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  gate.Signal();
  stopper.join();
  EXPECT_FALSE(ran);
  EXPECT_TRUE(destroyed);
  EXPECT_TRUE(engine->Wait(x).ok());  // had begun
  EXPECT_EQ(engine->Wait(y).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine->WaitAll().code(), absl::StatusCode::kCancelled);
  engine->Start();
  EXPECT_TRUE(engine->Acknowledge(y).ok());
  EXPECT_TRUE(engine->Push({.writes = {y}}, Nothing).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST(DynamicEngine, DestructionFinishesEverything) {
  std::atomic<int> ran = 0;
  {
    const auto engine = MakeEngine(2);
    const Tag x = engine->NewTag();
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(engine
                      ->Push({.writes = {x}},
                             [&] {
                               ++ran;
                               return absl::OkStatus();
                             })
                      .ok());
    }
    ASSERT_TRUE(engine
                    ->Delete(x,
                             [&] {
                               ++ran;
                               return absl::OkStatus();
                             })
                    .ok());
  }
  EXPECT_EQ(ran, 1001);
}

TEST(DynamicEngine, OptionsAreChecked) {
  EXPECT_FALSE(DynamicEngine::Create({.devices = {}}).ok());
  EXPECT_FALSE(DynamicEngine::Create({.devices = {{{}, 0}}}).ok());
  EXPECT_FALSE(DynamicEngine::Create({.devices = {{{}, 1}, {{}, 1}}}).ok());
  EXPECT_FALSE(DynamicEngine::Create({.max_tasks = 0}).ok());
  EXPECT_FALSE(DynamicEngine::Create({.max_bytes = 0}).ok());
}

}  // namespace
}  // namespace snug::core
