// What every engine does, the serial one and the dynamic one with any number of workers.
#include "engine/run/dependency/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/engines.h"

namespace snug::core {
namespace {

using ::testing::HasSubstr;

class EveryEngine : public testing::TestWithParam<ExecutorKind> {
 protected:
  int64_t Version(Tag tag) { return engine->Version(tag).value(); }
  static TaskFunction Fail(const std::string& message) {
    return [message] { return absl::InternalError(message); };
  }
  // A task that counts in `ran` how often it was not skipped.
  TaskFunction Counted() {
    return [this] {
      ++ran;
      return absl::OkStatus();
    };
  }

  std::atomic<int> ran = 0;
  std::unique_ptr<Engine> engine = MakeEngine(GetParam().workers);
};

INSTANTIATE_TEST_SUITE_P(Engines, EveryEngine, testing::ValuesIn(AllEngines()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryEngine, VersionsCountWrites) {
  const Tag x = engine->NewTag();
  EXPECT_EQ(Version(x), 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(engine->Push({.writes = {x}}, Nothing).ok());
    EXPECT_TRUE(engine->Push({.reads = {x}}, Nothing).ok());
  }
  EXPECT_TRUE(engine->Wait(x).ok());
  EXPECT_EQ(Version(x), 10);
}

TEST_P(EveryEngine, FailedAndSkippedWritesCountToo) {
  const Tag x = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {x}}, Fail("broken")).ok());
  EXPECT_TRUE(engine->Push({.writes = {x}}, Counted()).ok());
  EXPECT_FALSE(engine->Wait(x).ok());
  EXPECT_EQ(Version(x), 2);
  EXPECT_EQ(ran, 0);
}

TEST_P(EveryEngine, DuplicatesAreOneAccessAndWriteWins) {
  const Tag x = engine->NewTag(), y = engine->NewTag(), z = engine->NewTag();
  EXPECT_TRUE(engine->Push({.reads = {x, x}}, Counted()).ok());
  EXPECT_TRUE(engine->Push({.writes = {x, x}}, Counted()).ok());
  EXPECT_TRUE(engine->Push({.reads = {x}, .writes = {x}}, Counted()).ok());
  EXPECT_TRUE(engine->Push({.writes = {x, y, z, y, x, z}}, Counted()).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(Version(x), 3);
  EXPECT_EQ(Version(y), 1);
  EXPECT_EQ(Version(z), 1);
}

TEST_P(EveryEngine, TenReadsThenDelete) {
  const Tag x = engine->NewTag();
  auto resource = std::make_unique<int>(7);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(engine
                    ->Push({.reads = {x}},
                           [&] {
                             ran += *resource;
                             return absl::OkStatus();
                           })
                    .ok());
  }
  EXPECT_TRUE(engine
                  ->Delete(x,
                           [&] {
                             resource.reset();
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_THAT(std::string(engine->Push({.reads = {x}}, Nothing).message()), HasSubstr("deleted"));
  EXPECT_THAT(std::string(engine->Wait(x).message()), HasSubstr("deleted"));
  EXPECT_FALSE(engine->Delete(x).ok());
  EXPECT_FALSE(engine->Version(x).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(resource, nullptr);
  EXPECT_EQ(ran, 70);
}

TEST_P(EveryEngine, SlotsOfDeletedTagsAreUsedAgain) {
  const Tag first = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {first}}, Fail("broken")).ok());
  EXPECT_TRUE(engine->Delete(first).ok());
  EXPECT_FALSE(engine->WaitAll().ok());
  const Tag second = engine->NewTag();
  EXPECT_EQ(second.index, first.index);
  EXPECT_EQ(Version(second), 0);
  EXPECT_TRUE(engine->Wait(second).ok());  // the error went with the deleted tag
  EXPECT_FALSE(engine->Wait(first).ok());
}

TEST_P(EveryEngine, WaitingForAnUntouchedTagReturns) {
  EXPECT_TRUE(engine->Wait(engine->NewTag()).ok());
  EXPECT_TRUE(engine->Wait(Region{0, 0, 100}).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST_P(EveryEngine, StopsAndStartsAgain) {
  const Tag x = engine->NewTag();
  for (int round = 0; round < 3; ++round) {
    engine->Start();
    engine->Start();
    EXPECT_TRUE(engine->Push({.writes = {x}}, Counted()).ok());
    EXPECT_TRUE(engine->Stop(StopMode::kFinish).ok());
    EXPECT_TRUE(engine->Stop(StopMode::kFinish).ok());
    EXPECT_EQ(ran, round + 1);
    EXPECT_THAT(std::string(engine->Push({.writes = {x}}, Counted()).message()), HasSubstr("stopped"));
    EXPECT_TRUE(engine->Wait(x).ok());
    EXPECT_EQ(Version(x), round + 1);
  }
}

TEST_P(EveryEngine, ResourcesCanBeDestroyedAfterStopping) {
  const Tag x = engine->NewTag();
  bool destroyed = false;
  EXPECT_TRUE(engine->Push({.writes = {x}}, Nothing).ok());
  EXPECT_TRUE(engine->Stop(StopMode::kFinish).ok());
  EXPECT_TRUE(engine
                  ->Delete(x,
                           [&] {
                             destroyed = true;
                             return absl::OkStatus();
                           })
                  .ok());
  EXPECT_TRUE(destroyed);
}

TEST_P(EveryEngine, ErrorsAppearAtWaits) {
  const Tag x = engine->NewTag(), y = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {x}}, Fail("first")).ok());
  EXPECT_TRUE(engine->Push({.writes = {y}}, Nothing).ok());
  EXPECT_EQ(engine->Wait(x), absl::InternalError("first"));
  EXPECT_EQ(engine->Wait(x), absl::InternalError("first"));  // until it is acknowledged
  EXPECT_TRUE(engine->Wait(y).ok());
  EXPECT_EQ(engine->WaitAll(), absl::InternalError("first"));
  EXPECT_TRUE(engine->WaitAll().ok());  // told once
  EXPECT_FALSE(engine->Wait(x).ok());

  EXPECT_TRUE(engine->Push({.writes = {y}}, Fail("second")).ok());
  EXPECT_EQ(engine->Wait(y), absl::InternalError("second"));
  EXPECT_EQ(engine->WaitAll(), absl::InternalError("second"));
}

TEST_P(EveryEngine, AllThatAFailedTaskWritesReports) {
  const Tag x = engine->NewTag(), y = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {x, Region{0, 0, 64}, y}}, Fail("broken")).ok());
  EXPECT_EQ(engine->Wait(x), absl::InternalError("broken"));
  EXPECT_EQ(engine->Wait(y), absl::InternalError("broken"));
  EXPECT_EQ(engine->Wait(Region{0, 63, 70}), absl::InternalError("broken"));
  EXPECT_TRUE(engine->Wait(Region{0, 64, 70}).ok());
}

TEST_P(EveryEngine, TasksOnPoisonAreSkippedAndPassItOn) {
  const Tag x = engine->NewTag(), y = engine->NewTag(), z = engine->NewTag();
  EXPECT_TRUE(engine->Push({.reads = {y}, .writes = {x}}, Fail("broken")).ok());
  EXPECT_TRUE(engine->Push({.writes = {y}}, Counted()).ok());  // was only read by it
  EXPECT_TRUE(engine->Push({.reads = {x}, .writes = {z}}, Counted()).ok());
  EXPECT_TRUE(engine->Push({.writes = {x}}, Counted()).ok());
  EXPECT_EQ(engine->Wait(z), absl::InternalError("broken"));
  EXPECT_EQ(engine->Wait(x), absl::InternalError("broken"));
  EXPECT_TRUE(engine->Wait(y).ok());
  EXPECT_EQ(ran, 1);
}

TEST_P(EveryEngine, TheFirstErrorInPushOrderWins) {
  const Tag x = engine->NewTag(), y = engine->NewTag(), z = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {x}}, Fail("first")).ok());
  EXPECT_TRUE(engine->Push({.writes = {y}}, Fail("second")).ok());
  EXPECT_TRUE(engine->Push({.reads = {y, x}, .writes = {z}}, Counted()).ok());
  EXPECT_EQ(engine->WaitAll(), absl::InternalError("first"));
  EXPECT_EQ(engine->Wait(z), absl::InternalError("first"));
  EXPECT_EQ(engine->Wait(y), absl::InternalError("second"));
}

TEST_P(EveryEngine, AcknowledgedTagsWorkAgain) {
  const Tag x = engine->NewTag(), y = engine->NewTag();
  EXPECT_TRUE(engine->Push({.writes = {x, y}}, Fail("broken")).ok());
  EXPECT_TRUE(engine->Push({.writes = {x}}, Counted()).ok());  // before: skipped
  EXPECT_TRUE(engine->Acknowledge(x).ok());
  EXPECT_TRUE(engine->Push({.writes = {x}}, Counted()).ok());
  EXPECT_TRUE(engine->Wait(x).ok());
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(Version(x), 3);  // acknowledging is no write
  EXPECT_FALSE(engine->Wait(y).ok());
  EXPECT_TRUE(engine->AcknowledgeAll().ok());
  EXPECT_TRUE(engine->Wait(y).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
}

TEST_P(EveryEngine, FailsWaitsAndFailsAgain) {
  const Tag x = engine->NewTag();
  for (const std::string message : {"first", "second", "third"}) {
    EXPECT_TRUE(engine->Push({.writes = {x}}, Fail(message)).ok());
    EXPECT_EQ(engine->Wait(x), absl::InternalError(message));
    EXPECT_EQ(engine->WaitAll(), absl::InternalError(message));
    EXPECT_TRUE(engine->Acknowledge(x).ok());
  }
  EXPECT_TRUE(engine->Wait(x).ok());
}

TEST_P(EveryEngine, RegionsAreAcknowledgedByTheByte) {
  EXPECT_TRUE(engine->Push({.writes = {Region{3, 0, 100}}}, Fail("broken")).ok());
  EXPECT_TRUE(engine->Acknowledge(Region{3, 20, 40}).ok());
  EXPECT_TRUE(engine->Push({.writes = {Region{3, 20, 40}}}, Counted()).ok());
  EXPECT_TRUE(engine->Push({.writes = {Region{3, 39, 41}}}, Counted()).ok());
  EXPECT_TRUE(engine->Wait(Region{3, 20, 39}).ok());
  EXPECT_FALSE(engine->Wait(Region{3, 20, 40}).ok());  // the skipped task poisoned what it would have written
  EXPECT_FALSE(engine->Wait(Region{3, 19, 21}).ok());
  EXPECT_EQ(ran, 1);
}

TEST_P(EveryEngine, AFailingDestructionIsReported) {
  const Tag x = engine->NewTag();
  EXPECT_TRUE(engine->Delete(x, Fail("cannot close")).ok());
  EXPECT_EQ(engine->WaitAll(), absl::InternalError("cannot close"));
}

TEST_P(EveryEngine, MistakesOfTheCallerAreRefused) {
  const Tag x = engine->NewTag();
  EXPECT_THAT(std::string(engine->Push({.writes = {x}}, TaskFunction()).message()), HasSubstr("function"));
  EXPECT_THAT(std::string(engine->Push({.reads = {Tag{5, 0}}}, Counted()).message()), HasSubstr("no tag"));
  EXPECT_THAT(std::string(engine->Push({.reads = {Tag{}}}, Counted()).message()), HasSubstr("no tag"));
  EXPECT_THAT(std::string(engine->Push({.reads = {Region{0, 8, 4}}}, Counted()).message()), HasSubstr("[8, 4)"));
  EXPECT_THAT(std::string(engine->Push({.writes = {Region{-2, 0, 4}}}, Counted()).message()), HasSubstr("arena -2"));
  EXPECT_FALSE(engine->Acknowledge(Tag{5, 0}).ok());
  EXPECT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(Version(x), 0);
}

TEST_P(EveryEngine, TasksPushTasksButCannotWait) {
  const Tag x = engine->NewTag();
  absl::Status waited, waited_for_all, stopped;
  EXPECT_TRUE(engine
                  ->Push({.writes = {x}},
                         [&] {
                           waited = engine->Wait(x);
                           waited_for_all = engine->WaitAll();
                           stopped = engine->Stop(StopMode::kFinish);
                           EXPECT_EQ(Version(x), 0);
                           return engine->Push({.writes = {x}}, [&] {
                             EXPECT_EQ(Version(x), 1);  // queued behind this one
                             ++ran;
                             return absl::OkStatus();
                           });
                         })
                  .ok());
  EXPECT_TRUE(engine->WaitAll().ok());
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(waited.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(waited_for_all.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(stopped.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(EveryEngine, WhatATaskHoldsIsGoneWhenItHasFinished) {
  const Tag x = engine->NewTag();
  auto held = std::make_shared<int>(1);
  EXPECT_TRUE(engine->Push({.writes = {x}}, [held] { return absl::OkStatus(); }).ok());
  EXPECT_TRUE(engine->Wait(x).ok());
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace snug::core
