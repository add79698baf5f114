// Tests which Steps run in one launch, and that nothing else changes by it.
#include "engine/run/cuda/launch_groups.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/kit/cuda_together.h"
#include "proto/network.pb.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using testing::ElementsAre;
using Launches = std::vector<std::vector<size_t>>;

std::shared_ptr<const KernelRow> RowThatRuns(TogetherFn together) {
  return std::make_shared<const KernelRow>(KernelRow{.name = "own", .together = std::move(together)});
}
absl::Status RunsTogether(absl::Span<const KernelContext>) { return absl::OkStatus(); }
const std::shared_ptr<const KernelRow> kOneKernel = RowThatRuns(RunsTogether),
                                       kAnotherKernel = RowThatRuns(RunsTogether), kAloneKernel = RowThatRuns(nullptr);

Access Reads(int64_t begin, int64_t end) { return {{1, begin, end}, false}; }
Access Writes(int64_t begin, int64_t end) { return {{1, begin, end}, true}; }

Step StepOf(const std::shared_ptr<const KernelRow>& kernel, std::vector<Access> accesses, int64_t elements = 1,
            DType dtype = DType::kFloat32) {
  Step step{.kernel = kernel, .accesses = std::move(accesses)};
  step.types.inputs = {{.dtype = dtype, .shape = {elements}}};
  step.types.present = {true};
  return step;
}

TEST(LaunchGroups, AreOfStepsWhoseBytesAreLeftAlone) {
  const Launches launches = GroupLaunches({
      StepOf(kAloneKernel, {Writes(0, 8)}),
      StepOf(kOneKernel, {Reads(0, 8), Writes(100, 108)}),
      StepOf(kAloneKernel, {Writes(8, 16)}),
      StepOf(kOneKernel, {Reads(8, 16), Writes(108, 116)}),
      StepOf(kAloneKernel, {Writes(16, 24)}),
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(4), ElementsAre(1, 3)));
}

TEST(LaunchGroups, ComeBeforeWhatWantsTheirBytes) {
  const Launches launches = GroupLaunches({
      StepOf(kOneKernel, {Reads(0, 8), Writes(100, 108)}), StepOf(kOneKernel, {Reads(8, 16), Writes(108, 116)}),
      StepOf(kAloneKernel, {Writes(12, 20)}),  // writes over the gradient of the second
      StepOf(kOneKernel, {Reads(12, 20), Writes(116, 124)}),
      StepOf(kAloneKernel, {Reads(116, 124)}),  // reads the third's parameter
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
}

TEST(LaunchGroups, AreOfOneFunctionAndOneType) {
  const Launches launches = GroupLaunches({
      StepOf(kOneKernel, {Writes(0, 8)}), StepOf(kAnotherKernel, {Writes(8, 16)}),
      StepOf(kOneKernel, {Writes(16, 24)}, 1, DType::kBFloat16), StepOf(kOneKernel, {Writes(24, 32)}),
      StepOf(kOneKernel, {Reads(0, 8), Writes(32, 40)}),  // has to come after the first
  });
  EXPECT_THAT(launches, ElementsAre(ElementsAre(0, 3), ElementsAre(1), ElementsAre(2), ElementsAre(4)));
}

TEST(LaunchGroups, AreOfSmallOnesAndHaveTheirMost) {
  std::vector<Step> steps;
  for (int i = 0; i <= kMostTogether; ++i) steps.push_back(StepOf(kOneKernel, {Writes(8 * i, 8 * i + 8)}));
  steps.push_back(StepOf(kOneKernel, {Writes(8000, 8008)}, int64_t{1} << 20));
  const Launches launches = GroupLaunches(steps);
  ASSERT_EQ(launches.size(), 3U);
  EXPECT_THAT(launches[0], ElementsAre(kMostTogether + 1));
  EXPECT_EQ(launches[1].size(), static_cast<size_t>(kMostTogether));
}

// Every pair that conflicts keeps its sequence, and no Step is lost.
TEST(LaunchGroups, KeepTheSequenceOfWhatConflicts) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::vector<Step> steps;
    for (int i = 0; i < 60; ++i) {
      std::vector<Access> accesses;
      for (int a = 0; a < 3; ++a) {
        const int64_t begin = below(400);
        accesses.push_back({{1, begin, begin + 1 + below(12)}, below(2) == 0});
      }
      const int64_t kind = below(3);
      steps.push_back(StepOf(kind == 0 ? kAloneKernel : kind == 1 ? kOneKernel : kAnotherKernel, std::move(accesses)));
    }
    std::vector<size_t> place(steps.size(), SIZE_MAX);
    const Launches launches = GroupLaunches(steps);
    for (size_t l = 0; l < launches.size(); ++l) {
      for (const size_t i : launches[l]) {
        EXPECT_EQ(place[i], SIZE_MAX);
        place[i] = l;
      }
    }
    for (size_t b = 0; b < steps.size(); ++b) {
      ASSERT_NE(place[b], SIZE_MAX);
      for (size_t a = 0; a < b; ++a) {
        bool conflict = false;
        for (const Access& x : steps[a].accesses) {
          for (const Access& y : steps[b].accesses) conflict |= Conflicts(x, y);
        }
        if (conflict) {
          EXPECT_LT(place[a], place[b]) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Together, ABlockWorksForOneMember) {
  struct Member {
    int64_t n;
  };
  Together<Member, 4> all;
  for (const int64_t n : {1, kCudaThreads + 1, 3 * kCudaThreads}) all.Add({n});
  std::vector<int> members;
  for (int32_t block = 0; block < all.first_block[all.count]; ++block) {
    members.push_back(all.At(static_cast<unsigned>(block)));
  }
  EXPECT_THAT(members, ElementsAre(0, 1, 1, 2, 2, 2));
}

// In a whole network without sharing, where nobody wants the gradients' bytes, all updates are one launch, or all that
// move averages.
class UpdatesTogether : public testing::TestWithParam<const char*> {};

TEST_P(UpdatesTogether, AreOneLaunchWithTheSameBits) {
  constexpr int kSteps = 3, kParameters = 5;
  LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam(), loaded.network.mutable_optimizer()));
  std::vector<Result> results;
  std::vector<int64_t> launches;
  for (const ExecutorKind engine : {ExecutorKind::kSerial, ExecutorKind::kReplay}) {
    const How how{.strategy = "none", .graph = false, .engine = engine};
    cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
    std::vector<Compiled> all;
    all.push_back(CompileForCuda(loaded, how).value());
    const auto session = NewSession(std::move(all), how, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
    fake.ClearCalls();
    const absl::StatusOr<Result> result = Train(*session, loaded, kSteps);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*result);
    launches.push_back(fake.Count("cudaLaunchKernel"));
  }
  EXPECT_TRUE(results[0] == results[1]);
  // Averages are ordered right behind the updates that they read: then these run one by one, and the averages wait for
  // each other.
  EXPECT_EQ(launches[0] - launches[1], kSteps * (kParameters - 1));
}

// A step whose ops are timed asks for each update by itself, so it has not loaded the kernels that the graph records.
TEST(LaunchGroups, AreLaunchedBeforeAGraphRecordsThem) {
  const LoadedNetwork loaded = LoadModel("tests/data/tiny_conv.pbtxt").value();
  cuda::FakeCuda fake({.kernels = cuda::emulation::BindLaunch});
  std::vector<Compiled> all;
  all.push_back(CompileForCuda(loaded, {.strategy = "none"}).value());
  const auto session = NewSession(std::move(all), {}, cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  std::vector<StepTime> times(session->compiled().executable.steps.size());
  session->executor().SetTimes(times.data());
  ASSERT_TRUE(Train(*session, loaded, 1).ok());
  session->executor().SetTimes(nullptr);
  const absl::StatusOr<Result> result = Train(*session, loaded, 3);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_GT(fake.Count("cuGraphLaunch"), 0);
}

// This holds under the plans that users get, too.
TEST(LaunchGroups, OfModelsLeaveFewUpdatesAlone) {
  const struct {
    const char* path;
    int64_t batch, updates, most_launches;
  } models[] = {{"models/resnet50.pbtxt", 32, 161, 75},
                {"models/mobilenet_v2.pbtxt", 32, 158, 50},
                {"models/gpt2.pbtxt", 2, 148, 110}};
  for (const auto& model : models) {
    const LoadedNetwork loaded = LoadModel(model.path).value();
    CompileOptions options{.device = {Device::Kind::kCuda}, .batch = model.batch, .threads = 1};
    const Compiled compiled = Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options).value();
    int64_t updates = 0, launches = 0;
    for (const std::vector<size_t>& group : GroupLaunches(compiled.executable.steps)) {
      if (compiled.executable.steps[group[0]].kernel->together == nullptr) continue;
      updates += static_cast<int64_t>(group.size());
      ++launches;
    }
    EXPECT_EQ(updates, model.updates) << model.path;
    EXPECT_LE(launches, model.most_launches) << model.path;
    RecordProperty(model.path, std::to_string(updates) + " updates in " + std::to_string(launches) + " launches");
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdatesTogether,
                         testing::Values("sgd {}", "sgd { momentum: 0.9 nesterov: true }", "adam {}", "rmsprop {}",
                                         "rmsprop { momentum: 0.9 }", "adagrad { lr_decay: 0.1 }", "lion {}",
                                         "average { decay: 0.5 } sgd {}"));

}  // namespace
}  // namespace snug::core
