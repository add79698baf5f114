// Tests CUDA's libraries behind kernels: which calls are made, that a failing one is an error and leaves nothing
// behind, and that training with them has the same bits however a step is run. The op conformance suite (main.cc)
// compares what they compute with other kernels.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cublas_matmul.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cudnn_attention.h"
#include "engine/cuda/cudnn_conv.h"
#include "engine/run/session/random_feed.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using cuda::FakeLibraries;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A stream of the pretended device, with numbers to multiply.
struct Products {
  explicit Products(FakeCuda& f) : fake(f) {
    stream = cuda::CudaStream::Create(cuda::CudaDevice::Open(fake.api(), 0).value()).value();
  }
  absl::Status Run(const cuda::CublasMatMul& product) {
    SNUG_ASSIGN_OR_RETURN(cuda::CublasMatMuls* const products, cuda::LibrariesOf(*stream).matmuls());
    SNUG_RETURN_IF_ERROR(
        products->Run(product, {.a = a.data(), .b = b.data(), .bias = bias.data(), .c = c.data(), .workspace = room})
            .status());
    return stream->Synchronize();
  }

  FakeCuda& fake;
  std::vector<float> a{1, 2, 3, 4}, b{10, 1, 100, 1000}, bias{0.5, -5000}, c{0, 0, 0, 0};
  char bytes[64] = {};
  void* room = bytes;
  // This member comes after the memory, so it ends first: what it was given last may not have run yet.
  std::unique_ptr<cuda::CudaStream> stream;
};

constexpr cuda::CublasMatMul kProduct = {.m = 2, .n = 2, .k = 2, .bias = true, .relu = true, .workspace_bytes = 64};

TEST(CublasMatMul, MultipliesMatricesThatLieByRows) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  ASSERT_TRUE(products.Run(kProduct).ok());
  EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
}

TEST(CublasMatMul, SumsAFactorInTheSameSweepWhereTheLibraryDoes) {
  constexpr cuda::CublasMatMul kWithSums = {
      .m = 2, .n = 2, .k = 2, .transpose_a = true, .sums_a = true, .workspace_bytes = 64};
  for (const FakeLibraries libraries : {FakeLibraries::kServe, FakeLibraries::kServeUnfused}) {
    FakeCuda fake({.any_address = true, .libraries = libraries});
    Products products(fake);
    std::vector<float> sums(2);
    cuda::CublasMatMuls* const matmuls = cuda::LibrariesOf(*products.stream).matmuls().value();
    const bool serves = libraries == FakeLibraries::kServe;
    EXPECT_EQ(matmuls
                  ->Run(kWithSums, {.a = products.a.data(),
                                    .b = products.b.data(),
                                    .c = products.c.data(),
                                    .sums = sums.data(),
                                    .workspace = products.room})
                  .value(),
              serves);
    ASSERT_TRUE(products.stream->Synchronize().ok());
    EXPECT_THAT(products.c, ElementsAre(310, 3001, 420, 4002));
    EXPECT_THAT(sums, ElementsAre(serves ? 4 : 0, serves ? 6 : 0));
  }
}

TEST(CublasMatMul, ChoosesOnceAndMakesOneHandle) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.ClearCalls();
  ASSERT_TRUE(products.Run(kProduct).ok());
  EXPECT_THAT(fake.calls(), AllOf(Contains("cublasLtCreate"), Contains("cublasLtMatmulAlgoGetHeuristic")));
  for (int i = 0; i < 2; ++i) {
    fake.ClearCalls();
    ASSERT_TRUE(products.Run(kProduct).ok());
    EXPECT_THAT(fake.calls(), AllOf(Contains("cublasLtMatmul"), Not(Contains("cublasLtCreate")),
                                    Not(Contains("cublasLtMatmulPreferenceInit_internal")),
                                    Not(Contains("cublasLtMatmulAlgoGetHeuristic"))));
  }
  cuda::CublasMatMul other = kProduct;
  other.relu = false;
  ASSERT_TRUE(products.Run(other).ok());
  EXPECT_EQ(fake.Count("cublasLtMatmulAlgoGetHeuristic"), 1);
  EXPECT_EQ(fake.Count("cublasLtCreate"), 0);
}

TEST(CublasMatMul, TakesTheAlgorithmOfTheRankThatIsWantedOrTheLast) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.ClearCalls();
  for (const int rank : {1, 3, 9, 1}) {
    cuda::CublasMatMul product = kProduct;
    product.rank = rank;
    ASSERT_TRUE(products.Run(product).ok());
    EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(0, 2, 2, 0));
}

TEST(CublasMatMul, TakesTheFirstAlgorithmThatServesAndKeepsIt) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kServeOthers});
  Products products(fake);
  fake.ClearCalls();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(products.Run(kProduct).ok());
    EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
    cuda::StreamLibraries& libraries = cuda::LibrariesOf(*products.stream);
    const std::string* const refused = libraries.TakeRefusedAlgorithm();
    ASSERT_NE(refused, nullptr) << "whoever runs the product is told";
    EXPECT_THAT(*refused, HasSubstr("cublasLtMatmul failed"));
    EXPECT_EQ(libraries.TakeRefusedAlgorithm(), nullptr) << "once";
  }
  EXPECT_THAT(fake.algorithms(), ElementsAre(1, 1));
  EXPECT_EQ(fake.Count("cublasLtMatmul"), 3) << "the first one is tried once";
}

TEST(CublasMatMul, WhatItTakesForAWrongDescriptionIsRefusedAndSaid) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  products.room = nullptr;
  const absl::Status status = products.Run(kProduct);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("a product of [2, 2] and [2, 2] in float32"),
                                                   HasSubstr("cublasLtMatmul failed"), HasSubstr("--plain-kernels")));
}

TEST(CublasMatMul, AsksNoMoreForWhatIsRefused) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kRefuse});
  Products products(fake);
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  fake.ClearCalls();
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fake.Count("cublasLtMatmulAlgoGetHeuristic"), 0);
}

TEST(CublasMatMul, OfALibraryThatIsTooNewIsNotThere) {
  FakeCuda fake({.any_address = true, .libraries = FakeLibraries::kNewer});
  Products products(fake);
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  fake.ClearCalls();
  EXPECT_EQ(products.Run(kProduct).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fake.Count("cublasLtMatmulDescInit_internal"), 0);
}

TEST(CublasMatMul, OfALibraryThatIsMissingIsNotThereAndWhyIsSaid) {
  FakeCuda fake({.libraries = FakeLibraries::kMissing});
  Products products(fake);
  const absl::Status status = products.Run(kProduct);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "not there");
}

// Whichever call fails, the error names it, and the next try succeeds.
TEST(CublasMatMul, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  for (int64_t n = 0;; ++n) {
    FakeCuda fake({.any_address = true});
    {
      Products products(fake);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = products.Run(kProduct);
      if (!fake.has_failed()) {
        EXPECT_GT(n, 15);
        return;
      }
      EXPECT_THAT(std::string(status.message()), HasSubstr(fake.calls().back()));
      EXPECT_TRUE(products.Run(kProduct).ok()) << fake.calls()[static_cast<size_t>(n)];
      EXPECT_THAT(products.c, ElementsAre(210.5, 0, 430.5, 0));
    }
    EXPECT_EQ(fake.Leaks(), "") << n;
  }
}

TEST(CublasMatMul, AnErrorSaysWhatWasMultipliedAndWhatToDo) {
  FakeCuda fake({.any_address = true});
  Products products(fake);
  fake.FailCall(0, "cublasLtMatmul");
  EXPECT_THAT(std::string(products.Run(kProduct).message()),
              AllOf(HasSubstr("asking for a product of [2, 2] and [2, 2] in float32: cublasLtMatmul failed"),
                    HasSubstr("--plain-kernels")));
}

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

// Attention on the pretended library, with q, k and v packed in rows.
struct Packed {
  static constexpr int64_t kBatch = 4, kHeads = 2, kLength = 6, kWidth = 8, kRow = kHeads * kWidth;

  explicit Packed(FakeCuda& f) : fake(f) {
    stream = cuda::CudaStream::Create(cuda::CudaDevice::Open(fake.api(), 0).value()).value();
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = BFloat16(static_cast<float>((i * 7) % 11) / 8 - 0.5F);
    for (size_t i = 0; i < dout.size(); ++i) dout[i] = BFloat16(static_cast<float>((i * 5) % 13) / 8 - 0.5F);
  }
  cuda::CudnnAttention Of(bool backward, int64_t workspace_bytes) const {
    const cuda::CudnnHeads packed = {.batch = kLength * 3 * kRow, .head = kWidth, .row = 3 * kRow};
    return {.backward = backward,
            .batch = kBatch,
            .heads = kHeads,
            .queries = kLength,
            .keys = kLength,
            .width = kWidth,
            .q = packed,
            .k = packed,
            .v = packed,
            .out = {.batch = kLength * kRow, .head = kWidth, .row = kRow},
            .scale = 0.5,
            .causal = true,
            .workspace_bytes = workspace_bytes};
  }
  absl::Status Run(const cuda::CudnnAttention& attention) {
    SNUG_ASSIGN_OR_RETURN(cuda::CudnnAttentions* const attentions, cuda::LibrariesOf(*stream).attentions());
    workspace.resize(static_cast<size_t>(attention.workspace_bytes));
    const int64_t step = kRow;
    SNUG_RETURN_IF_ERROR(attentions->Run(attention, {.q = qkv.data(),
                                                     .k = qkv.data() + step,
                                                     .v = qkv.data() + 2 * step,
                                                     .out = out.data(),
                                                     .lse = lse.data(),
                                                     .dout = dout.data(),
                                                     .dq = dqkv.data(),
                                                     .dk = dqkv.data() + step,
                                                     .dv = dqkv.data() + 2 * step,
                                                     .workspace = workspace.data()}));
    return stream->Synchronize();
  }

  FakeCuda& fake;
  std::vector<BFloat16> qkv = std::vector<BFloat16>(kBatch * kLength * 3 * kRow), dqkv = qkv;
  std::vector<BFloat16> out = std::vector<BFloat16>(kBatch * kLength * kRow), dout = out;
  std::vector<float> lse = std::vector<float>(kBatch * kHeads * kLength);
  std::vector<std::byte> workspace;
  std::unique_ptr<cuda::CudaStream> stream;
};

TEST(CudnnAttention, DoesSamplesInGroupsWhereWorkspaceIsShort) {
  FakeCuda fake({.any_address = true});
  Packed packed(fake);
  const cuda::CudnnAttention all = packed.Of(true, int64_t{1} << 30);
  ASSERT_TRUE(packed.Run(packed.Of(false, 4096)).ok());
  ASSERT_TRUE(packed.Run(all).ok());
  const std::vector<BFloat16> expected = packed.dqkv;
  for (const int64_t samples : {2, 1}) {
    // The workspace is just too small for twice as many.
    const cuda::CudnnAttentionGroup larger = GroupWithin(
        all, samples == 2
                 ? GroupWithin(all, int64_t{1} << 30).workspace_bytes - 1
                 : GroupWithin(all, GroupWithin(all, int64_t{1} << 30).workspace_bytes - 1).workspace_bytes - 1);
    ASSERT_EQ(larger.samples, samples);
    packed.dqkv.assign(packed.dqkv.size(), BFloat16(0.0F));
    fake.ClearCalls();
    ASSERT_TRUE(packed.Run(packed.Of(true, larger.workspace_bytes)).ok());
    EXPECT_EQ(fake.Count("cudnnBackendExecute"), Packed::kBatch / samples);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(static_cast<float>(packed.dqkv[i]), static_cast<float>(expected[i])) << i;
    }
  }
  EXPECT_EQ(GroupWithin(all, 0).samples, 1) << "one is always done";
  cuda::CudnnAttention uneven = all;
  uneven.queries = 5;
  EXPECT_EQ(GroupWithin(uneven, 0).samples, 2) << "10 numbers for each sample: every second begins at 16 bytes";
}

TEST(CudnnAttention, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  // Hundreds of calls describe it: every seventh.
  for (int64_t n = 0;; n += 7) {
    FakeCuda fake({.any_address = true});
    {
      Packed packed(fake);
      const cuda::CudnnAttention attention = packed.Of(true, GroupWithin(packed.Of(true, 0), 0).workspace_bytes);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = packed.Run(attention);
      if (!fake.has_failed()) {
        EXPECT_GT(n, 300);
        return;
      }
      const std::string failed = fake.calls()[static_cast<size_t>(n)];
      if (failed != "cudnnBackendDestroyDescriptor") {
        EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
      }
      EXPECT_TRUE(packed.Run(attention).ok()) << failed;
    }
    EXPECT_EQ(fake.Leaks(), "") << n;
  }
}

// For values of 3 channels cuDNN makes copies with 8 (bfloat16) in its workspace.
TEST(CudnnConv, HasRoomForCopiesOfAnImageWithMoreChannels) {
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
    const int64_t most = stem ? int64_t{300} << 20 : int64_t{65} << 20;
    EXPECT_LE(compiled->kernels[i].workspace_bytes, most) << node.name;
    if (!stem) continue;
    EXPECT_GE(compiled->kernels[i].workspace_bytes, int64_t{256} * 224 * 224 * 8 * 2) << node.name;
    ++stems;
  }
  EXPECT_EQ(stems, 2) << "forward and backward";
}

// A whole network: every kernel is emulated, products and convolutions are the pretended libraries'.
struct Network {
  LoadedNetwork loaded;
  How how;

  absl::StatusOr<std::unique_ptr<Session>> Begin(FakeCuda& fake) const {
    SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const cuda::CudaDevice> device, cuda::CudaDevice::Open(fake.api(), 0));
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForCuda(loaded, how));
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    return NewSession(std::move(all), how, std::move(device));
  }
  absl::Status Step(Session& session) const {
    SNUG_RETURN_IF_ERROR(FeedRandom(session, OpRegistry::Builtin(), 3));
    return session.Run();
  }
};

class CudaLibraries : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<FakeCuda> NewFake(FakeLibraries libraries = FakeLibraries::kServe) {
    return std::make_unique<FakeCuda>(
        cuda::FakeOptions{.kernels = cuda::emulation::BindLaunch, .libraries = libraries});
  }
  Network Of(How how) const {
    how.libraries = true;
    how.batch = 2;
    return {LoadModel(GetParam()).value(), how};
  }
};

TEST_P(CudaLibraries, AreStartedAndAskedWhatToDoAsTheSessionOpensItsDevice) {
  const std::unique_ptr<FakeCuda> fake = NewFake();
  {
    const Network network = Of({.streams = 2});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    const auto choices = [&] {
      int64_t count = 0;
      for (const std::string& call : fake->calls()) {
        count += call == "cublasLtCreate" || call == "cudnnCreate" || call.find("Algo") != std::string::npos ||
                         call == "cudnnBackendGetAttribute"
                     ? 1
                     : 0;
      }
      return count;
    };
    EXPECT_GT(choices(), 1);
    EXPECT_LE(fake->Count("cublasLtCreate"), 2) << "one for each stream";
    EXPECT_EQ(fake->Count("cublasLtMatmul"), 0);
    fake->ClearCalls();
    // The second of these records the graph and launches it, the third only launches it.
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());
    EXPECT_EQ(fake->Count("cuGraphLaunch"), 2);
    EXPECT_EQ(choices(), 0);
    EXPECT_GT(fake->Count("cublasLtMatmul"), 0);
  }
  EXPECT_EQ(fake->Leaks(), "");
}

TEST_P(CudaLibraries, ThatAreMissingChangeNeitherPlanNorOutcomeOfOwnKernels) {
  std::vector<Result> results;
  for (const FakeLibraries libraries : {FakeLibraries::kRefuse, FakeLibraries::kMissing}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    const Network network = Of({});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    const absl::StatusOr<Result> result = Train(*session, network.loaded, 2);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*result);
    EXPECT_EQ(fake->used_bytes(), session->compiled().executable.memory.total_bytes());
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST_P(CudaLibraries, EveryCallOfAStepThatFailsIsAnErrorAndLeavesNothingBehind) {
  const Network network = Of({});
  for (const int before : {0, 1}) {
    for (int64_t n = 0;; ++n) {
      const std::unique_ptr<FakeCuda> fake = NewFake();
      bool ended = false;
      {
        const std::unique_ptr<Session> session = network.Begin(*fake).value();
        for (int i = 0; i < before; ++i) ASSERT_TRUE(network.Step(*session).ok());
        fake->ClearCalls();
        fake->FailCall(n);
        const absl::Status status = network.Step(*session);
        ended = !fake->has_failed();
        const std::string failed = ended ? "" : fake->calls()[static_cast<size_t>(n)];
        const bool gives_back =
            failed == "cuGraphDestroy" || failed == "cuGraphExecDestroy" || failed == "cudnnBackendDestroyDescriptor";
        EXPECT_EQ(status.ok(), ended || gives_back) << failed;
        if (!status.ok()) {
          EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
        }
      }
      EXPECT_EQ(fake->Leaks(), "") << n;
      if (ended) break;
    }
  }
}

// Whoever asked for the node is told, and told once, however the step is run.
TEST_P(CudaLibraries, ThatDoNotServeANodeAreNamedAndCounted) {
  for (const auto& [libraries, engine] : {std::pair{FakeLibraries::kRefuse, ExecutorKind::kReplay},
                                          std::pair{FakeLibraries::kRefuse, ExecutorKind::kSerial},
                                          std::pair{FakeLibraries::kRefuse, ExecutorKind::kDynamic},
                                          std::pair{FakeLibraries::kMissing, ExecutorKind::kReplay},
                                          std::pair{FakeLibraries::kServe, ExecutorKind::kReplay}}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    std::vector<std::string> lines;
    const Network network =
        Of({.streams = 2, .engine = engine, .fallbacks = [&](const std::string& line) { lines.push_back(line); }});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    std::map<std::string, std::string> expected;  // nodes with a library's kernel
    const Compiled& compiled = session->compiled();
    for (const Step& step : compiled.executable.steps) {
      const Node& node = compiled.graph.node(step.node);
      if (!step.kernel->library.empty()) expected[node.name] = node.op;
    }
    ASSERT_GT(expected.size(), 2);
    if (libraries == FakeLibraries::kServe) expected.clear();
    EXPECT_EQ(session->fallbacks().size(), expected.size()) << "before the first step";
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());

    std::map<std::string, std::string> found;
    for (const Fallback& one : session->fallbacks()) found[one.node] = one.op;
    EXPECT_EQ(found, expected);
    EXPECT_EQ(session->fallbacks().size(), expected.size()) << "each once";
    Json json;
    json.Object();
    WriteFallbacks(session->fallbacks(), json);
    json.End();
    EXPECT_THAT(json.text(), HasSubstr(absl::StrCat("\"fallbacks\": ", expected.size(), ",")));
    EXPECT_EQ(lines.empty(), expected.empty());
    const std::string said = absl::StrJoin(lines, "\n");
    for (const Fallback& one : session->fallbacks()) {
      EXPECT_THAT(said, HasSubstr("our own kernel serves in place of " + one.library + "'s, more slowly, for "));
      EXPECT_EQ(one.instead, "own");
      EXPECT_THAT(one.why, HasSubstr(libraries == FakeLibraries::kMissing ? "not there" : " failed: "));
      if (libraries == FakeLibraries::kRefuse) {
        EXPECT_THAT(said, HasSubstr(absl::StrCat(one.op, " \"")));
        EXPECT_THAT(said, HasSubstr(absl::StrCat("\"", one.node, "\"")));
      }
    }
    if (libraries == FakeLibraries::kMissing) {
      EXPECT_LE(lines.size(), 2) << "one for each library";
    }
  }
}

// An algorithm that the library itself had listed first was to be the fastest.
TEST_P(CudaLibraries, ThatTakeAnotherAlgorithmThanTheyChoseAreNamedAndCounted) {
  for (const ExecutorKind engine : {ExecutorKind::kReplay, ExecutorKind::kSerial, ExecutorKind::kDynamic}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeOthers);
    std::vector<std::string> lines;
    const Network network =
        Of({.streams = 2, .engine = engine, .fallbacks = [&](const std::string& line) { lines.push_back(line); }});
    const std::unique_ptr<Session> session = network.Begin(*fake).value();
    std::vector<std::string> expected;
    const Compiled& compiled = session->compiled();
    for (const Step& step : compiled.executable.steps) {
      const Node& node = compiled.graph.node(step.node);
      if (step.kernel->name == "cublaslt" || step.kernel->name == "cudnn") expected.push_back(node.name);
    }
    ASSERT_GT(expected.size(), 2u);
    EXPECT_EQ(session->fallbacks().size(), 0u) << "it shows as the algorithm is launched first";
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(network.Step(*session).ok());

    std::vector<std::string> found;
    for (const Fallback& one : session->fallbacks()) {
      found.push_back(one.node);
      EXPECT_EQ(one.instead, kAnotherAlgorithm);
      EXPECT_THAT(one.why, HasSubstr(" failed: "));
      EXPECT_THAT(absl::StrJoin(lines, "\n"), HasSubstr(absl::StrCat("another of ", one.library,
                                                                     "'s algorithms serves in "
                                                                     "place of ",
                                                                     one.library, "'s first choice for ")));
    }
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected)) << "each once";
  }
  const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeOthers);
  const Network network = Of({.strict_kernels = true});
  const std::unique_ptr<Session> session = network.Begin(*fake).value();
  const absl::Status strict = network.Step(*session);
  EXPECT_EQ(strict.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(strict.message()), AllOf(HasSubstr("algorithms would"), HasSubstr("--strict-kernels")));
}

// An engine for the convolution alone, and a sweep of ours after it, is no fallback.
TEST_P(CudaLibraries, ThatAddNoBiasServeAllTheSame) {
  const std::unique_ptr<FakeCuda> fake = NewFake(FakeLibraries::kServeUnfused);
  const Network network = Of({.strict_kernels = true});
  const std::unique_ptr<Session> session = network.Begin(*fake).value();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(network.Step(*session).ok());
  EXPECT_EQ(session->fallbacks().size(), 0u);
}

TEST_P(CudaLibraries, ThatDoNotServeANodeAreAnErrorWhereKernelsAreStrict) {
  for (const FakeLibraries libraries : {FakeLibraries::kRefuse, FakeLibraries::kMissing, FakeLibraries::kServe}) {
    const std::unique_ptr<FakeCuda> fake = NewFake(libraries);
    const absl::StatusOr<std::unique_ptr<Session>> session = Of({.strict_kernels = true}).Begin(*fake);
    EXPECT_EQ(session.ok(), libraries == FakeLibraries::kServe);
    if (session.ok()) continue;
    EXPECT_EQ(session.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(session.status().message()), AllOf(HasSubstr(GetParam()), HasSubstr("--strict-kernels")));
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, CudaLibraries,
                         testing::Values("tests/data/tiny.pbtxt", "tests/data/tiny_conv.pbtxt"),
                         [](const auto& info) { return "network" + std::to_string(info.index); });

}  // namespace
}  // namespace snug::core
