// The memory of a padded plan (PadPlan), as blocks of pages that can be locked, or opened for reading or writing;
// and what catches accesses to locked ones.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
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

// Turns an access to memory that must not be touched into a value, instead of the end of the program.
//
// A fault leaves the call as longjmp would: nothing in it is destroyed, so locks that it held stay locked, and memory
// that it took is lost. So this is for debugging, shortly before a run stops. It only catches faults of the calling
// thread; those of other threads go to whoever handled them before.
struct Fault {
  const std::byte* address = nullptr;
  bool write = false;  // valid where the processor tells
};

// Handles the signals of faults for as long as it lives. A program may only have one at a time.
class FaultCatcher {
 public:
  FaultCatcher();
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

  // Calls body() and returns the fault that ended it, if there was one.
  template <class Body>
  std::optional<Fault> Call(Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    return Call([](void* b) { (*static_cast<Plain*>(b))(); },
                const_cast<void*>(static_cast<const void*>(std::addressof(body))));
  }

 private:
  static std::optional<Fault> Call(void (*body)(void*), void* argument);

  struct sigaction old_segv_, old_bus_;
};

}  // namespace snug::core
