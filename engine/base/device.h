// Says where tasks run and bytes lie, and in which queue. These are plain values: whether such a device exists is known
// only to whoever opens it.
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

// A queue of one device: a CPU worker's, or the number of a cudaStream_t. What is given to one stream runs in sequence.
struct Stream {
  Device device;
  int32_t index = 0;

  friend bool operator==(Stream a, Stream b) { return a.device == b.device && a.index == b.index; }
};

}  // namespace snug::core
