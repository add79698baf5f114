// Ctrl-C and SIGTERM: the first asks the run to stop at the next step, the second ends the process at once.
#pragma once

namespace snug::cli {

void CatchStopSignals();
bool StopRequested();

}  // namespace snug::cli
