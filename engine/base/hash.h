// FNV-1a, 64 bits: a hash of names that is the same on every machine and in every release (random streams depend on
// it).
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>

namespace snug::core {

inline uint64_t HashName(absl::string_view name) {
  uint64_t h = 0xcbf29ce484222325U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

}  // namespace snug::core
