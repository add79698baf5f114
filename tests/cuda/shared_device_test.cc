#include "tests/gpu/shared_device.h"

#include <gtest/gtest.h>

#include "tests/cuda/fake_cuda.h"

namespace snug::core {
namespace {

constexpr char kOpening[] = "cuDevicePrimaryCtxRetain";

TEST(SharedDevice, IsOpenedOnce) {
  cuda::FakeCuda fake;
  {
    SharedDevice shared([&] { return cuda::CudaDevice::Open(fake.api(), 0); });
    EXPECT_EQ(fake.Count(kOpening), 0);
    const auto first = shared.Get();
    ASSERT_TRUE(first.ok()) << first.status();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(*shared.Get(), *first);
    EXPECT_EQ(fake.Count(kOpening), 1);
  }
  EXPECT_EQ(fake.Leaks(), "");
}

TEST(SharedDevice, IsOpenedAgainWhereATestHasLostIt) {
  cuda::FakeCuda fake;
  {
    SharedDevice shared([&] { return cuda::CudaDevice::Open(fake.api(), 0); });
    ASSERT_TRUE(shared.Get().ok());
    fake.FailCall(0, "cuMemGetInfo");  // all calls fail so once a kernel has strayed
    ASSERT_TRUE(shared.Get().ok());
    EXPECT_EQ(fake.Count(kOpening), 2);
    EXPECT_EQ(fake.Count("cuDevicePrimaryCtxRelease"), 1);
  }
  EXPECT_EQ(fake.Leaks(), "");
}

TEST(SharedDevice, ThatIsNotThereIsLookedForOnce) {
  cuda::FakeCuda fake({.devices = 0});
  int tries = 0;
  SharedDevice shared([&] {
    ++tries;
    return cuda::CudaDevice::Open(fake.api(), 0);
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(shared.Get().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace snug::core
