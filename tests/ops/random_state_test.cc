#include "ops/kit/random_state.h"

#include <gtest/gtest.h>

#include <vector>

namespace snug::core {
namespace {

TEST(RandomState, VectorsDrawTheNumbersOfPhilox) {
  const NodeTypes types;
  int64_t state[2] = {0x123456789abcdef, 0x7fedcba987654321};
  void* inputs[] = {state};
  const KernelContext k(&types, inputs, {}, nullptr, nullptr, 1, 99);
  const RandomStream random(k, 0);
  for (const uint64_t first : {uint64_t{0}, uint64_t{0xfffffffe}, uint64_t{1} << 40}) {
    for (const int64_t count : {8, 24, 40}) {
      std::vector<uint32_t> words(static_cast<size_t>(count) * 4);
      DrawWords(random, first, count, words.data());
      for (size_t i = 0; i < words.size(); ++i) {
        const auto expected = Philox{MixKeys(0x123456789abcdef, 99)}(0x7fedcba987654321, first + i / 4)[i % 4];
        ASSERT_EQ(words[i], expected) << "counter " << first << ", word " << i;
        ASSERT_EQ(random.Word(first * 4 + i), expected);
      }
    }
  }
}

}  // namespace
}  // namespace snug::core
