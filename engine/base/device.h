// Says where tasks run and bytes lie. It is a plain value: whether such a device exists is known only to whoever opens
// it.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug::core {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int16_t index = 0;

  std::string ToString() const;  // "cpu:0"
  // Every value begins at a multiple of this: a cache line for the processor, and what CUDA's libraries expect on a
  // device.
  int64_t alignment() const { return kind == Kind::kCpu ? 64 : 256; }
  friend bool operator==(Device a, Device b) { return a.kind == b.kind && a.index == b.index; }
};

// Accepts "cpu", "cuda" or "cuda:N". It does not check that there is such a device.
absl::StatusOr<Device> ParseDevice(absl::string_view text);

}  // namespace snug::core
