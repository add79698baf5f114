// Networks trained by the CUDA kernels: as on the CPU to rounding, and to the same bits however a step is run.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/status.h"
#include "tests/cuda/networks.h"
#include "tests/gpu/test_device.h"

namespace snug::core {
namespace {

struct TrainedModel {
  const char* path;
  int64_t batch;
  bool large = false;
};

absl::StatusOr<std::unique_ptr<Session>> NewOnDevice(const LoadedNetwork& loaded, const How& how,
                                                     std::shared_ptr<const cuda::CudaDevice> device) {
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForCuda(loaded, how));
  std::vector<Compiled> all;
  all.push_back(std::move(compiled));
  return NewSession(std::move(all), how, std::move(device));
}

absl::StatusOr<Result> TrainOnDevice(const LoadedNetwork& loaded, const How& how,
                                     std::shared_ptr<const cuda::CudaDevice> device) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewOnDevice(loaded, how, std::move(device)));
  return Train(*session, loaded, kTrainingSteps);
}

class CudaTraining : public OnDevice, public testing::WithParamInterface<TrainedModel> {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    loaded_ = LoadModel(GetParam().path).value();
  }
  absl::StatusOr<Result> Train(How how) {
    how.batch = GetParam().batch;
    return TrainOnDevice(loaded_, how, device());
  }
  void CheckBits(bool libraries, bool own_small_products);

  LoadedNetwork loaded_;
};

// Rounding may put what is near 0 on the other side of a relu, and that shows in a step or two, for such small batches:
// of the third loss of resnet20, 3 % on an H100. In float64 no sum comes so near.
TEST_P(CudaTraining, LosesAsTheCpuDoes) {
  for (const DType precision : {DType::kFloat32, DType::kFloat64}) {
    if (slow() && GetParam().large && precision == DType::kFloat64) continue;
    const absl::StatusOr<Result> cpu = TrainOnCpu(loaded_, kTrainingSteps, GetParam().batch, precision);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    for (How how : {How{}, How{.libraries = true}, How{.libraries = true, .own_small_products = true}}) {
      if (slow() && GetParam().large && how.own_small_products) continue;
      how.precision = precision;
      const absl::StatusOr<Result> cuda = Train(how);
      ASSERT_TRUE(cuda.ok()) << how.ToString() << ": " << cuda.status();
      for (size_t i = 0; i < cpu->losses.size(); ++i) {
        const double near = precision == DType::kFloat64 ? 1e-9 : i < 2 ? 1e-3 : 2e-2;
        EXPECT_NEAR(cuda->losses[i], cpu->losses[i], near * (1 + std::abs(cpu->losses[i])))
            << how.ToString() << ", step " << i;
      }
    }
  }
}

void CudaTraining::CheckBits(bool libraries, bool own_small_products) {
  const absl::StatusOr<Result> truth = Train({.strategy = "none",
                                              .engine = ExecutorKind::kSerial,
                                              .libraries = libraries,
                                              .own_small_products = own_small_products});
  ASSERT_TRUE(truth.ok()) << truth.status();
  std::vector<How> ways = {{.strategy = "dynamic", .engine = ExecutorKind::kSerial},
                           {.streams = 2},
                           {.streams = 2, .engine = ExecutorKind::kDynamic},
                           {.strategy = "dynamic", .streams = 2, .engine = ExecutorKind::kDynamic},
                           {.strategy = "dynamic",
                            .streams = 2,
                            .engine = ExecutorKind::kDynamic,
                            .dynamic = {.garbage = {.gc_fast = false}}}};
  if (!slow()) ways.push_back({.keep_inputs = true});
  for (const char* strategy : {"none", "best"}) {
    if (slow()) break;
    for (const int streams : {1, 2, 3}) {
      for (const bool graph : {true, false}) ways.push_back({.strategy = strategy, .streams = streams, .graph = graph});
    }
  }
  for (How& how : ways) {
    how.libraries = libraries;
    how.own_small_products = own_small_products;
    const absl::StatusOr<Result> found = Train(how);
    ASSERT_TRUE(found.ok()) << how.ToString() << ": " << found.status();
    EXPECT_EQ(found->losses, truth->losses) << how.ToString();
    EXPECT_TRUE(found->state == truth->state) << how.ToString();
  }
}

TEST_P(CudaTraining, HasTheSameBitsHoweverAStepIsRun) {
  if (slow() && GetParam().large) GTEST_SKIP() << "takes minutes where kernels are emulated";
  CheckBits(/*libraries=*/false, /*own_small_products=*/false);
}

TEST_P(CudaTraining, HasTheSameBitsWithLibrariesHoweverAStepIsRun) {
  if (slow() && GetParam().large) GTEST_SKIP() << "takes minutes where kernels are emulated";
  CheckBits(/*libraries=*/true, /*own_small_products=*/false);
}

TEST_P(CudaTraining, HasTheSameBitsWithOwnSmallProductsHoweverAStepIsRun) {
  if (slow() && GetParam().large) GTEST_SKIP() << "takes minutes where kernels are emulated";
  CheckBits(/*libraries=*/true, /*own_small_products=*/true);
}

TEST_P(CudaTraining, TakesWhatIsPlannedAndNothingAfterTheFirstStep) {
  if (slow() && GetParam().large) GTEST_SKIP() << "takes minutes where kernels are emulated";
  const How how{.libraries = true, .batch = GetParam().batch};
  const absl::StatusOr<std::unique_ptr<Session>> session = NewOnDevice(loaded_, how, device());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->state_bytes() + (*session)->step_bytes(),
            (*session)->compiled().executable.memory.total_bytes());
  // Drivers load kernels and grow pools of their own when something is first used, which takes some steps. What a step
  // takes anew shows after as many more. That other programs give memory back does no harm.
  const int steps = slow() ? 2 : 20;
  ASSERT_TRUE(core::Train(**session, loaded_, steps).ok());
  const int64_t free = *device()->FreeBytes();
  ASSERT_TRUE(core::Train(**session, loaded_, steps).ok());
  EXPECT_GE(*device()->FreeBytes(), free) << "what other programs take on the device shows here too";
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTraining,
                         testing::Values(TrainedModel{"models/mlp.pbtxt", 8}, TrainedModel{"models/lenet.pbtxt", 2},
                                         TrainedModel{"models/resnet20.pbtxt", 2, /*large=*/true},
                                         TrainedModel{"models/tagger.pbtxt", 2, /*large=*/true},
                                         TrainedModel{"tests/data/loops.pbtxt", 2},
                                         TrainedModel{"tests/data/adversaries.pbtxt", 2},
                                         TrainedModel{"tests/golden/parity/transformer.pbtxt", 2}),
                         [](const auto& info) {
                           const std::string path = info.param.path;
                           const size_t begin = path.rfind('/') + 1;
                           return path.substr(begin, path.find('.') - begin);
                         });

}  // namespace
}  // namespace snug::core
