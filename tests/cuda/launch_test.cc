// Tests launches.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::cuda {
namespace {

struct Opened {
  FakeCuda fake{{.any_address = true, .kernels = emulation::BindLaunch}};
  std::unique_ptr<CudaStream> stream;

  Opened() {
    auto device = CudaDevice::Open(fake.api(), 0);
    SNUG_CHECK_OK(device.status());
    auto made = CudaStream::Create(*std::move(device));
    SNUG_CHECK_OK(made.status());
    stream = *std::move(made);
  }
};

// This file is not compiled with emulation.h before everything else, so the header does not tell the emulation of
// launches.
template <class... P>
absl::Status Launch(const LaunchContext& context, void (*kernel)(P...), const LaunchShape& shape,
                    std::type_identity_t<P>... arguments) {
  emulation::Know(kernel);
  return context.Launch(kernel, shape, arguments...);
}

void Write(int64_t n, int* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) to[i] = static_cast<int>(i) + static_cast<int>(1000 * blockIdx.y);
}

TEST(Launch, RunsEveryThreadWhenTheStreamComesToIt) {
  Opened opened;
  const LaunchContext context(*opened.stream);
  std::vector<int> found(100, -1);
  ASSERT_TRUE(Launch(context, Write, {.blocks = 4, .threads = 32}, 100, found.data()).ok());
  EXPECT_EQ(found[0], -1);
  ASSERT_TRUE(opened.stream->Synchronize().ok());
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(found, expected);
}

TEST(Launch, OfNoBlocksDoesNothing) {
  Opened opened;
  const LaunchContext context(*opened.stream);
  opened.fake.ClearCalls();
  ASSERT_TRUE(Launch(context, Write, {.blocks = 0}, 0, nullptr).ok());
  EXPECT_EQ(opened.fake.Count("cudaLaunchKernel"), 0);
}

TEST(Launch, FailureSaysWhatWasLaunched) {
  Opened opened;
  const LaunchContext context(*opened.stream);
  opened.fake.FailCall(0, "cudaLaunchKernel");
  const absl::Status status = Launch(context, Write, {.blocks = 4, .threads = 32}, 0, nullptr);
  EXPECT_NE(status.message().find("launching a kernel of 4 blocks of 32 threads"), std::string::npos) << status;
}

TEST(Launch, OfTooManyBlocksIsAnError) {
  Opened opened;
  const LaunchContext context(*opened.stream);
  const absl::Status status = Launch(context, Write, {.blocks = 1, .blocks_y = 70000}, 0, nullptr);
  EXPECT_NE(status.message().find("a grid of 1 x 70000 x 1 blocks"), std::string::npos) << status;
}

}  // namespace
}  // namespace snug::core::cuda
