// How much memory a device has left at the moment.
#pragma once

#include <cstdint>

#include "engine/base/device.h"

namespace snug {

// < 0: nobody knows, as where there is no such device.
int64_t FreeBytesOf(Device device);

}  // namespace snug
