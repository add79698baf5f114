#include "engine/base/options.h"

#include <gtest/gtest.h>

namespace snug::core {
namespace {

// What Options asks of a protobuf message, without protobuf.
struct Descriptor {
  std::string name;
  const std::string& full_name() const { return name; }
};
template <int kTag>
struct FakeMessage {
  int value = 0;
  static const Descriptor* descriptor() {
    static const Descriptor kDescriptor{"fake" + std::to_string(kTag)};
    return &kDescriptor;
  }
  static const FakeMessage& default_instance() {
    static const FakeMessage kDefault{-1};
    return kDefault;
  }
};

Options Make(int value) {
  return Options(std::make_shared<const FakeMessage<1>>(FakeMessage<1>{value}), "fake1", std::to_string(value), "text");
}

TEST(Options, GiveTheMessageBack) {
  EXPECT_EQ(Make(7).Get<FakeMessage<1>>().value, 7);
  EXPECT_EQ(Make(7).text(), "text");
}

TEST(Options, AbsentOnesAreTheDefaultOfAnyType) {
  EXPECT_TRUE(Options().empty());
  EXPECT_EQ(Options().Get<FakeMessage<1>>().value, -1);
  EXPECT_EQ(Options().Get<FakeMessage<2>>().value, -1);
  EXPECT_EQ(Options().bytes(), "");
}

TEST(Options, AreEqualByTypeAndBytes) {
  EXPECT_EQ(Make(7), Make(7));
  EXPECT_FALSE(Make(7) == Make(8));
  EXPECT_FALSE(Make(7) == Options());
  EXPECT_FALSE(Make(7) == Options(std::make_shared<const FakeMessage<2>>(), "fake2", "7", ""));
}

TEST(OptionsDeathTest, AnotherTypeIsABug) { EXPECT_DEATH(Make(7).Get<FakeMessage<2>>(), "fake1"); }

}  // namespace
}  // namespace snug::core
