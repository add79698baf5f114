// How fast oneDNN can be: the time of one call in the best of the layouts it may be given.
#pragma once

#include "bench/library_call.h"

namespace snug::core::bench {

// The median of several runs on data that is in memory already; the best over channels-last (row-major for matrices)
// and whatever layout the library asks for. Ends the program where the library fails.
double BestSeconds(const LibraryCall& call, int threads);

// Bytes read plus bytes written per second by a copy too large for any cache: the best of several.
double CopyBandwidth(int threads);

}  // namespace snug::core::bench
