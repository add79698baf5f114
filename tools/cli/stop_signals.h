// Handles Ctrl-C and SIGTERM: the first one asks the run to stop at the next step, the second one ends the process.
#pragma once

namespace snug::core::cli {

void CatchStopSignals();
bool StopRequested();

}  // namespace snug::core::cli
