// Where executions of the model allocate: operator new of this program leads here while one runs. See model.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug::core::model {

// Part 0 is for what is made before the threads run, part i + 1 for thread i. kOutside: the usual heap.
inline constexpr int kOutside = -1;
inline constexpr int kMaxParts = 8;
inline int allocating_part = kOutside;

// What operator new and delete do.
void* Allocate(size_t bytes, size_t alignment);
void Free(void* p);

// All bytes are zero again. Nothing may be in use.
void ResetMemory();
uint64_t HashBytes(uint64_t hash, const char* begin, const char* end);
// Of all that is allocated in the parts.
uint64_t HashMemory(uint64_t hash);

// For as long as it lives, allocations go to the usual heap.
class OutsideMemory {
 public:
  OutsideMemory() : before_(allocating_part) { allocating_part = kOutside; }
  ~OutsideMemory() { allocating_part = before_; }
  OutsideMemory(const OutsideMemory&) = delete;
  OutsideMemory& operator=(const OutsideMemory&) = delete;

 private:
  const int before_;
};

}  // namespace snug::core::model
