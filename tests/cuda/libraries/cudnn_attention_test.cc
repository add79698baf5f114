// Tests attention by the pretended cuDNN: samples in groups, and that a call that fails is an error and leaves nothing
// behind.
#include "engine/cuda/cudnn_attention.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "engine/base/bfloat16.h"
#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core {
namespace {

using cuda::FakeCuda;
using testing::HasSubstr;

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

}  // namespace
}  // namespace snug::core
