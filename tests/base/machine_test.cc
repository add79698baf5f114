#include "engine/base/machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/sanitizers.h"

namespace snug::core {
namespace {

TEST(HeapBytes, GrowsWithWhatIsTaken) {
#if !defined(__GLIBC__)
  GTEST_SKIP() << "SKIPPED: this C library does not tell";
#endif
  if (test::kSanitized) GTEST_SKIP() << "SKIPPED: sanitizers bring their own malloc";
  const int64_t before = HeapBytes();
  const std::vector<char> large(64 << 20, 1);
  EXPECT_GE(HeapBytes() - before, 64 << 20);
  EXPECT_EQ(large.back(), 1);
}

}  // namespace
}  // namespace snug::core
