// Says where memory lies: in ordinary host memory, in host memory that never leaves RAM (pinned: devices copy from it
// directly), or on a CUDA device.
#pragma once

#include <compare>
#include <string>

namespace snug::core::memory {

enum class PlaceKind { kCpu, kPinned, kCuda };

struct Place {
  PlaceKind kind = PlaceKind::kCpu;
  int device = 0;  // always 0 for host memory

  static Place Cpu() { return {}; }
  static Place Pinned() { return {PlaceKind::kPinned, 0}; }
  static Place Cuda(int device) { return {PlaceKind::kCuda, device}; }

  bool is_host() const { return kind != PlaceKind::kCuda; }
  auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
};

std::string ToString(const Place& place);  // "cpu", "pinned", "cuda:1"

}  // namespace snug::core::memory
