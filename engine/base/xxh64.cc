#include "engine/base/xxh64.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace snug::core {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87U;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9U;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5U;

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

template <class Word>
uint64_t Read(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t Round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

}  // namespace

// Adds whole stripes. It works on a copy of the lanes, because the compiler must assume that `bytes` could overlap the
// members.
void Xxh64::AddStripes(absl::Span<const std::byte> bytes) {
  std::array<uint64_t, 4> lanes = lanes_;
  for (; !bytes.empty(); bytes.remove_prefix(kStripe)) {
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = Round(lanes[i], Read<uint64_t>(bytes.data() + 8 * i));
  }
  lanes_ = lanes;
}

Xxh64::Xxh64() : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1} {}

void Xxh64::Add(absl::Span<const std::byte> bytes) {
  if (bytes.empty()) return;
  total_ += bytes.size();
  if (rest_size_ > 0) {
    const size_t taken = std::min(bytes.size(), kStripe - rest_size_);
    std::memcpy(rest_.data() + rest_size_, bytes.data(), taken);
    rest_size_ += taken;
    bytes.remove_prefix(taken);
    if (rest_size_ < kStripe) return;
    AddStripes(rest_);
    rest_size_ = 0;
  }
  const size_t whole = bytes.size() / kStripe * kStripe;
  AddStripes(bytes.first(whole));
  bytes.remove_prefix(whole);
  if (bytes.empty()) return;
  std::memcpy(rest_.data(), bytes.data(), bytes.size());
  rest_size_ = bytes.size();
}

uint64_t Xxh64::Digest() const {
  uint64_t h = kPrime5;
  if (total_ >= kStripe) {
    h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) h = (h ^ Round(0, lane)) * kPrime1 + kPrime4;
  }
  h += total_;
  const std::byte* at = rest_.data();
  const std::byte* const end = at + rest_size_;
  for (; end - at >= 8; at += 8) h = std::rotl(h ^ Round(0, Read<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    h = std::rotl(h ^ (Read<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) h = std::rotl(h ^ (Read<uint8_t>(at) * kPrime5), 11) * kPrime1;
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}

}  // namespace snug::core
