#include "engine/base/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

namespace snug::core {

int AvailableProcessors() {
#ifdef _OPENMP
  return std::max(1, omp_get_num_procs());  // it knows them where it has bound this thread to a single one, too
#else
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
#endif
}

int64_t HeapBytes() {
#if defined(__GLIBC__)
  const struct mallinfo2 books = mallinfo2();
  return static_cast<int64_t>(books.arena + books.hblkhd);
#else
  return 0;
#endif
}

int64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string unit; meminfo >> key >> kib && std::getline(meminfo, unit);) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return -1;
}

}  // namespace snug::core
