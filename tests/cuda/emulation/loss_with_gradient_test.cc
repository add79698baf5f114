// Tests by emulated kernels that a loss and its gradient at once are what they are one after the other, bit for bit.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

struct Trained {
  Result result;
  int64_t launches;
};

Trained TrainWithout(const LoadedNetwork& loaded, int64_t batch, std::set<std::string> disabled_passes) {
  const How how{.graph = false, .batch = batch, .disabled_passes = std::move(disabled_passes)};
  cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
  std::vector<Compiled> all;
  all.push_back(CompileForCuda(loaded, how).value());
  const auto session = NewSession(std::move(all), how, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  fake.ClearCalls();
  Result result = Train(*session, loaded, kTrainingSteps).value();
  return {std::move(result), fake.Count("cudaLaunchKernel")};
}

// Few rows, which one block does in lanes; and more than one block has.
TEST(LossWithGradient, HasTheBitsOfBothApart) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  for (const int64_t batch : {4, 150}) {
    const Trained at_once = TrainWithout(loaded, batch, {});
    const Trained apart = TrainWithout(loaded, batch, {"loss_with_gradient"});
    EXPECT_EQ(at_once.result.losses, apart.result.losses) << batch;
    EXPECT_TRUE(at_once.result == apart.result) << batch;
    EXPECT_LT(at_once.launches, apart.launches) << batch;
  }
}

}  // namespace
}  // namespace snug::core
