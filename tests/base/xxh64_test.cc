#include "engine/base/xxh64.h"

#include <absl/strings/string_view.h>
#include <absl/types/span.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace snug::core {
namespace {

absl::Span<const std::byte> Bytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t Hash(const std::string& text) {
  Xxh64 hash;
  hash.Add(Bytes(text));
  return hash.Digest();
}

std::string Counting(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 + i / 256);
  return text;
}

// Of the reference implementation.
TEST(Xxh64, GivesThePublishedValues) {
  EXPECT_EQ(Hash(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(Hash("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(Hash("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(Hash(Counting(77)), 0xC4CE4E3AD65F6DE0U);
  EXPECT_EQ(Hash(Counting(1000)), 0x698399D62F9C1695U);
}

TEST(Xxh64, IsTheSameInPieces) {
  const std::string text = Counting(200);
  for (size_t size : {1, 3, 31, 32, 33, 63, 64, 200}) {
    for (size_t cut = 0; cut <= size; ++cut) {
      Xxh64 hash;
      hash.Add(Bytes(absl::string_view(text).substr(0, cut)));
      hash.Add(Bytes(absl::string_view(text).substr(cut, size - cut)));
      EXPECT_EQ(hash.Digest(), Hash(text.substr(0, size))) << size << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace snug::core
