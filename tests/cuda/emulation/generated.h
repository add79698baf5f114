// Kernels that are generated as source, on the processor: g++ makes a shared library of each source while the tests
// run, once, and a launch calls the kernel for each thread of each block, as those of emulation.h.
#pragma once

#include <functional>
#include <string>

namespace snug::cuda::emulation {

// What runs the whole grid of a kernel whose one argument is a struct. It is copied now.
std::function<void()> BindSource(const std::string& source, const std::string& entry, const unsigned (&grid)[3],
                                 unsigned threads, void** arguments);

}  // namespace snug::cuda::emulation
