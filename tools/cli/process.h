// How the command behaves as a process: how long OpenMP's threads wait awake, and what signals do.
#pragma once

namespace snug::core::cli {

// libgomp's idle threads spin for milliseconds before they sleep. On a machine that also has other work they keep the
// processor from the threads that they wait for, and steps of small networks take several times as long. A shorter time
// costs an idle machine nothing (docs/benchmarks.md). libgomp reads its settings before main() begins, so this sets
// GOMP_SPINCOUNT and starts the program anew in the same process. docs/environment.md tells users. It does nothing
// where GOMP_SPINCOUNT or OMP_WAIT_POLICY is set already.
void SpinBriefly(char** argv);

// Handles Ctrl-C and SIGTERM: the first one asks the run to stop at the next step, the second one ends the process.
void CatchStopSignals();
bool StopRequested();

}  // namespace snug::core::cli
