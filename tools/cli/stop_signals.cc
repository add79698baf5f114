#include "tools/cli/stop_signals.h"

#include <unistd.h>

#include <csignal>

namespace snug::core::cli {
namespace {

// The one global of the program, because a signal handler may touch nothing else.
volatile std::sig_atomic_t stop_requested = 0;

void OnStopSignal(int signal) {
  if (stop_requested != 0) _exit(128 + signal);
  stop_requested = 1;
}

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool StopRequested() { return stop_requested != 0; }

}  // namespace snug::core::cli
