// How long OpenMP's threads wait awake.
#pragma once

namespace snug::cli {

// libgomp's idle threads spin for milliseconds before they sleep, and on a machine that has other work too they keep
// their processor from those that they wait for: steps of small networks take several times as long then. A shorter
// time costs an idle machine nothing (docs/benchmarks.md). As libgomp looks for it before main() begins, this starts
// the program anew, with GOMP_SPINCOUNT set; it returns where that, or OMP_WAIT_POLICY, is set already.
void SpinBriefly(char** argv);

}  // namespace snug::cli
