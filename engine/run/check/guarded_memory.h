// The memory of a padded plan (padded_plan.h), as blocks of pages that can be locked, or opened for reading or writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"
#include "engine/run/executors/bound_steps.h"

namespace snug::core {

// The fillings for bytes that hold nothing known. The two patterns have no byte in common; as numbers of any floating
// type the first is NaN, and the second is small.
enum class Filling : uint8_t { kNan, kNumber };
void FillWith(Filling filling, std::byte* begin, std::byte* end);
std::byte FillingAt(Filling filling, const std::byte* at);
// Returns the first byte that differs from the filling, or `end`.
const std::byte* FindChange(Filling filling, const std::byte* begin, const std::byte* end);

// The pages of a buffer, or of several that use the same bytes one after the other.
struct GuardedBlock {
  Arena arena = Arena::kStep;
  std::vector<int32_t> buffers;   // numbers in the arena's problem
  std::byte* pages = nullptr;     // where its first page begins
  std::byte* data = nullptr;      // where its buffers begin
  std::byte* data_end = nullptr;  // the end of what any Step accesses
  std::byte* end = nullptr;       // the end of its last page
};

class GuardedMemory {
 public:
  enum class Rights : uint8_t { kNone, kRead, kWrite };

  // Both arguments must outlive this; the arenas must begin at a page.
  GuardedMemory(const Executable& executable, const ArenaBytes& arenas);

  const std::vector<GuardedBlock>& blocks() const { return blocks_; }  // the state arena's first, then by address
  // Returns the block in which a region begins.
  size_t BlockOf(const Region& region) const;
  // Returns the block that holds `address` in its bytes or in the guard pages next to it; the closest one. -1 when the
  // address is not in these arenas.
  int64_t BlockAround(const std::byte* address) const;

  static void Protect(const GuardedBlock& block, Rights rights);
  void ProtectAll(Rights rights) const;  // includes guard pages

 private:
  void AddBlocks(Arena arena, const memory::Problem& problem, const memory::Plan& plan, std::byte* bytes);

  struct Range {
    std::byte* begin = nullptr;
    int64_t bytes = 0;
    size_t first_block = 0, last_block = 0;  // its blocks are [first, last)
  };
  Range arenas_[2];  // indexed by Arena
  std::vector<GuardedBlock> blocks_;
};

}  // namespace snug::core
