#include "memory/available_bytes.h"

#include <fstream>
#include <string>

namespace snug::core::memory {

int64_t AvailableBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string unit; meminfo >> key >> kib && std::getline(meminfo, unit);) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return -1;
}

}  // namespace snug::core::memory
