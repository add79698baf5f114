// Finds what would fit where a step with dynamic memory does not. It compiles and simulates, and never guesses.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/device.h"
#include "engine/compile/pipeline.h"

namespace snug::core {

// Returns how much memory a device has left at the moment; below 0 when it is unknown, for instance because there is no
// such device.
int64_t FreeBytesOf(Device device);

// `compiled` has a step that will run out of memory according to a simulation. Returns what is free on the device and,
// if the limit is options.memory.memory_limit, a line for each remedy: the most samples in a step, another strategy,
// another limit.
std::string WhatFits(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                     const CompileOptions& options, const Compiled& compiled);

}  // namespace snug::core
