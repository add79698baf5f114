// A number that is none in a query makes that query's row of the result none, by either kernel, and no other row.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "ops/kernels/attention/attention.h"

namespace snug::core {
namespace {

TEST(Attention, ANotANumberOfAQueryStaysInItsRow) {
  constexpr int64_t kQueries = 5, kKeys = 6, kWidth = 4, kBad = 2;
  std::vector<float> q(kQueries * kWidth, 0.5F), k(kKeys * kWidth, 0.25F), v(kKeys * kWidth, 1);
  q[kBad * kWidth + 1] = NAN;
  AttentionSizes s = {.batch = 1, .heads = 1, .queries = kQueries, .keys = kKeys, .width = kWidth};
  s.q = s.k = s.out = {.row = kWidth};
  for (const bool causal : {false, true}) {
    s.causal = causal;
    for (const bool blocked : {false, true}) {
      std::vector<float> out(kQueries * kWidth, 7), lse(kQueries, 7);
      const AttentionForward<float> call = {
          .q = q.data(), .k = k.data(), .v = v.data(), .out = out.data(), .lse = lse.data()};
      if (blocked) {
        std::vector<char> workspace(static_cast<size_t>(BlockedAttentionWorkspaceBytes(1, s)) + 64);
        void* begin = workspace.data();
        size_t space = workspace.size();
        std::align(64, space - 64, begin, space);
        BlockedAttention(1, s, call, begin);
      } else {
        PlainAttention(1, s, call);
      }
      for (int64_t i = 0; i < kQueries * kWidth; ++i) {
        const float found = out[static_cast<size_t>(i)];
        if (i / kWidth == kBad) {
          EXPECT_TRUE(std::isnan(found)) << i << (blocked ? " blocked" : " plain") << causal;
        } else {
          EXPECT_NEAR(found, 1, 1e-6) << i << (blocked ? " blocked" : " plain") << causal;
        }
      }
      EXPECT_TRUE(std::isnan(lse[kBad]));
    }
  }
}

}  // namespace
}  // namespace snug::core
