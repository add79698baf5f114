// The dependency rule on CUDA streams: in every interleaving, random programs end as if one task ran after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/base/status.h"
#include "engine/run/cuda/cuda_tasks.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core {
namespace {

struct TaskList {
  struct Task {
    std::vector<Access> accesses;
    size_t stream = 0;
  };
  std::vector<Task> tasks;
};

// Does a task's work on bytes: all that it writes depends on all that it reads and on what was there.
void Compute(const std::vector<Access>& accesses, std::vector<uint32_t>& bytes) {
  uint32_t sum = 1;
  for (const Access& access : accesses) {
    for (int64_t i = access.region.begin; i < access.region.end; ++i) sum = sum * 31 + bytes[static_cast<size_t>(i)];
  }
  for (const Access& access : accesses) {
    if (!access.write) continue;
    for (int64_t i = access.region.begin; i < access.region.end; ++i) {
      sum = sum * 1664525 + 1013904223;
      bytes[static_cast<size_t>(i)] += sum;
    }
  }
}

constexpr int64_t kBytes = 100;

// With `one_byte` tasks access bytes as they access Variables, otherwise ranges that overlap in part.
TaskList RandomTasks(uint64_t seed, size_t streams, bool one_byte) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  TaskList program;
  for (int t = 0; t < 300; ++t) {
    TaskList::Task& task = program.tasks.emplace_back();
    const int64_t reads = one_byte ? 2 + below(18) : below(3);
    for (int64_t a = 0; a <= reads; ++a) {  // there may be duplicates, and what is both read and written
      const int64_t begin = below(kBytes);
      const int64_t end = one_byte ? begin + 1 : std::min(kBytes, begin + below(20));
      task.accesses.push_back({{0, begin, end}, a == reads});
    }
    task.stream = static_cast<size_t>(below(static_cast<int64_t>(streams)));
  }
  return program;
}

class CudaTasksOn : public testing::TestWithParam<size_t> {};

TEST_P(CudaTasksOn, EndAsOneAfterTheOther) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const TaskList program = RandomTasks(seed, GetParam(), seed % 2 == 0);
    std::vector<uint32_t> truth(kBytes), found(kBytes);
    for (const TaskList::Task& task : program.tasks) Compute(task.accesses, truth);

    cuda::FakeCuda fake({.seed = seed + 1});
    {
      CudaStreams streams(cuda::CudaDevice::Open(fake.api(), 0).value());
      ASSERT_TRUE(streams.GrowTo(GetParam()).ok());
      CudaTasks tasks(streams, GetParam());
      for (const TaskList::Task& task : program.tasks) {
        const absl::Status status = tasks.Push(task.stream, task.accesses, [&] {
          return fake.Run(streams[task.stream].handle(), "task", [&] { Compute(task.accesses, found); });
        });
        ASSERT_TRUE(status.ok()) << status;
      }
      EXPECT_EQ(fake.Count("cuStreamSynchronize") + fake.Count("cuEventSynchronize"), 0) << "no task is waited for";
      EXPECT_EQ(fake.Count("cuStreamWaitEvent"), tasks.waits());
      for (size_t s = 0; s < GetParam(); ++s) ASSERT_TRUE(streams[s].Synchronize().ok());
    }
    EXPECT_EQ(found, truth) << "seed " << seed;
    EXPECT_EQ(fake.Leaks(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Streams, CudaTasksOn, testing::Values(1, 2, 4, 16));

class CudaTasksOnThree : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(streams_.GrowTo(3).ok()); }
  int64_t WaitsOf(size_t stream, const std::vector<Access>& accesses) {
    const int64_t before = tasks_.waits();
    EXPECT_TRUE(tasks_.Push(stream, accesses, [] { return absl::OkStatus(); }).ok());
    return tasks_.waits() - before;
  }
  static Access Read(int64_t byte) { return {{0, byte, byte + 1}, false}; }
  static Access Write(int64_t byte) { return {{0, byte, byte + 1}, true}; }

  cuda::FakeCuda fake_;
  CudaStreams streams_{cuda::CudaDevice::Open(fake_.api(), 0).value()};
  CudaTasks tasks_{streams_, 3};
};

TEST_F(CudaTasksOnThree, WaitOnlyForOthersStreams) {
  EXPECT_EQ(WaitsOf(0, {Write(1)}), 0);
  EXPECT_EQ(WaitsOf(0, {Read(1), Write(2)}), 0) << "its own stream comes in sequence";
  EXPECT_EQ(WaitsOf(1, {Read(3)}), 0) << "nobody has written that";
  EXPECT_EQ(WaitsOf(1, {Read(1)}), 1);
  EXPECT_EQ(WaitsOf(2, {Read(1)}), 1) << "readers do not wait for each other";
  EXPECT_EQ(WaitsOf(0, {Write(1)}), 2) << "for both of them";
}

TEST_F(CudaTasksOnThree, WaitForNothingThatAnotherWaitBrings) {
  EXPECT_EQ(WaitsOf(0, {Write(1), Write(2)}), 0);
  EXPECT_EQ(WaitsOf(1, {Read(1), Write(3)}), 1);
  EXPECT_EQ(WaitsOf(1, {Read(2)}), 0) << "the stream has waited for that task before";
  EXPECT_EQ(WaitsOf(2, {Read(2), Read(3)}), 1) << "who wrote 3 comes after who wrote 2";
}

TEST_F(CudaTasksOnThree, UseEventsAgainOnceNobodyCanWaitForThem) {
  for (int run = 0; run < 10; ++run) {
    tasks_.Forget();
    for (size_t t = 0; t < 30; ++t) WaitsOf(t % 3, {Write(static_cast<int64_t>(t % 7))});
  }
  EXPECT_EQ(fake_.Count("cuEventCreate"), 30) << "not before: a later task may wait for any of a run";
}

}  // namespace
}  // namespace snug::core
