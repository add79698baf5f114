#include "engine/run/check/fault_catcher.h"

#include <csetjmp>

#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h>
#endif

namespace snug::core {
namespace {

// The state of the call that is under way on this thread.
struct Frame {
  bool active = false;
  Fault fault;
  sigjmp_buf back;
};
thread_local Frame frame;

struct sigaction* g_old_segv = nullptr;  // what the one catcher that exists has replaced
struct sigaction* g_old_bus = nullptr;

bool IsWrite([[maybe_unused]] void* context) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;  // in the error code of a page fault
  return (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0;
#else
  return false;
#endif
}

void Handle(int signal, siginfo_t* info, void* context) {
  if (!frame.active) {  // not ours: it will happen again and reach the handler that was there before
    sigaction(signal, signal == SIGSEGV ? g_old_segv : g_old_bus, nullptr);
    return;
  }
  frame.fault = {static_cast<const std::byte*>(info->si_addr), IsWrite(context)};
  siglongjmp(frame.back, 1);
}

}  // namespace

FaultCatcher::FaultCatcher() {
  g_old_segv = &old_segv_;
  g_old_bus = &old_bus_;
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &old_segv_);
  sigaction(SIGBUS, &action, &old_bus_);
}

FaultCatcher::~FaultCatcher() {
  sigaction(SIGSEGV, &old_segv_, nullptr);
  sigaction(SIGBUS, &old_bus_, nullptr);
  g_old_segv = g_old_bus = nullptr;
}

std::optional<Fault> FaultCatcher::Call(void (*body)(void*), void* argument) {
  if (sigsetjmp(frame.back, /*savemask=*/1) != 0) {
    frame.active = false;
    return frame.fault;
  }
  frame.active = true;
  body(argument);
  frame.active = false;
  return std::nullopt;
}

}  // namespace snug::core
