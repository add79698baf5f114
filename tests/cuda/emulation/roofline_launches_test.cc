// What predictions say of launches (engine/run/observe/kernel_work.cc) is what a device is asked for.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "engine/run/observe/roofline.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

// What becomes a node of the graph of a step.
const std::set<std::string> kAsked = {"cudaLaunchKernel", "cublasLtMatmul", "cudnnBackendExecute", "cuMemcpyDtoDAsync",
                                      "cuMemsetD8Async"};

std::string Text(const Roofline& roofline) {
  std::map<std::string, double> predicted;
  for (const PredictedKernel& kernel : roofline.kernels) predicted[kernel.op] += kernel.launches;
  std::string text;
  for (const auto& [op, launches] : predicted) absl::StrAppend(&text, op, " ", launches, "\n");
  return text;
}

enum class Kernels : uint8_t { kOwn, kLibraries, kLibrariesAndOwnSmall };

class Launches : public testing::TestWithParam<std::tuple<const char*, Kernels>> {};

TEST_P(Launches, OfAStepAreAsPredicted) {
  const auto& [path, kernels] = GetParam();
  const LoadedNetwork loaded = LoadModel(path).value();
  const How how{.strategy = "none",
                .graph = false,
                .libraries = kernels != Kernels::kOwn,
                .own_small_products = kernels == Kernels::kLibrariesAndOwnSmall};
  cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
  std::vector<Compiled> all;
  all.push_back(CompileForCuda(loaded, how).value());
  const Roofline roofline = PredictStep(all[0], OpRegistry::Builtin(), FindDeviceModel("h200").value());
  const auto session = NewSession(std::move(all), how, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  ASSERT_TRUE(Train(*session, loaded, 2).ok());
  fake.ClearCalls();
  ASSERT_TRUE(Train(*session, loaded, 1).ok());
  int launches = 0;
  for (const std::string& call : fake.calls()) {
    launches += kAsked.contains(call) ? 1 : 0;
  }
  // A library may cut a product, which is one call and two launches.
  EXPECT_NEAR(roofline.launches, launches, 1 + 0.1 * launches) << Text(roofline);
}

INSTANTIATE_TEST_SUITE_P(Networks, Launches,
                         testing::Combine(testing::Values("tests/data/tiny_conv.pbtxt", "models/mlp.pbtxt",
                                                          "tests/golden/parity/transformer.pbtxt"),
                                          testing::Values(Kernels::kOwn, Kernels::kLibraries,
                                                          Kernels::kLibrariesAndOwnSmall)));

}  // namespace
}  // namespace snug::core
