// Tests convolutions by the pretended cuDNN: which engines are taken, and that a call that fails is an error and leaves
// nothing behind.
#include "engine/cuda/cudnn_conv.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using cuda::FakeLibraries;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A convolution of [1, 2, 3, 3] with one filter of [2, 2, 2], on a stream of the pretended device.
struct Convolution {
  explicit Convolution(FakeCuda& f) : fake(f) {
    stream = cuda::CudaStream::Create(cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  }
  absl::StatusOr<bool> Run(const cuda::CudnnConv& conv) {
    SNUG_ASSIGN_OR_RETURN(cuda::CudnnConvs* const convs, cuda::LibrariesOf(*stream).convs());
    SNUG_ASSIGN_OR_RETURN(
        const bool finished,
        convs->Run(conv, {.data = x, .factor = w, .bias = bias, .result = y, .workspace = workspace}));
    SNUG_RETURN_IF_ERROR(stream->Synchronize());
    return finished;
  }

  FakeCuda& fake;
  alignas(16) float x[18] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  alignas(16) float w[8] = {1, 0, 0, -1, 1, 1, 1, 1};  // a pixel less the one below on the right, and a sum
  alignas(16) float bias[1] = {0.5};
  alignas(16) float y[8] = {};  // room for a gradient of w
  alignas(16) std::byte workspace[64] = {};
  std::unique_ptr<cuda::CudaStream> stream;
};

constexpr cuda::CudnnConv kConv = {.x = {1, 2, 3, 3},
                                   .w = {1, 2, 2, 2},
                                   .y = {1, 1, 2, 2},
                                   .stride = {1, 1},
                                   .dilation = {1, 1},
                                   .workspace_bytes = 64};

TEST(CudnnConv, ConvolvesWithWhatIsAsExactAndSteadyAsIsWanted) {
  FakeCuda fake({.any_address = true});
  Convolution convolution(fake);
  fake.ClearCalls();
  for (const auto& [tf32, fast] : {std::pair{false, false}, std::pair{true, false}, std::pair{true, true}}) {
    cuda::CudnnConv conv = kConv;
    conv.tf32 = tf32;
    conv.fast = fast;
    ASSERT_EQ(convolution.Run(conv).value(), false);
    EXPECT_THAT(std::vector<float>(convolution.y, convolution.y + 4), ElementsAre(0, 0, 0, 0));
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(1, 3, 7)) << "the first of the list that may be taken";
}

TEST(CudnnConv, AddsBiasAndReluInTheSameSweepWhereTheLibraryDoes) {
  cuda::CudnnConv conv = kConv;
  conv.bias = conv.relu = true;
  for (const FakeLibraries libraries : {FakeLibraries::kServe, FakeLibraries::kServeUnfused}) {
    FakeCuda fake({.any_address = true, .libraries = libraries});
    Convolution convolution(fake);
    convolution.x[4] = 4;  // the sums are 1, 0, 0, -1
    const bool finished = libraries == FakeLibraries::kServe;
    ASSERT_EQ(convolution.Run(conv).value(), finished);
    const std::vector<float> expected =
        finished ? std::vector<float>{1.5, 0.5, 0.5, 0} : std::vector<float>{1, 0, 0, -1};
    EXPECT_EQ(std::vector<float>(convolution.y, convolution.y + 4), expected);
  }
}

TEST(CudnnConv, PreparesEnginesOnce) {
  FakeCuda fake({.any_address = true});
  Convolution convolution(fake);
  ASSERT_TRUE(convolution.Run(kConv).ok());
  fake.ClearCalls();
  ASSERT_TRUE(convolution.Run(kConv).ok());
  EXPECT_EQ(fake.Count("cudnnBackendExecute"), 1);
  EXPECT_EQ(fake.Count("cudnnBackendCreateDescriptor"), 1) << "says where the operands lie";
  EXPECT_EQ(fake.Count("cudnnBackendGetAttribute"), 0);
}

TEST(CudnnConv, TakesTheEngineOfTheRankThatIsWantedOrTheLast) {
  FakeCuda fake({.any_address = true});
  Convolution convolution(fake);
  fake.ClearCalls();
  for (const int rank : {1, 2, 3, 9, 1}) {
    cuda::CudnnConv conv = kConv;
    conv.rank = rank;
    ASSERT_TRUE(convolution.Run(conv).ok());
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(1, 2, 9, 9, 1));
}

TEST(CudnnConv, TakesTheNextEngineWhereOneIsRefusedAsItRuns) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kServeOthers});
  Convolution convolution(fake);
  fake.ClearCalls();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(convolution.Run(kConv).ok());
  EXPECT_THAT(fake.algorithms(), ElementsAre(2, 2));
  EXPECT_EQ(fake.Count("cudnnBackendExecute"), 3) << "the first one is tried once";
}

TEST(CudnnConv, SaysHowMuchWorkspaceIsWantedWhereItIsMoreThanPlanned) {
  FakeCuda fake({.any_address = true});
  Convolution convolution(fake);
  cuda::CudnnConv conv = kConv;
  conv.kind = cuda::CudnnConvKind::kGradWeight;
  conv.workspace_bytes = 63;
  fake.ClearCalls();
  ASSERT_TRUE(convolution.Run(conv).ok());
  EXPECT_THAT(fake.algorithms(), ElementsAre(2)) << "it wants none";
  conv.workspace_bytes = -1;
  const absl::Status status = convolution.Run(conv).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("the gradient of w of the convolution of [1, 2, 3, 3] with [1, 2, 2, 2] in float32"),
                    HasSubstr("at least 0 bytes of workspace are wanted, and -1 are planned")));
}

// What the library refuses may be served by other kernels. What it takes for wrong is an error.
TEST(CudnnConv, AWrongDescriptionIsAnErrorOfOurs) {
  FakeCuda fake({.any_address = true});
  Convolution convolution(fake);
  cuda::CudnnConv conv = kConv;
  conv.y[3] = 3;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = convolution.Run(conv).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("describing the convolution of [1, 2, 3, 3] with [1, 2, 2, 2]"),
                      HasSubstr("a fault of Snug's"), HasSubstr("--plain-kernels")));
  }
}

TEST(CudnnConv, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  for (int64_t n = 0;; ++n) {
    FakeCuda fake({.any_address = true});
    {
      Convolution convolution(fake);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = convolution.Run(kConv).status();
      if (!fake.has_failed()) {
        EXPECT_GT(n, 60);
        return;
      }
      const std::string failed = fake.calls()[static_cast<size_t>(n)];
      if (failed == "cudnnBackendDestroyDescriptor") {
        EXPECT_TRUE(status.ok()) << "nobody needs to know";
      } else {
        EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
      }
      EXPECT_TRUE(convolution.Run(kConv).ok()) << failed;
    }
    EXPECT_EQ(fake.Leaks(), "") << n;
  }
}

// An image of 3 channels is folded into one of [115, 112] pixels with 48, which lies beside the library's workspace.
TEST(CudnnConv, HasRoomForAnImageThatIsFolded) {
  const LoadedNetwork loaded = LoadModel("models/resnet50.pbtxt").value();
  const absl::StatusOr<Compiled> compiled =
      CompileForCuda(loaded, {.strategy = "none", .libraries = true, .batch = 256, .precision = DType::kBFloat16});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  int stems = 0;
  for (size_t i = 0; i < compiled->kernels.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (compiled->kernels[i].kernel == nullptr || compiled->kernels[i].kernel->library.empty()) continue;
    const Node& node = compiled->graph.node(id);
    const bool stem = (node.op == "conv" || node.op == "conv_grad_weight") &&
                      compiled->graph.value(node.inputs[0]).type.shape[1] == 3;
    const int64_t folded = int64_t{256} * 115 * 112 * 48 * 2;
    const int64_t most = (stem ? folded : 0) + (int64_t{65} << 20);
    EXPECT_LE(compiled->kernels[i].workspace_bytes, most) << node.name;
    if (!stem) continue;
    EXPECT_GE(compiled->kernels[i].workspace_bytes, folded) << node.name;
    ++stems;
  }
  EXPECT_EQ(stems, 2) << "forward and backward";
}

}  // namespace
}  // namespace snug::core
