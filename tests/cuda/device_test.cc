#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "engine/base/status.h"
#include "engine/cuda/cuda_device.h"
#include "engine/cuda/cuda_stream.h"
#include "tests/cuda/fake_device.h"

namespace snug::core::cuda {
namespace {

using testing::Test;

TEST(CudaDevice, SaysWhatItIs) {
  const FakeCuda fake;
  const auto device = OpenDevice(fake);
  EXPECT_EQ(device->info().ToString(), "Pretended GPU (sm_90, 4 processors, 0.2 GiB)");
  EXPECT_EQ(device->device().ToString(), "cuda:0");
  EXPECT_EQ(ListDevices(device->api())->size(), 1U);
}

TEST(CudaDevice, WhichDevicesThereAreIsSaidWhereOneIsNot) {
  {
    const FakeCuda fake({.devices = 0});
    const absl::Status status = CudaDevice::Open(fake.api(), 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_TRUE(Says(status, "no device cuda:0: the driver shows none; nvidia-smi")) << status;
  }
  {
    const FakeCuda fake({.devices = 3});
    EXPECT_TRUE(Says(CudaDevice::Open(fake.api(), 3).status(), "no device cuda:3: there are cuda:0 to cuda:2"));
    EXPECT_TRUE(Says(CudaDevice::Open(fake.api(), -1).status(), "no device cuda:-1"));
  }
  const FakeCuda fake({.major = 7, .minor = 5});
  const absl::Status status = CudaDevice::Open(fake.api(), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Says(status, "this build has code for ")) << status;
  EXPECT_TRUE(Says(status, "-DSNUG_CUDA_ARCHITECTURES=75-real")) << status;
  EXPECT_EQ(fake.Leaks(), "");
}

TEST(CudaDevice, CodeRunsOnItsOwnGenerationAndPtxOnLaterOnes) {
  EXPECT_TRUE(RunsOn("90-real", 9, 0));
  EXPECT_FALSE(RunsOn("90-real", 10, 0));
  EXPECT_FALSE(RunsOn("90-real", 8, 9));
  EXPECT_TRUE(RunsOn("80-real", 8, 6));
  EXPECT_FALSE(RunsOn("86-real", 8, 0));
  EXPECT_TRUE(RunsOn("90-virtual", 12, 0));
  EXPECT_FALSE(RunsOn("90-virtual", 8, 0));
  EXPECT_TRUE(RunsOn("80-real;90-real;90-virtual", 10, 3));
  EXPECT_TRUE(RunsOn("90", 10, 0));
  EXPECT_FALSE(RunsOn("", 9, 0));
}

TEST(CudaDevice, ARefusalSaysWhatThereIsAndWhatHelps) {
  const FakeCuda fake({.device_bytes = 1000});
  const auto device = OpenDevice(fake);
  const absl::StatusOr<std::byte*> first = device->Allocate(600);
  ASSERT_TRUE(first.ok());
  const absl::Status status = device->Allocate(500).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Says(status,
                   "cuda:0 has 400 of its 1000 bytes free: taking 500 bytes of cuda:0: cuMemAlloc failed: "
                   "CUDA_ERROR_OUT_OF_MEMORY (out of memory); a smaller --batch needs less"))
      << status;
  EXPECT_EQ(*device->FreeBytes(), 400);
  device->Free(*first);
}

TEST(CudaStream, WorkOfTwoStreamsIsOrderedByEventsOnly) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const FakeCuda fake({.seed = seed});
    const auto device = OpenDevice(fake);
    const auto host = *PinnedBytes::Create(device, 512);
    std::byte* const on_device = *device->Allocate(256);
    const auto a = *CudaStream::Create(device);
    const auto b = *CudaStream::Create(device);
    const auto copied = *CudaEvent::Create(device);
    std::memset(host->data(), 7, 256);
    ASSERT_TRUE(a->Upload(on_device, host->data(), 256).ok());
    EXPECT_EQ(on_device[0], std::byte{0xee}) << "nothing runs before somebody waits";
    ASSERT_TRUE(a->Record(*copied).ok());
    EXPECT_TRUE(b->WaitFor(*copied).ok());
    ASSERT_TRUE(b->Download(host->data() + 256, on_device, 256).ok());
    ASSERT_TRUE(b->Synchronize().ok());
    EXPECT_EQ(host->data()[256], std::byte{7}) << "seed " << seed;
    EXPECT_TRUE(*copied->Passed());
    device->Free(on_device);
  }
}

TEST(CudaStream, WithoutTheEventTheOrderIsLeftToChance) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const FakeCuda fake({.seed = seed});
    const auto device = OpenDevice(fake);
    const auto host = *PinnedBytes::Create(device, 512);
    std::byte* const on_device = *device->Allocate(256);
    const auto a = *CudaStream::Create(device);
    const auto b = *CudaStream::Create(device);
    std::memset(host->data(), 7, 256);
    ASSERT_TRUE(a->Upload(on_device, host->data(), 256).ok());
    ASSERT_TRUE(b->Download(host->data() + 256, on_device, 256).ok());
    ASSERT_TRUE(b->Synchronize().ok());
    wrong += host->data()[256] != std::byte{7} ? 1 : 0;
    device->Free(on_device);
  }
  EXPECT_GT(wrong, 0) << "the pretended device would not find a missing event";
}

TEST(EventPool, EventsAreUsedAgain) {
  FakeCuda fake;
  const auto device = OpenDevice(fake);
  EventPool pool(device);
  for (int i = 0; i < 10; ++i) {
    auto event = pool.Take();
    ASSERT_TRUE(event.ok());
    pool.Give(*std::move(event));
  }
  EXPECT_EQ(fake.Count("cuEventCreate"), 1);
}

// Does once everything that a program does with a device and its streams.
absl::Status UseEverything(const FakeCuda& fake) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<CudaDevice> device, CudaDevice::Open(fake.api(), 0));
  SNUG_RETURN_IF_ERROR(ListDevices(device->api()));
  SNUG_RETURN_IF_ERROR(device->FreeBytes());
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<PinnedBytes> host, PinnedBytes::Create(device, 64));
  SNUG_ASSIGN_OR_RETURN(std::byte* const block, device->Allocate(64));
  const auto free = [&device](std::byte* address) { device->Free(address); };
  const std::unique_ptr<std::byte, decltype(free)> owned(block, free);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::Create(device));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<CudaEvent> event, CudaEvent::Create(device));
  SNUG_RETURN_IF_ERROR(stream->Upload(block, host->data(), 64));
  SNUG_RETURN_IF_ERROR(stream->Clear(block, 64));
  SNUG_RETURN_IF_ERROR(stream->Download(host->data(), block, 64));
  SNUG_RETURN_IF_ERROR(stream->Record(*event));
  SNUG_RETURN_IF_ERROR(stream->WaitFor(*event));
  SNUG_RETURN_IF_ERROR(event->Passed());
  SNUG_RETURN_IF_ERROR(event->Wait());
  return stream->Synchronize();
}

TEST(CudaFailures, AreReportedWhereverTheyHappenAndLeaveNothingBehind) {
  FakeCuda fake;
  ASSERT_TRUE(UseEverything(fake).ok());
  const auto calls = static_cast<int64_t>(fake.calls().size());
  int64_t reported = 0;
  for (int64_t n = 0; n < calls; ++n) {
    fake.ClearCalls();
    fake.FailCall(n);
    const absl::Status status = UseEverything(fake);
    ASSERT_TRUE(fake.has_failed());
    const std::string failed = fake.calls()[static_cast<size_t>(n)];
    // A call that gives something back has nobody to report to. If the device is lost, the call that comes next fails
    // too.
    const bool gives_back = failed.find("Free") != std::string::npos || failed.find("Destroy") != std::string::npos ||
                            failed.find("Release") != std::string::npos || status.ok();
    if (!gives_back) {
      EXPECT_TRUE(Says(status, (failed + " failed: CUDA_ERROR_UNKNOWN (unknown error)").c_str()))
          << failed << ": " << status;
      ++reported;
    }
    EXPECT_EQ(fake.Leaks(), "") << "after " << failed;
  }
  EXPECT_GT(reported, 20);
}

}  // namespace
}  // namespace snug::core::cuda
