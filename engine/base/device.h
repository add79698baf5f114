// Where tasks run and bytes lie: a plain value. Which devices there are is known to whoever opens them.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };
  Kind kind = Kind::kCpu;
  int16_t index = 0;

  std::string ToString() const;  // "cpu:0"
  // Of every value's first byte: a cache line of the processor; what CUDA's libraries take for granted.
  int64_t alignment() const { return kind == Kind::kCpu ? 64 : 256; }
  friend bool operator==(Device a, Device b) { return a.kind == b.kind && a.index == b.index; }
};

// "cpu", "cuda" or "cuda:N": whether there is such a device is another question.
absl::StatusOr<Device> ParseDevice(absl::string_view text);

}  // namespace snug
