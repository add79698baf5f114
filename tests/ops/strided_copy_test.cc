#include "ops/kernels/copy/strided_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/graph/value_type.h"

namespace snug::core {
namespace {

// Calls fn for every index of the box, in row-major order.
template <class Fn>
void ForEachIndex(const Shape& box, const Fn& fn) {
  for (int64_t linear = 0; linear < box.num_elements(); ++linear) {
    Shape index = box;
    int64_t rest = linear;
    for (int i = box.rank() - 1; i >= 0; --i) {
      index[i] = rest % box[i];
      rest /= box[i];
    }
    fn(index);
  }
}

template <class T>
std::vector<T> NumbersFromOne(int64_t n) {
  std::vector<T> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), T(1));
  return numbers;
}

template <class T>
void ExpectCopied(const Shape& box, const Strides& from, const Strides& to, int threads) {
  Shape last = box;
  for (int i = 0; i < box.rank(); ++i) last[i] = box[i] - 1;
  const auto src = NumbersFromOne<T>(OffsetOf(last, from) + 1);
  std::vector<T> found(static_cast<size_t>(OffsetOf(last, to)) + 1);
  std::vector<T> expected = found;
  CopyStrided(threads, sizeof(T), box, src.data(), from, found.data(), to);
  ForEachIndex(box, [&](const Shape& index) {
    expected[static_cast<size_t>(OffsetOf(index, to))] = src[static_cast<size_t>(OffsetOf(index, from))];
  });
  EXPECT_EQ(found, expected) << box.ToString();
}

template <class T>
class StridedCopy : public testing::Test {};
using ElementTypes = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(StridedCopy, ElementTypes);

TYPED_TEST(StridedCopy, ContiguousRuns) {
  ExpectCopied<TypeParam>({3, 5, 7}, {70, 14, 1}, {35, 7, 1}, 2);
  ExpectCopied<TypeParam>({1000003}, {1}, {1}, 2);  // one run, which is cut into pieces
  ExpectCopied<TypeParam>({}, {}, {}, 2);
}

TYPED_TEST(StridedCopy, Transposes) {
  ExpectCopied<TypeParam>({70, 41}, {1, 70}, {41, 1}, 2);
  ExpectCopied<TypeParam>({130, 70}, {1, 130}, {70, 1}, 2);  // whole squares of every element size
  ExpectCopied<TypeParam>({3, 70, 2, 41}, {5740, 1, 2870, 70}, {5740, 82, 41, 1}, 2);
  const Shape image = {2, 3, 9, 11};
  const ValueType last = {DType::kFloat32, image, Layout::ChannelsLast()};
  ExpectCopied<TypeParam>(image, PlainStrides(image), last.strides(), 1);
  ExpectCopied<TypeParam>(image, last.strides(), PlainStrides(image), 1);
}

TYPED_TEST(StridedCopy, StepsAndRepeats) {
  ExpectCopied<TypeParam>({5, 6}, {24, 3}, {6, 1}, 2);
  ExpectCopied<TypeParam>({5, 6}, {6, 1}, {24, 3}, 2);
  ExpectCopied<TypeParam>({5, 6}, {0, 1}, {6, 1}, 2);
}

TEST(FillAround, LeavesTheBoxAlone) {
  const Shape whole = {4, 5, 6};
  const Shape begin = {1, 0, 2};
  const Shape box = {2, 4, 3};
  std::vector<int32_t> found(120, -1);
  const int32_t seven = 7;
  FillAround(2, sizeof(int32_t), whole, begin, box, &seven, found.data(), PlainStrides(whole));
  ForEachIndex(whole, [&](const Shape& index) {
    bool inside = true;
    for (int i = 0; i < 3; ++i) inside = inside && index[i] >= begin[i] && index[i] < begin[i] + box[i];
    EXPECT_EQ(found[static_cast<size_t>(OffsetOf(index, PlainStrides(whole)))], inside ? -1 : 7) << index.ToString();
  });
}

}  // namespace
}  // namespace snug::core
