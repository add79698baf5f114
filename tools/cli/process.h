// How the command behaves as a process: how long OpenMP's threads wait awake, and what signals do.
#pragma once

#include <string>

namespace snug::core::cli {

// libgomp's idle threads spin for milliseconds before they sleep. On a machine that also has other work they keep the
// processor from the threads that they wait for, and steps of small networks take several times as long. A shorter time
// costs an idle machine nothing (docs/benchmarks/engine.md). libgomp reads its settings before main() begins, so this
// sets GOMP_SPINCOUNT and starts the program anew in the same process, free to run on all processors again that
// OpenMP's threads have. docs/environment.md tells users. It does nothing where GOMP_SPINCOUNT or OMP_WAIT_POLICY is
// set already.
void SpinBriefly(char** argv);

// A file that grows beyond a limit (ulimit -f) is an error of its writing, as a full disk is, and does not end the
// program.
void TakeLimitsAsErrors();

// From here on a signal asks the run to stop at the next step: Ctrl-C and SIGTERM, of which a second one ends the
// process; SIGHUP, which comes when a terminal is closed, unless it was ignored from the beginning, as nohup does; and
// SIGPIPE, which comes when something is written that nobody reads any more. These two may come several times, and
// never end the process.
void CatchStopSignals();
bool StopRequested();
// From here on signals do again what they did before. What was asked for stays asked for.
void ReleaseStopSignals();

// Why the run is to stop, for users; empty for Ctrl-C and SIGTERM, which they have sent themselves.
std::string StopReason();

// Writes what is still to be written on standard output to nowhere if whoever read it is gone: a pipe without a reader,
// a terminal that was closed. So that does not count as a failure again.
void LetGoOfLostOutput();

}  // namespace snug::core::cli
