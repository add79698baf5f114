// A queue of one device: a CPU worker's, or the number of a cudaStream_t. What is given to one stream runs in sequence.
#pragma once

#include <cstdint>

#include "engine/base/device.h"

namespace snug::core {

struct Stream {
  Device device;
  int32_t index = 0;

  friend bool operator==(Stream a, Stream b) { return a.device == b.device && a.index == b.index; }
};

}  // namespace snug::core
