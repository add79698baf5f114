// GoogleTest's main, and one test for each case of the op conformance suite, `Ops.relu/vector/float32`.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ops/conformance.h"
#include "tests/testing/sample_values.h"

namespace snug::core::test {
namespace {

class ConformanceTest : public ::testing::Test {
 public:
  explicit ConformanceTest(ConformanceCase c) : case_(std::move(c)) {}
  void TestBody() override {
    for (const std::string& failure : CheckCase(OpRegistry::Builtin(), case_)) {
      ADD_FAILURE() << case_.Name() << " (seed " << SampleSeed(*case_.op, *case_.sample) << "): " << failure;
    }
  }

 private:
  ConformanceCase case_;
};

void RegisterConformanceTests() {
  static const std::deque<OpSamples>* const samples = new std::deque<OpSamples>(CollectSamples(OpRegistry::Builtin()));
  for (const ConformanceCase& c : CasesOf(*samples)) {
    ::testing::RegisterTest("Ops", c.Name().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [c]() -> ::testing::Test* { return new ConformanceTest(c); });
  }
}

}  // namespace
}  // namespace snug::core::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  snug::core::test::RegisterConformanceTests();
  return RUN_ALL_TESTS();
}
