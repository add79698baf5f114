// The one dependency rule: two accesses conflict when one writes bytes that the other reads or writes, and conflicting
// accesses run in the sequence in which they were given. This covers data flow, Variables, and the reuse of memory by a
// Plan, also with partial overlaps. A plain tag, which stands for anything that its users agree on, is a Region of one
// byte in an arena of its own. AccessHistory (access_history.h) applies the rule to a sequence of accesses.
#pragma once

#include <cstdint>

namespace snug::core {

struct Region {
  int32_t arena = 0;  // >= 0, or kTagArena for tags
  int64_t begin = 0;  // bytes [begin, end); an empty Region conflicts with nothing
  int64_t end = 0;

  friend bool operator==(const Region& a, const Region& b) {
    return a.arena == b.arena && a.begin == b.begin && a.end == b.end;
  }
};

inline constexpr int32_t kTagArena = -1;

// `index` is small, and is used again with another generation after the tag's deletion.
struct Tag {
  int32_t index = -1;
  int32_t generation = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): lists of Regions are written with tags in them.
  operator Region() const {
    const int64_t at = (int64_t{generation} << 32) | index;
    return {kTagArena, at, at + 1};
  }
  friend bool operator==(Tag a, Tag b) { return a.index == b.index && a.generation == b.generation; }
};

// Returns the tag that `region`, which must lie in kTagArena, stands for.
inline Tag TagOf(const Region& region) {
  return {static_cast<int32_t>(region.begin & 0xffffffff), static_cast<int32_t>(region.begin >> 32)};
}

struct Access {
  Region region;
  bool write = false;
};

inline bool Overlap(const Region& a, const Region& b) {
  return a.arena == b.arena && a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

inline bool Conflicts(const Access& a, const Access& b) { return (a.write || b.write) && Overlap(a.region, b.region); }

}  // namespace snug::core
