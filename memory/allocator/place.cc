#include "memory/allocator/place.h"

#include <absl/strings/str_cat.h>

namespace snug::core::memory {

std::string ToString(const Place& place) {
  switch (place.kind) {
    case PlaceKind::kCpu:
      return "cpu";
    case PlaceKind::kPinned:
      return "pinned";
    case PlaceKind::kCuda:
      break;
  }
  return absl::StrCat("cuda:", place.device);
}

}  // namespace snug::core::memory
