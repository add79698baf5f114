// Tests attention by the pretended cuBLASLt's products: pieces of every kind against the plain kernels, how much
// workspace they take, which nodes they are for, and that a call that fails is an error and leaves nothing behind.
#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "engine/cuda/cuda_libraries.h"
#include "ops/kernels/attention/pieces.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::HasSubstr;

AttentionOperand InRows(int64_t heads, int64_t length, int64_t width, int64_t parts) {
  return {.batch = length * heads * width * parts, .head = width, .row = heads * width * parts};
}
AttentionOperand ByHeads(int64_t heads, int64_t length, int64_t width) {
  return {.batch = heads * length * width, .head = length * width, .row = width};
}

// q, k and v beside each other in each row, as packed_attention has them.
AttentionSizes PackedRows(int64_t batch, int64_t heads, int64_t length, int64_t width, bool causal) {
  AttentionSizes s = {.batch = batch, .heads = heads, .queries = length, .keys = length, .width = width};
  s.q = s.k = InRows(heads, length, width, 3);
  s.out = InRows(heads, length, width, 1);
  s.scale = 1 / std::sqrt(static_cast<double>(width));
  s.causal = causal;
  return s;
}
AttentionSizes Apart(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t width, bool causal) {
  AttentionSizes s = PackedRows(batch, heads, queries, width, causal);
  s.keys = keys;
  s.q = s.out = ByHeads(heads, queries, width);
  s.k = ByHeads(heads, keys, width);
  return s;
}

// Both passes, with q, k and v in arrays of their own (packed ones are spread as if they were not).
struct BothPasses {
  explicit BothPasses(const AttentionSizes& sizes, bool with_mask) : s(sizes) {
    const auto fill = [](std::vector<float>& to, int64_t count, int step) {
      for (int64_t i = 0; i < count; ++i) to.push_back(static_cast<float>(i * step % 23) / 8 - 1.25F);
    };
    fill(q, s.batch * s.q.batch, 7);
    fill(k, s.batch * s.k.batch, 5);
    fill(v, s.batch * s.k.batch, 11);
    fill(dout, s.batch * s.out.batch, 3);
    if (with_mask) {
      fill(mask, s.batch * s.keys, 13);
      for (int64_t i = 0; i < s.keys; i += 5) mask[static_cast<size_t>(i)] = -std::numeric_limits<float>::infinity();
      s.mask = {s.keys, 0, 0, 1};
    }
    out.assign(dout.size(), kNotWritten);
    lse.assign(static_cast<size_t>(s.batch * s.heads * s.queries), kNotWritten);
    dq.assign(q.size(), kNotWritten);
    dk.assign(k.size(), kNotWritten);
    dv.assign(v.size(), kNotWritten);
  }
  AttentionForward<float> Forward() {
    return {q.data(), k.data(), v.data(), mask.empty() ? nullptr : mask.data(), out.data(), lse.data()};
  }
  AttentionBackward<float> Backward() {
    return {q.data(),  k.data(),  v.data(), mask.empty() ? nullptr : mask.data(), out.data(), dout.data(), lse.data(),
            dq.data(), dk.data(), dv.data()};
  }

  static constexpr float kNotWritten = 1234;
  AttentionSizes s;
  std::vector<float> q, k, v, mask, out, lse, dout, dq, dk, dv;
};

// A stream of the pretended device.
struct AttentionDevice {
  explicit AttentionDevice(FakeCuda& fake)
      : stream(cuda::CudaStream::Create(cuda::CudaDevice::Open(fake.api(), 0).value()).value()), launch(*stream) {}

  absl::Status Forward(BothPasses& passes, int64_t most_bytes = kMostScoreBytes) {
    return Run(passes, /*backward=*/false, most_bytes);
  }
  absl::Status Backward(BothPasses& passes, int64_t most_bytes = kMostScoreBytes) {
    return Run(passes, /*backward=*/true, most_bytes);
  }
  absl::Status RunBoth(BothPasses& passes, int64_t most_bytes) {
    SNUG_RETURN_IF_ERROR(Forward(passes, most_bytes));
    return Backward(passes, most_bytes);
  }

  // Runs within a workspace of just the planned size.
  absl::Status Run(BothPasses& passes, bool backward, int64_t most_bytes) {
    const AttentionPieces pieces = CutAttention(passes.s, backward, false, most_bytes);
    const int64_t bytes = pieces.WorkspaceBytes(passes.s, backward);
    constexpr size_t kGuard = 64;
    const size_t count = static_cast<size_t>(bytes) / sizeof(float);
    workspace.assign(count + kGuard, BothPasses::kNotWritten);
    const std::shared_ptr<const void> prepared = PrepareAttentionProducts(passes.s, pieces, backward, false, 1);
    const KernelContext k(nullptr, {}, {}, workspace.data(), prepared.get(), 1, 0, &launch);
    absl::Status status =
        backward ? AttentionGradByProducts(k, passes.Backward()) : AttentionByProducts(k, passes.Forward());
    status.Update(stream->Synchronize());
    for (size_t i = count; i < workspace.size(); ++i) EXPECT_EQ(workspace[i], BothPasses::kNotWritten);
    return status;
  }

  std::vector<float> workspace;
  std::unique_ptr<cuda::CudaStream> stream;
  cuda::LaunchContext launch;
};

void ExpectClose(const char* what, const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;  // infinity, too
    ASSERT_NEAR(found[i], expected[i], 2e-5 * std::max(1.0F, std::abs(expected[i]))) << what << " " << i;
  }
}

int64_t CountPieces(const AttentionSizes& s, int64_t most_bytes, bool backward) {
  int64_t count = 0;
  EXPECT_TRUE(CutAttention(s, backward, false, most_bytes)
                  .ForEach(s, backward,
                           [&](const AttentionPiece&, bool) {
                             ++count;
                             return absl::OkStatus();
                           })
                  .ok());
  return count;
}

TEST(CublasAttention, HasThePlainKernelsNumbersHoweverItIsCut) {
  struct Case {
    AttentionSizes sizes;
    bool mask;
    int64_t most_bytes;
    int64_t pieces;  // backward
  };
  constexpr int64_t kAll = int64_t{1} << 30;
  const Case cases[] = {
      {PackedRows(3, 2, 70, 8, true), false, kAll, 1},
      {PackedRows(2, 3, 70, 8, true), false, kAll, 1},
      {PackedRows(3, 2, 70, 8, true), false, 80000, 6},  // a head of a sample
      {PackedRows(2, 3, 70, 8, true), false, 80000, 6},
      {PackedRows(2, 3, 70, 8, false), false, 170000, 2},  // a sample at a time
      {PackedRows(3, 2, 70, 8, false), false, 170000, 2},  // a head of all samples at a time
      {PackedRows(2, 5, 70, 8, false), true, 170000, 4},   // three heads of a sample, then two
      {PackedRows(5, 2, 70, 8, false), true, 170000, 4},   // a head of three samples, then of two
      {PackedRows(3, 5, 70, 8, false), true, 410000, 2},   // two samples, then one
      {PackedRows(5, 3, 70, 8, false), true, 410000, 2},   // two heads of all samples, then one
      {PackedRows(3, 2, 70, 5, true), true, 40000, 12},    // queries, too; rows that begin anywhere
      {Apart(2, 3, 70, 131, 4, true), false, 300000, 2},   // keys that nobody sees
      {Apart(2, 3, 140, 67, 4, true), true, 40000, 18},    // queries that see all keys
      {Apart(2, 3, 3, 5, 7, false), true, 1, 18},          // a row at a time
      {PackedRows(3, 1, 66, 8, false), true, 80000, 2},    // one head in each sample
      {Apart(1, 1, 3, 600, 4, false), false, kAll, 1},     // rows for a block
      {Apart(1, 1, 2, 4200, 4, true), false, kAll, 1},     // rows that no block holds
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(&one - cases);
    FakeCuda fake({.any_address = true, .kernels = cuda::emulation::BindLaunch});
    AttentionDevice products(fake);
    BothPasses found(one.sizes, one.mask);
    BothPasses expected = found;
    EXPECT_EQ(CountPieces(found.s, one.most_bytes, true), one.pieces);
    ASSERT_TRUE(products.RunBoth(found, one.most_bytes).ok());
    PlainAttention(1, expected.s, expected.Forward());
    ExpectClose("out", found.out, expected.out);
    ExpectClose("lse", found.lse, expected.lse);
    expected.out = found.out;
    expected.lse = found.lse;
    PlainAttentionGrad(1, expected.s, expected.Backward());
    ExpectClose("dq", found.dq, expected.dq);
    ExpectClose("dk", found.dk, expected.dk);
    ExpectClose("dv", found.dv, expected.dv);
  }
}

// A mask of -1e9 rounds scores to multiples of 64, and a forward pass by another kernel may round the other way.
TEST(CublasAttention, HasNoProbabilityAboveOne) {
  FakeCuda fake({.any_address = true, .kernels = cuda::emulation::BindLaunch});
  AttentionDevice products(fake);
  BothPasses passes(Apart(1, 1, 1, 1, 4, false), true);
  passes.mask[0] = -1e9F;
  ASSERT_TRUE(products.Forward(passes).ok());
  EXPECT_EQ(passes.lse[0], -1e9F);
  passes.lse[0] -= 64;
  ASSERT_TRUE(products.Backward(passes).ok());
  EXPECT_THAT(passes.dv, testing::ElementsAreArray(passes.dout));
}

TEST(CublasAttention, TakesNoMoreWorkspaceThanTheBound) {
  for (const bool causal : {false, true}) {
    for (const AttentionSizes& s : {PackedRows(16, 12, 1024, 64, causal), PackedRows(1, 96, 4096, 128, causal),
                                    PackedRows(2, 8, 32768, 64, causal), PackedRows(256, 12, 197, 64, causal),
                                    Apart(64, 16, 512, 2048, 32, causal)}) {
      for (const bool backward : {false, true}) {
        const int64_t bytes = CutAttention(s, backward, false).WorkspaceBytes(s, backward);
        EXPECT_LE(bytes, kMostScoreBytes) << s.keys;
        EXPECT_GT(bytes, kMostScoreBytes / 8) << s.keys;
      }
    }
  }
}

TEST(CublasAttention, IsForWhatOurOwnKernelTakesLongerFor) {
  const auto pays = [](const AttentionSizes& s, bool backward, bool tf32 = false) {
    return ProductsPay(s, CutAttention(s, backward, tf32), backward, tf32);
  };
  EXPECT_FALSE(pays(PackedRows(2, 2, 16, 8, false), false)) << "launches";
  EXPECT_FALSE(pays(PackedRows(64, 64, 197, 16, false), true)) << "a few launches for each sample, or each head";
  EXPECT_TRUE(pays(PackedRows(64, 12, 197, 64, false), true)) << "a few launches for each head";
  EXPECT_TRUE(pays(Apart(64, 12, 197, 197, 64, false), true)) << "all heads in one";
  EXPECT_TRUE(pays(PackedRows(16, 12, 1024, 64, true), true));
  EXPECT_FALSE(pays(PackedRows(16, 12, 1024, 16, true), false)) << "more bytes of scores than operations";
  EXPECT_TRUE(pays(PackedRows(16, 16, 2048, 128, true), false));
  EXPECT_TRUE(pays(PackedRows(16, 12, 1024, 64, true), false, true)) << "tensor cores";
}

// GPT-2's gradients are products, and its plan has room for their scores and those of our own kernel.
TEST(CublasAttention, ServesGpt2InFloat32) {
  const LoadedNetwork loaded = LoadModel("models/gpt2.pbtxt").value();
  const absl::StatusOr<Compiled> compiled =
      CompileForCuda(loaded, {.strategy = "none", .libraries = true, .batch = 4, .precision = DType::kFloat32});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  int gradients = 0;
  for (const Step& step : compiled->executable.steps) {
    const std::string op = compiled->graph.node(step.node).op;
    if (op != "packed_attention_grad") continue;
    EXPECT_EQ(step.kernel->name, "cublaslt");
    ASSERT_NE(step.instead.kernel, nullptr);
    EXPECT_EQ(step.instead.kernel->name, "own");
    EXPECT_LE(compiled->kernels[static_cast<size_t>(step.node.index)].workspace_bytes, kMostScoreBytes);
    ++gradients;
  }
  EXPECT_EQ(gradients, 12);
}

TEST(CublasAttention, EveryCallThatFailsIsAnErrorAndLeavesNothingBehind) {
  for (int64_t n = 0;; n += 5) {
    FakeCuda fake({.any_address = true, .kernels = cuda::emulation::BindLaunch});
    {
      AttentionDevice products(fake);
      BothPasses passes(PackedRows(2, 2, 5, 4, true), false);
      fake.ClearCalls();
      fake.FailCall(n);
      const absl::Status status = products.RunBoth(passes, 1 << 20);
      if (!fake.has_failed()) {
        EXPECT_GT(n, 60);
        return;
      }
      const std::string failed = fake.calls()[static_cast<size_t>(n)];
      EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
      EXPECT_TRUE(products.RunBoth(passes, 1 << 20).ok()) << failed;
    }
    EXPECT_EQ(fake.Leaks(), "") << n;
  }
}

}  // namespace
}  // namespace snug::core
