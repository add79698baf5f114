// Memory and streams: work runs later than the host hands out and takes back its memory.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "memory/allocator/allocator.h"
#include "memory/allocator/host_source.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

class AllocatorStreams : public ::testing::Test {
 protected:
  void* Take(int64_t bytes, int32_t stream) { return memory::Take(allocator_.get(), bytes, {.stream = stream}); }

  std::unique_ptr<BookedSource> device_ = PretendedDevice(1024 * 1024);
  ManualStreams streams_;
  std::unique_ptr<Allocator> allocator_ = MakeAllocator({.retry_ms = 0}, device_.get(), &streams_);
};

TEST_F(AllocatorStreams, AFreedBlockIsUsedAgainOnItsStreamAtOnceAndOnNoOther) {
  streams_.Push(1);
  void* a = Take(1000, 1);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_NE(Take(1000, 2), a);
  EXPECT_EQ(Take(1000, 1), a);
  EXPECT_EQ(streams_.waits(), 0);
}

TEST_F(AllocatorStreams, ARecordedBlockComesBackWhenTheOtherStreamHasPassed) {
  void* a = Take(1000, 1);
  ASSERT_TRUE(allocator_->RecordStream(a, 2).ok());
  ASSERT_TRUE(allocator_->RecordStream(a, 3).ok());
  ASSERT_TRUE(allocator_->RecordStream(a, 3).ok());
  streams_.Push(2);
  streams_.Push(3);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_EQ(allocator_->used_bytes(), 0);
  EXPECT_EQ(allocator_->statistics().waiting_bytes, 1024);
  EXPECT_EQ(streams_.open_events(), 2u);
  EXPECT_NE(Take(1000, 1), a);
  streams_.RunAll(3);
  EXPECT_NE(Take(1000, 1), a);
  streams_.RunAll(2);
  EXPECT_EQ(Take(1000, 1), a);
  EXPECT_EQ(allocator_->statistics().waiting_bytes, 0);
  EXPECT_EQ(streams_.open_events(), 0u);
  EXPECT_EQ(streams_.waits(), 0);
}

TEST_F(AllocatorStreams, RecordingTheOwnersStreamChangesNothing) {
  void* a = Take(1000, 1);
  streams_.Push(1);
  ASSERT_TRUE(allocator_->RecordStream(a, 1).ok());
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_EQ(Take(1000, 1), a);
}

TEST_F(AllocatorStreams, FreeWhenStreamPassedWaitsForTheOwnersStream) {
  void* a = Take(1000, 1);
  streams_.Push(1);
  ASSERT_TRUE(allocator_->FreeWhenStreamPassed(a).ok());
  EXPECT_NE(Take(1000, 1), a);
  streams_.RunAll(1);
  EXPECT_EQ(Take(1000, 1), a);
}

TEST_F(AllocatorStreams, FreeingTwiceIsAnErrorWhileTheBlockWaits) {
  void* a = Take(1000, 1);
  ASSERT_TRUE(allocator_->RecordStream(a, 2).ok());
  streams_.Push(2);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_EQ(allocator_->Free(a).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator_->RecordStream(a, 3).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AllocatorStreams, ThreeQuartersOnOneStreamThenOnAnother) {
  void* a = Take(3 * 256 * 1024, 1);
  ASSERT_NE(a, nullptr);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_NE(Take(3 * 256 * 1024, 2), nullptr);
}

TEST_F(AllocatorStreams, WhenMemoryIsShortTheHostWaitsForTheStream) {
  void* a = Take(1024 * 1024, 1);
  ASSERT_TRUE(allocator_->RecordStream(a, 2).ok());
  streams_.Push(2);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_NE(Take(1024 * 1024, 3), nullptr);
  EXPECT_EQ(streams_.waits(), 1);
}

TEST_F(AllocatorStreams, EventsAreForgottenInTheEnd) {
  void* a = Take(1000, 1);
  ASSERT_TRUE(allocator_->RecordStream(a, 2).ok());
  streams_.Push(2);
  ASSERT_TRUE(allocator_->Free(a).ok());
  EXPECT_EQ(streams_.open_events(), 1u);
  allocator_ = nullptr;
  EXPECT_EQ(streams_.open_events(), 0u);
}

TEST_F(AllocatorStreams, StreamNumbersOutOfRangeAreErrors) {
  EXPECT_EQ(allocator_->Allocate(1, {.stream = -1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(allocator_->Allocate(1, {.stream = 1 << 16}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Streams that run their tasks in a random order among them, as late as the host lets them.
class RandomStreams final : public StreamEvents {
 public:
  RandomStreams(int streams, uint32_t seed) : queues_(static_cast<size_t>(streams)), random_(seed) {}

  struct Goal {
    int32_t stream = 0;
    int64_t done = 0;  // so many of its tasks
  };
  void Push(int32_t stream, Goal after, std::function<void()> task) {
    Queue& queue = queues_[static_cast<size_t>(stream)];
    queue.tasks.push_back({after, std::move(task)});
    ++queue.pushed;
  }
  Goal Last(int32_t stream) const { return {stream, queues_[static_cast<size_t>(stream)].pushed}; }

  // Runs the next task of a random stream, if what it comes after has run.
  void TryOne() {
    Queue& queue = queues_[random_() % queues_.size()];
    if (queue.tasks.empty() || !Reached(queue.tasks.front().first)) return;
    queue.tasks.front().second();
    queue.tasks.pop_front();
    ++queue.done;
  }
  void RunAll() {
    for (size_t i = 0; i < queues_.size(); ++i) RunUntil(Last(static_cast<int32_t>(i)));
  }

  Event Record(int32_t stream) override {
    events_.push_back(Last(stream));
    return static_cast<Event>(events_.size()) - 1;
  }
  bool Passed(Event event) override { return Reached(events_[static_cast<size_t>(event)]); }
  void Wait(Event event) override { RunUntil(events_[static_cast<size_t>(event)]); }
  void Forget(Event) override {}

 private:
  struct Queue {
    std::deque<std::pair<Goal, std::function<void()>>> tasks;
    int64_t pushed = 0;
    int64_t done = 0;
  };
  bool Reached(const Goal& goal) const { return queues_[static_cast<size_t>(goal.stream)].done >= goal.done; }
  void RunUntil(const Goal& goal) {
    while (!Reached(goal)) TryOne();
  }

  std::vector<Queue> queues_;
  std::vector<Goal> events_;
  std::mt19937 random_;
};

// Task i, on stream i mod 64, sums up the workspace of task i - 1 and fills its own; the host drops that of i - 1 as
// soon as task i is pushed. Beside it each stream writes over a scratch block. The number of wrong words that were
// read.
int WrongWords(uint32_t seed, bool record) {
  constexpr int kStreams = 64, kTasks = 640;
  constexpr int64_t kWords = 128;
  HostSource source(256);
  RandomStreams streams(kStreams, seed);
  const auto allocator = MakeAllocator({.memory_limit = 4 << 20}, &source, &streams);
  std::mt19937 random(seed + 1);
  int wrong = 0;
  int* previous = nullptr;
  for (int i = 0; i < kTasks; ++i) {
    const int32_t stream = i % kStreams;
    auto* own = static_cast<int*>(Take(allocator.get(), kWords * 4, {.stream = stream}));
    const int32_t before = (i + kStreams - 1) % kStreams;
    streams.Push(stream, i == 0 ? RandomStreams::Goal{} : streams.Last(before), [=, &wrong] {
      if (previous != nullptr) wrong += static_cast<int>(kWords - std::count(previous, previous + kWords, i - 1));
      std::fill_n(own, kWords, i);
    });
    if (previous != nullptr) {
      if (record) {
        EXPECT_TRUE(allocator->RecordStream(previous, stream).ok());
      }
      EXPECT_TRUE(allocator->Free(previous).ok());
      // The stream of i - 1 goes on, perhaps on the bytes just dropped.
      auto* scratch = static_cast<int*>(Take(allocator.get(), kWords * 4, {.stream = before}));
      streams.Push(before, {}, [=] { std::fill_n(scratch, kWords, -1); });
      EXPECT_TRUE(allocator->Free(scratch).ok());
    }
    previous = own;
    for (int n = static_cast<int>(random() % 64); n > 0; --n) streams.TryOne();
  }
  streams.RunAll();
  EXPECT_TRUE(allocator->Free(previous).ok());
  return wrong;
}

TEST(AllocatorSixtyFourStreams, ResultsAreRightWhenEachReaderIsRecorded) {
  for (uint32_t seed = 0; seed < 20; ++seed) EXPECT_EQ(WrongWords(seed, /*record=*/true), 0) << seed;
}

TEST(AllocatorSixtyFourStreams, ResultsAreWrongWhenNoneIs) {  // so the test above can fail
  EXPECT_GT(WrongWords(1, /*record=*/false), 0);
}

}  // namespace
}  // namespace snug::core::memory
