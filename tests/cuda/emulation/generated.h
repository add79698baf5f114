// Runs kernels that are generated as source on the processor. While the tests run, g++ makes a shared library of each
// source, once, and a launch calls the kernel for each thread of each block, as with the kernels of emulation.h.
#pragma once

#include <functional>
#include <string>

namespace snug::core::cuda::emulation {

// Returns what runs the whole grid of a kernel whose one argument is a struct. The argument is copied now.
std::function<void()> BindSource(const std::string& source, const std::string& entry, const unsigned (&grid)[3],
                                 unsigned threads, void** arguments);

}  // namespace snug::core::cuda::emulation
