// What would fit where a step with dynamic memory does not: computed by compiling and simulating it, never guessed.
#pragma once

#include <string>

#include "engine/compile/pipeline.h"

namespace snug {

// For `compiled`, whose step will run out of memory, as a simulation has it. What is free on the device; and where it
// is options.memory.memory_limit that is not kept, a line for each way: the most samples in a step, another strategy
// for all of them, another limit.
std::string WhatFits(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                     const CompileOptions& options, const Compiled& compiled);

}  // namespace snug
