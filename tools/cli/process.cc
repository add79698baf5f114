#include "tools/cli/process.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace snug::core::cli {
namespace {

constexpr char kTurns[] = "10000";  // some ten microseconds, longer than it takes to hand over the next op

// The one global of the program, because a signal handler may touch nothing else.
volatile std::sig_atomic_t stop_requested = 0;

void OnStopSignal(int signal) {
  if (stop_requested != 0) _exit(128 + signal);
  stop_requested = 1;
}

}  // namespace

void SpinBriefly(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv("GOMP_SPINCOUNT", kTurns, 0) != 0) return;
  execv(program.c_str(), argv);  // if this fails the program just goes on, slower under load
}

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // engine/base/signal_stack.h
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool StopRequested() { return stop_requested != 0; }

}  // namespace snug::core::cli
