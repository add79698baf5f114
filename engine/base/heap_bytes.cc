#include "engine/base/heap_bytes.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace snug::core {

int64_t HeapBytes() {
#if defined(__GLIBC__)
  const struct mallinfo2 books = mallinfo2();
  return static_cast<int64_t>(books.arena + books.hblkhd);
#else
  return 0;
#endif
}

}  // namespace snug::core
