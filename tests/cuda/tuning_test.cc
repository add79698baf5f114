// Tuning on a pretended device: which kernels are measured, and that a tuning makes the libraries take what it names,
// but nothing less exact than the run permits. Training with it has to agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/observe/tuner.h"
#include "ops/kit/library_variant.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kNetwork[] = "tests/data/tiny_conv.pbtxt";  // it has products and convolutions

class CudaTuning : public testing::Test {
 protected:
  CudaTuning() : fake_({.kernels = cuda::emulation::BindLaunch}), loaded_(LoadModel(kNetwork).value()) {}

  static CompileOptions Options() {
    How how{.libraries = true};
    how.batch = 2;
    CompileOptions options = OptionsOf(how);
    options.device = {Device::Kind::kCuda, 0};
    options.plain_kernels = false;
    options.disabled_passes.insert("fuse_elementwise");  // its kernels would need NVRTC
    return options;
  }
  absl::StatusOr<Compiled> CompileWith(const CompileOptions& options) const {
    return Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  }
  // Returns a tuning that asks for `choice` wherever there is one.
  static std::shared_ptr<const Tuning> AllBy(const Compiled& compiled, const std::string& choice) {
    Tuning tuning;
    for (const KernelChoice& kernel : compiled.kernels) {
      if (!kernel.offered.empty()) tuning.kernels[kernel.key].choice = choice;
    }
    return std::make_shared<const Tuning>(std::move(tuning));
  }
  absl::StatusOr<Result> Steps(const CompileOptions& options) {
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileWith(options));
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          NewSession(std::move(all), {}, cuda::CudaDevice::Open(fake_.api(), 0).value()));
    fake_.ClearCalls();
    return Train(*session, loaded_, 2);
  }

  FakeCuda fake_;
  const LoadedNetwork loaded_;
};

TEST(LibraryVariants, AreTheLibrarysOthersAndOurOwn) {
  NodeTypes types;
  types.outputs = {{DType::kFloat32, {4}}};
  const auto others = [&](KernelLicence licence) {
    return OtherLibraryVariants(PrepareContext(types, 1, {}, {Device::Kind::kCuda}, licence), /*varies=*/true);
  };
  EXPECT_THAT(others({}), ElementsAre("library:2", "library:3", "library:4", "own"));
  EXPECT_THAT(others({.tf32 = true}), Contains("library_tf32:3"));
  EXPECT_THAT(others({.tf32 = true}), Not(Contains("library:2")));
  EXPECT_THAT(others({.tf32 = true, .fast = true}), Contains("library_tf32_fast:2"));
  types.outputs[0].dtype = DType::kBFloat16;
  EXPECT_THAT(others({.tf32 = true}), Contains("library:2")) << "nothing is rounded";
}

TEST_F(CudaTuning, ATuningDecidesWhichAlgorithmsTheLibrariesTake) {
  CompileOptions options = Options();
  options.list_choices = true;
  const absl::StatusOr<Compiled> own = CompileWith(options);
  ASSERT_TRUE(own.ok()) << own.status().message();
  const absl::StatusOr<Result> by_default = Steps(Options());
  ASSERT_TRUE(by_default.ok()) << by_default.status().message();
  const size_t without_small = fake_.algorithms().size();
  options.tuning = AllBy(*own, "library");
  const absl::StatusOr<Result> expected = Steps(options);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  EXPECT_THAT(fake_.algorithms(), Contains(0));
  const auto calls = [&] { return fake_.algorithms().size(); };
  const size_t most = calls();
  EXPECT_GT(most, 6);
  EXPECT_LT(without_small, most) << "small products are our own by default";
  EXPECT_NEAR(by_default->losses[0], expected->losses[0], 1e-5 * std::abs(expected->losses[0]));
  for (const char* choice : {"library:2", "library:4", "own"}) {
    options.tuning = AllBy(*own, choice);
    const absl::StatusOr<Result> found = Steps(options);
    ASSERT_TRUE(found.ok()) << found.status().message();
    if (std::string(choice) == "own") {
      EXPECT_EQ(calls(), 0);
    } else {
      EXPECT_EQ(calls(), most);
      EXPECT_THAT(fake_.algorithms(), Not(Contains(0)));
      EXPECT_THAT(fake_.algorithms(), Contains(choice == std::string("library:2") ? 1 : 2));
    }
    for (size_t i = 0; i < found->losses.size(); ++i) {
      EXPECT_NEAR(found->losses[i], expected->losses[i], 1e-5 * std::abs(expected->losses[i])) << choice;
    }
  }
}

TEST_F(CudaTuning, NothingLessExactThanTheFlagsPermitIsTaken) {
  CompileOptions options = Options();
  options.list_choices = true;
  const absl::StatusOr<Compiled> own = CompileWith(options);
  ASSERT_TRUE(own.ok()) << own.status().message();
  for (const char* choice : {"library_tf32:2", "library_fast:2", "library:17", "abacus"}) {
    options.tuning = AllBy(*own, choice);
    const absl::Status refused = CompileWith(options).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << choice;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(choice));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("the tuning asks for it"));
  }
}

TEST_F(CudaTuning, MeasuresEveryKernelAndMakesATuningForTheDevice) {
  const std::shared_ptr<const cuda::CudaDevice> device = cuda::CudaDevice::Open(fake_.api(), 0).value();
  TuneOptions options{.compile = Options(), .seconds = 0};
  options.session.cuda_device = device;
  const absl::StatusOr<TuneReport> report = Tune(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_GE(report->kernels.size(), 4);
  for (const TuneReport::Kernel& kernel : report->kernels) {
    // The default, the library's three others, and our own; of products the library's first and our own for small ones
    // besides.
    const bool product = kernel.key.starts_with("dense");
    ASSERT_EQ(kernel.candidates.size(), product ? 6 : 5) << kernel.key;
    for (const TuneReport::Candidate& candidate : kernel.candidates) {
      EXPECT_EQ(candidate.problem, "") << kernel.key << " " << candidate.choice;
      EXPECT_GE(candidate.ms, 0) << kernel.key << " " << candidate.choice;
    }
  }
  EXPECT_EQ(report->tuning.platform, CudaPlatform(device->info()));
  EXPECT_EQ(report->tuning.platform.instructions, "sm_90");
  EXPECT_NE(report->tuning.platform.device, "cpu");
}

}  // namespace
}  // namespace snug::core
