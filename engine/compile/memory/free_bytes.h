// Returns how much memory a device has left at the moment.
#pragma once

#include <cstdint>

#include "engine/base/device.h"

namespace snug::core {

// The result is below 0 when it is unknown, for instance because there is no such device.
int64_t FreeBytesOf(Device device);

}  // namespace snug::core
