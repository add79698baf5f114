#include "engine/graph/value_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug::core {
namespace {

TEST(ValueType, KnowsItsBytesAndText) {
  const ValueType plain = {DType::kBFloat16, {2, 3}};
  EXPECT_EQ(plain.size_bytes(), 12);
  EXPECT_EQ(plain.ToString(), "bfloat16[2, 3]");
  const ValueType image = {DType::kFloat32, {2, 3, 8, 8}, Layout::ChannelsLast()};
  EXPECT_EQ(image.size_bytes(), 2 * 3 * 8 * 8 * 4);
  EXPECT_EQ(image.ToString(), "float32[2, 3, 8, 8]nhwc");
}

TEST(ValueType, ChannelsLastStridesSkipOverChannels) {
  const ValueType image = {DType::kFloat32, {2, 3, 5, 7}, Layout::ChannelsLast()};
  const Strides strides = image.strides();
  EXPECT_THAT(std::vector<int64_t>(strides.begin(), strides.begin() + 4), ::testing::ElementsAre(105, 1, 21, 3));
  const Strides line = ValueType{DType::kFloat32, {2, 3, 5}, Layout::ChannelsLast()}.strides();
  EXPECT_THAT(std::vector<int64_t>(line.begin(), line.begin() + 3), ::testing::ElementsAre(15, 1, 3));
}

// Of a library that knows a format by its name.
class NamedFormat final : public PackedFormat {
 public:
  NamedFormat(std::string name, std::string tag, int64_t size_bytes)
      : PackedFormat(std::move(tag), size_bytes), name_(std::move(name)) {}
  bool Equals(const PackedFormat& other) const override {
    const auto* const named = dynamic_cast<const NamedFormat*>(&other);
    return named != nullptr && named->name_ == name_;
  }

 private:
  std::string name_;
};

TEST(ValueType, PackedHasTheBytesOfItsFormat) {
  const Layout packed = Layout::Packed(std::make_shared<const NamedFormat>("a", "OIhw16o", 4096));
  const ValueType weight = {DType::kFloat32, {5, 3, 3, 3}, packed};
  EXPECT_EQ(weight.size_bytes(), 4096);
  EXPECT_EQ(weight.ToString(), "float32[5, 3, 3, 3]packed:OIhw16o");
}

TEST(Layout, PackedOnesAreEqualWhereTheirFormatsSaySo) {
  const auto packed = [](const char* tag, const char* name) {
    return Layout::Packed(std::make_shared<const NamedFormat>(name, tag, 64));
  };
  EXPECT_EQ(packed("a", "same"), packed("b", "same"));
  EXPECT_FALSE(packed("a", "one") == packed("a", "other"));
  EXPECT_FALSE(packed("a", "one") == Layout::Plain());
  EXPECT_FALSE(Layout::ChannelsLast() == Layout::Plain());
}

}  // namespace
}  // namespace snug::core
