// The memory of a padded plan (padded_plan.h) as blocks of pages that can be locked, opened to readers or to writers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/run/bound_steps.h"

namespace snug {

// What the bytes are filled with that nothing is known to be in. Two patterns that have no byte in common: as numbers
// of any floating type, the first is NaN, the second small.
enum class Filling : uint8_t { kNan, kNumber };
void FillWith(Filling filling, std::byte* begin, std::byte* end);
std::byte FillingAt(Filling filling, const std::byte* at);
// The first byte that is not of the filling; `end`: none.
const std::byte* FindChange(Filling filling, const std::byte* begin, const std::byte* end);

// The pages of a buffer, or of several that lie on the same bytes one after the other.
struct GuardedBlock {
  Arena arena = Arena::kStep;
  std::vector<int32_t> buffers;   // of the arena's problem
  std::byte* pages = nullptr;     // where the first page begins
  std::byte* data = nullptr;      // where the buffers begin
  std::byte* data_end = nullptr;  // of what is accessed by anyone
  std::byte* end = nullptr;       // of the last page
};

class GuardedMemory {
 public:
  enum class Rights : uint8_t { kNone, kRead, kWrite };

  // Both must outlive it; the arenas begin at a page.
  GuardedMemory(const Executable& executable, const ArenaBytes& arenas);

  const std::vector<GuardedBlock>& blocks() const { return blocks_; }  // by address within each arena, state first
  // The block in which a region begins.
  size_t BlockOf(const Region& region) const;
  // The block whose bytes, or the guard pages next to them, hold `address`; the closest one. -1: not of these arenas.
  int64_t BlockAround(const std::byte* address) const;

  static void Protect(const GuardedBlock& block, Rights rights);
  void ProtectAll(Rights rights) const;  // guard pages included

 private:
  void AddBlocks(Arena arena, const memory::Problem& problem, const memory::Plan& plan, std::byte* bytes);

  struct Range {
    std::byte* begin = nullptr;
    int64_t bytes = 0;
    size_t first_block = 0, last_block = 0;  // [first, last)
  };
  Range arenas_[2];  // by Arena
  std::vector<GuardedBlock> blocks_;
};

}  // namespace snug
