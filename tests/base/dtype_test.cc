#include "engine/base/dtype.h"

#include <gtest/gtest.h>

namespace snug::core {
namespace {

TEST(DType, KnowsSizeAndName) {
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2);
  EXPECT_EQ(SizeOf(DType::kFloat64), 8);
  EXPECT_EQ(Name(DType::kUint8), "uint8");
  EXPECT_EQ(DTypeOf<int64_t>::value, DType::kInt64);
}

TEST(DType, NamesLeadBack) {
#define SNUG_EXPECT_NAME(enumerator, name, type)      \
  EXPECT_EQ(DTypeFromName(name), DType::enumerator);  \
  EXPECT_EQ(Name(DType::enumerator), name);           \
  EXPECT_EQ(SizeOf(DType::enumerator), sizeof(type)); \
  EXPECT_EQ(DTypeOf<type>::value, DType::enumerator);
  SNUG_DTYPES(SNUG_EXPECT_NAME)
#undef SNUG_EXPECT_NAME
  EXPECT_EQ(DTypeFromName("float16"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
}

TEST(DType, ThreeAreFloating) {
  EXPECT_TRUE(IsFloating(DType::kFloat32) && IsFloating(DType::kBFloat16) && IsFloating(DType::kFloat64));
  EXPECT_FALSE(IsFloating(DType::kInt32) || IsFloating(DType::kInt64) || IsFloating(DType::kUint8));
}

}  // namespace
}  // namespace snug::core
