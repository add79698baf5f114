#include "engine/base/signal_stack.h"

#include <sys/mman.h>

#include <csignal>
#include <cstddef>

namespace snug::core {
namespace {

// With AMX the system puts more than 11 KB there; the rest is for what handlers do.
constexpr size_t kBytes = 64 << 10;

class SignalStack {
 public:
  SignalStack() {
    stack_t now = {};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    void* const bytes = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return;
    bytes_ = bytes;
    const stack_t ours = {.ss_sp = bytes, .ss_flags = 0, .ss_size = kBytes};
    if (sigaltstack(&ours, nullptr) != 0) Free();
  }
  ~SignalStack() {
    stack_t now = {};
    if (bytes_ == nullptr) return;
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == bytes_) {
      const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
      if (sigaltstack(&none, nullptr) != 0) return;  // a handler is running on it
    }
    Free();
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  void Free() {
    munmap(bytes_, kBytes);
    bytes_ = nullptr;
  }

  void* bytes_ = nullptr;  // null: the thread had one, or there is no memory for it
};

}  // namespace

void NeedSignalStack() { static thread_local const SignalStack stack; }

}  // namespace snug::core
