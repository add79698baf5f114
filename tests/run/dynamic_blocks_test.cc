// Blocks of dynamic memory whose Steps run on several streams, later than the host asks for them.
#include "engine/run/executors/dynamic_blocks.h"

#include <gtest/gtest.h>

#include "tests/memory/allocator/doubles.h"

namespace snug::core {
namespace {

// Step 0 on stream 0 makes a; Step 1 on stream 1 reads it and makes b; Step 2 on stream 0 makes c; then b and c die.
DynamicMemory ThreeSteps(bool gc_fast) {
  DynamicMemory memory;
  memory.options.garbage.gc_fast = gc_fast;
  memory.blocks = {{.name = "a", .bytes = 1024, .uses = 2},
                   {.name = "b", .bytes = 1024, .uses = 2},
                   {.name = "c", .bytes = 1024, .uses = 2}};
  memory.steps = {{.takes = {0}, .uses = {0}},
                  {.takes = {1}, .uses = {0, 1}},
                  {.takes = {2}, .uses = {2}},
                  {.takes = {}, .uses = {1, 2}}};
  return memory;
}

class DynamicBlocksTest : public testing::Test {
 protected:
  // The kernel of the Step is asked for, and stays in its stream's queue.
  void Ask(DynamicBlocks& blocks, size_t step, int32_t stream) {
    ASSERT_TRUE(blocks.TakeFor(step).ok());
    streams_.Push(stream);
    ASSERT_TRUE(blocks.StepDone(step).ok());
  }

  std::unique_ptr<memory::BookedSource> device_ = memory::PretendedDevice(1 << 20);
  memory::ManualStreams streams_;
  std::unique_ptr<memory::Allocator> allocator_ = memory::MakeAllocator({.retry_ms = 0}, device_.get(), &streams_);
};

TEST_F(DynamicBlocksTest, WhatWaitsForStreamsWaitsForEachThatUsedIt) {
  const DynamicMemory memory = ThreeSteps(/*gc_fast=*/false);
  const auto blocks = DynamicBlocks::Create(memory, allocator_.get(), {0, 1, 0, 0}).value();
  Ask(*blocks, 0, 0);
  std::byte* const a = blocks->Address(0);
  Ask(*blocks, 1, 1);  // a has died, and neither stream has come to it
  EXPECT_EQ(allocator_->statistics().waiting_bytes, 1024);
  streams_.RunAll(0);
  ASSERT_TRUE(blocks->TakeFor(2).ok());
  EXPECT_NE(blocks->Address(2), a) << "stream 1 still reads it";
  ASSERT_TRUE(blocks->StepDone(2).ok());
  streams_.RunAll(1);
  ASSERT_TRUE(blocks->StepDone(3).ok());  // b and c have died
  ASSERT_TRUE(blocks->EndRun(/*complete=*/true).ok());
  streams_.RunAll(0);
  Ask(*blocks, 0, 0);
  EXPECT_EQ(allocator_->statistics().reserved_bytes, 3 * 1024) << "all of them have come back";
  EXPECT_EQ(streams_.waits(), 0) << "the host waits for nobody";
  ASSERT_TRUE(blocks->EndRun(/*complete=*/false).ok());
}

TEST_F(DynamicBlocksTest, EachStreamHasAPoolOfItsOwn) {
  const DynamicMemory memory = ThreeSteps(/*gc_fast=*/false);
  const auto blocks = DynamicBlocks::Create(memory, allocator_.get(), {0, 1, 0, 0}).value();
  for (const size_t step : {0, 1, 2}) ASSERT_TRUE(blocks->TakeFor(step).ok());
  int on_first = 0, on_second = 0;
  for (const memory::BlockInfo& info : allocator_->BlockMap()) {
    if (!info.free) ++(info.stream == 0 ? on_first : on_second);
  }
  EXPECT_EQ(on_first, 2);
  EXPECT_EQ(on_second, 1);
  ASSERT_TRUE(blocks->EndRun(/*complete=*/false).ok());
}

TEST_F(DynamicBlocksTest, WhatGoesBackAtOnceIsTakenAgainAtOnce) {
  const DynamicMemory memory = ThreeSteps(/*gc_fast=*/true);
  const auto blocks = DynamicBlocks::Create(memory, allocator_.get()).value();
  Ask(*blocks, 0, 0);
  std::byte* const a = blocks->Address(0);
  Ask(*blocks, 1, 1);
  ASSERT_TRUE(blocks->TakeFor(2).ok());
  EXPECT_EQ(blocks->Address(2), a);
  EXPECT_EQ(allocator_->statistics().waiting_bytes, 0);
  ASSERT_TRUE(blocks->EndRun(/*complete=*/false).ok());
}

}  // namespace
}  // namespace snug::core
