#include "tests/engine/model_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace snug::core::model {
namespace {

constexpr size_t kPartBytes = size_t{1} << 20;
constexpr size_t kAlignment = 64;  // the strictest that is asked for; each block has a line before it for its size

alignas(kAlignment) char arena[kMaxParts][kPartBytes];
size_t used[kMaxParts];

bool InArena(const void* p) { return p >= arena && p < arena + kMaxParts; }

void* AllocateInArena(size_t bytes) {
  const auto part = static_cast<size_t>(allocating_part);
  const size_t total = kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (used[part] + total > kPartBytes) std::abort();
  char* block = arena[part] + used[part];
  used[part] += total;
  std::memcpy(block, &total, sizeof(total));
  return block + kAlignment;
}

void FreeInArena(void* p) {  // never used again, and as if it had never been
  char* block = static_cast<char*>(p) - kAlignment;
  size_t total;
  std::memcpy(&total, block, sizeof(total));
  std::memset(block, 0, total);
}

}  // namespace

void ResetMemory() {
  for (int part = 0; part < kMaxParts; ++part) {
    std::memset(arena[part], 0, used[part]);
    used[part] = 0;
  }
}

uint64_t HashBytes(uint64_t hash, const char* begin, const char* end) {
  for (; begin + sizeof(uint64_t) <= end; begin += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, begin, sizeof(word));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t HashMemory(uint64_t hash) {
  for (int part = 0; part < kMaxParts; ++part) {
    hash = HashBytes(hash + used[part], arena[part], arena[part] + used[part]);
  }
  return hash;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (allocating_part != kOutside) return AllocateInArena(bytes);
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(std::max<size_t>(bytes, 1))
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}

void Free(void* p) {
  if (InArena(p)) {
    FreeInArena(p);
  } else {
    std::free(p);
  }
}

}  // namespace snug::core::model

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) { return snug::core::model::Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return snug::core::model::Allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept { snug::core::model::Free(p); }
void operator delete(void* p, size_t /*bytes*/) noexcept { snug::core::model::Free(p); }
void operator delete(void* p, std::align_val_t /*alignment*/) noexcept { snug::core::model::Free(p); }
void operator delete(void* p, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { snug::core::model::Free(p); }
#endif
