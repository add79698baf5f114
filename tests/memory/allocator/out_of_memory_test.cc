// What an allocation that cannot be served says, and that what it says is true.
#include "memory/allocator/out_of_memory.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "memory/allocator/allocator.h"
#include "tests/memory/allocator/doubles.h"

namespace snug::core::memory {
namespace {

TEST(AllocatorOutOfMemory, SaysEverything) {
  const auto device = PretendedDevice(100'000, Place::Cuda(1));
  const auto allocator = MakeAllocator({.memory_limit = 10'240, .retry_ms = 0}, device.get());
  std::vector<std::string> names;
  for (int i = 1; i <= 7; ++i) names.push_back("node" + std::to_string(i));
  std::vector<void*> values;
  for (int i = 1; i <= 7; ++i) {
    values.push_back(Take(allocator.get(), 256 * i, {.name = names[static_cast<size_t>(i) - 1]}));
    ASSERT_NE(values.back(), nullptr);
  }
  void* split = Take(allocator.get(), 1024);
  ASSERT_TRUE(allocator->Free(split).ok());
  ASSERT_NE(Take(allocator.get(), 256, {.name = "tiny"}), nullptr);
  const absl::Status status = allocator->Allocate(4096, {.name = "conv9"}).status();
  EXPECT_EQ(status, absl::ResourceExhaustedError("out of memory on cuda:1: asked for 4096 bytes for \"conv9\"\n"
                                                 "  the memory limit is 10240 bytes, of which 8192 are reserved\n"
                                                 "  in use: 7424 bytes in 8 blocks\n"
                                                 "  reserved: 8192 bytes; of these free: 768, the largest piece 768\n"
                                                 "  free on the device: 91808 bytes\n"
                                                 "  memory limit: 10240 bytes\n"
                                                 "  largest in use: \"node7\" 1792, \"node6\" 1536, \"node5\" 1280, "
                                                 "\"node4\" 1024, \"node3\" 768\n"
                                                 "  would fit: a request of at most 2048 bytes, or this one, with a "
                                                 "memory limit of at least 12288 bytes"));
}

TEST(AllocatorOutOfMemory, MarksWhatTheUserHolds) {
  const auto device = PretendedDevice(4096);
  const auto allocator = MakeAllocator({.retry_ms = 0}, device.get());
  ASSERT_NE(Take(allocator.get(), 512, {.name = "image", .held_as = "fed"}), nullptr);
  ASSERT_NE(Take(allocator.get(), 256, {.name = "loss", .held_as = "fetched"}), nullptr);
  ASSERT_NE(Take(allocator.get(), 1024, {.name = "conv1"}), nullptr);
  const absl::Status status = allocator->Allocate(4096).status();
  EXPECT_NE(status.message().find("in use: 1792 bytes in 3 blocks; of these the user holds 768\n"),
            absl::string_view::npos)
      << status;
  EXPECT_NE(status.message().find("largest in use: \"conv1\" 1024, \"image\" 512 (fed: held by the user), \"loss\" 256 "
                                  "(fetched: held by the user)\n"),
            absl::string_view::npos)
      << status;
}

TEST(AllocatorOutOfMemory, SaysWhenOnlyFragmentationIsInTheWay) {
  const auto device = PretendedDevice(4 * 256);
  const auto allocator =
      MakeAllocator({.allocator = "prealloc", .fraction_of_device_memory = 1, .retry_ms = 0}, device.get());
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(Take(allocator.get(), 256));
  ASSERT_TRUE(allocator->Free(blocks[0]).ok());
  ASSERT_TRUE(allocator->Free(blocks[2]).ok());
  const absl::Status status = allocator->Allocate(512).status();
  EXPECT_NE(status.message().find("the free bytes together would hold it"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("a request of at most 256 bytes"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("largest in use: (no name) 256"), absl::string_view::npos) << status;
}

TEST(AllocatorOutOfMemory, AsksForAdviceWithTheFacts) {
  const auto device = PretendedDevice(1024);
  const auto allocator = MakeAllocator({.retry_ms = 0}, device.get());
  allocator->set_advice([&](const OutOfMemory& facts) {
    EXPECT_EQ(allocator->used_bytes(), 0);  // no lock is held
    return "a batch of " + std::to_string(1024 * 32 / facts.asked_bytes) + " fits";
  });
  const absl::Status status = allocator->Allocate(2048).status();
  EXPECT_NE(status.message().find("\n  a batch of 16 fits"), absl::string_view::npos) << status;
}

TEST(AllocatorOutOfMemory, LeavesTheAllocatorAsItWas) {
  const auto device = PretendedDevice(1024);
  const auto allocator = MakeAllocator({.retry_ms = 0}, device.get());
  void* a = Take(allocator.get(), 512);
  EXPECT_EQ(Take(allocator.get(), 1024), nullptr);
  EXPECT_EQ(allocator->used_bytes(), 512);
  EXPECT_TRUE(allocator->Check().ok());
  EXPECT_NE(Take(allocator.get(), 512), nullptr);
  EXPECT_TRUE(allocator->Free(a).ok());
}

// The two figures under "would fit" are exact. A state is made by a random sequence, and is the same with any limit
// that the sequence does not meet.
class AllocatorFigures : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr int64_t kTooMuch = 110'000;

  void MakeState(int64_t device_bytes, int64_t limit) {
    allocator_ = nullptr;
    device_ = PretendedDevice(device_bytes, GetParam() % 5 == 0 ? Place::Cpu() : Place::Cuda(0));
    allocator_ = MakeAllocator({.allocator = GetParam() % 3 == 0 ? "buddy" : "auto_growth",
                                .buddy_initial_mb = 0,
                                .buddy_max_pool_mb = 1,
                                .memory_limit = limit,
                                .retry_ms = 0},
                               device_.get());
    allocator_->set_advice([this](const OutOfMemory& facts) {
      facts_ = facts;
      return std::string();
    });
    std::mt19937 random(GetParam());
    std::vector<void*> live;
    for (int i = 0; i < 60; ++i) {
      const auto bytes = static_cast<int64_t>(1 + random() % 8000);
      if (random() % 3 != 0 && allocator_->statistics().block_bytes + bytes < 60'000) {
        live.push_back(Take(allocator_.get(), bytes));
        ASSERT_NE(live.back(), nullptr);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        ASSERT_TRUE(allocator_->Free(live.back()).ok());
        live.pop_back();
      }
    }
    allocator_->ReleaseIdle();
  }
  bool Fits(int64_t bytes) { return Take(allocator_.get(), bytes) != nullptr; }

  std::unique_ptr<BookedSource> device_;
  std::unique_ptr<Allocator> allocator_;
  OutOfMemory facts_;
};
INSTANTIATE_TEST_SUITE_P(Seeds, AllocatorFigures, ::testing::Range(0u, 40u));

TEST_P(AllocatorFigures, LargestRequestOfTheDeviceFits) {
  MakeState(/*device_bytes=*/110'000, /*limit=*/0);
  ASSERT_FALSE(Fits(kTooMuch));
  const int64_t most = facts_.fits_bytes;
  ASSERT_GT(most, 0);
  EXPECT_EQ(facts_.limit_that_fits, 0);
  EXPECT_FALSE(Fits(most + 1));
  EXPECT_TRUE(Fits(most));
}

TEST_P(AllocatorFigures, LargestRequestOfTheLimitFits) {
  MakeState(/*device_bytes=*/1'000'000, /*limit=*/110'000);
  ASSERT_FALSE(Fits(kTooMuch));
  const int64_t most = facts_.fits_bytes;
  EXPECT_FALSE(Fits(most + 1));
  EXPECT_TRUE(Fits(most));
}

TEST_P(AllocatorFigures, LimitThatFitsIsTheLeast) {
  MakeState(/*device_bytes=*/1'000'000, /*limit=*/110'000);
  ASSERT_FALSE(Fits(kTooMuch));
  const int64_t limit = facts_.limit_that_fits;
  ASSERT_GT(limit, 110'000);
  MakeState(/*device_bytes=*/1'000'000, limit - 1);
  EXPECT_FALSE(Fits(kTooMuch));
  MakeState(/*device_bytes=*/1'000'000, limit);
  EXPECT_TRUE(Fits(kTooMuch));
}

}  // namespace
}  // namespace snug::core::memory
