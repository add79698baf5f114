// Switches from one stack to another. ucontext needs two system calls each time; on x86-64 a few instructions do it,
// which makes blocks of hundreds of threads with many barriers bearable.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
// Saves on the stack what a function must keep, and the stack in *from; goes on where `to` was saved.
extern "C" void SnugSwitchStack(void** from, void* to);
#else
#include <ucontext.h>
#endif

namespace snug::core::cuda::emulation {

#if defined(__x86_64__)

class Execution {
 public:
  Execution() = default;  // stands for the stack that runs
  // Stands for a stack of its own, on which main starts. main never returns.
  Execution(char* stack, size_t bytes, void (*main)()) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded down
    auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15});
    *--top = nullptr;  // main would return to this
    *--top = reinterpret_cast<void*>(main);
    for (int i = 0; i < 6; ++i) *--top = nullptr;  // six registers
    saved_ = top;
  }
  void SwitchTo(Execution& other) { SnugSwitchStack(&saved_, other.saved_); }

 private:
  void* saved_ = nullptr;
};

#else

class Execution {
 public:
  Execution() = default;
  Execution(char* stack, size_t bytes, void (*main)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    makecontext(&context_, main, 0);
  }
  void SwitchTo(Execution& other) { swapcontext(&context_, &other.context_); }

 private:
  ucontext_t context_;
};

#endif

}  // namespace snug::core::cuda::emulation
