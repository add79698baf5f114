#include "tools/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

namespace snug::core::cli {
namespace {

constexpr char kTurns[] = "10000";  // some ten microseconds, longer than it takes to hand over the next op

// The globals of the program, because a signal handler may touch nothing else: the signals that have come.
volatile std::sig_atomic_t asked_to_stop = 0;  // by Ctrl-C or SIGTERM
volatile std::sig_atomic_t lost_reader = 0;    // SIGHUP or SIGPIPE, whichever came first

// Which signals are caught, and what each did before.
constexpr int kCaught[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
struct sigaction before_caught[std::size(kCaught)];

void OnStopSignal(int signal) {
  if (asked_to_stop != 0) _exit(128 + signal);
  asked_to_stop = signal;
}

// A terminal that closes may send several: one from the system, one from its shell. More of them ask for nothing more.
void OnLostReader(int signal) {
  if (lost_reader == 0) lost_reader = signal;
}

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Where OpenMP is told to bind threads, it has bound this one to its place by now. A program that is executed would
// take that place for all there is, and run all its threads there: so this thread may go to all places again.
void LeavePlace() {
#ifdef _OPENMP
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> processors(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, processors.data());
    for (const int processor : processors) CPU_SET(processor, &all);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof(all), &all);
#endif
}

}  // namespace

void SpinBriefly(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv("GOMP_SPINCOUNT", kTurns, 0) != 0) return;
  LeavePlace();
  execv(program.c_str(), argv);  // if this fails the program just goes on, slower under load
}

void TakeLimitsAsErrors() { std::signal(SIGXFSZ, SIG_IGN); }

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // engine/base/signal_stack.h
  sigaction(SIGINT, &action, &before_caught[0]);
  sigaction(SIGTERM, &action, &before_caught[1]);
  action.sa_handler = OnLostReader;
  sigaction(SIGHUP, nullptr, &before_caught[2]);
  if (!IsIgnored(SIGHUP)) sigaction(SIGHUP, &action, nullptr);
  sigaction(SIGPIPE, &action,
            &before_caught[3]);  // where it was ignored, too: what is written would be lost without a word
}

void ReleaseStopSignals() {
  for (size_t i = 0; i < std::size(kCaught); ++i) sigaction(kCaught[i], &before_caught[i], nullptr);
}

bool StopRequested() { return asked_to_stop != 0 || lost_reader != 0; }

std::string StopReason() {
  if (asked_to_stop != 0) return "";
  if (lost_reader == SIGHUP) return "SIGHUP came, as when a terminal is closed";
  if (lost_reader == SIGPIPE) return "SIGPIPE came: whoever read its output is gone";
  return "";
}

void LetGoOfLostOutput() {
  struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&output, 1, 0) <= 0 || (output.revents & (POLLERR | POLLHUP)) == 0) return;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
  std::fflush(stdout);
  std::clearerr(stdout);
}

}  // namespace snug::core::cli
