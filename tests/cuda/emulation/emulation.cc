#include "tests/cuda/emulation/emulation.h"

#include <map>
#include <vector>

#include "engine/base/status.h"
#include "tests/cuda/emulation/stack_switch.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
asm(R"(
.text
.globl SnugSwitchStack
.type SnugSwitchStack, @function
SnugSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size SnugSwitchStack, .-SnugSwitchStack
)");
#endif

namespace snug::core::cuda::emulation {
namespace {

std::map<const void*, Binder>& Binders() {
  static auto* const binders = new std::map<const void*, Binder>;
  return *binders;
}

// A stack as AddressSanitizer has to know it before a switch.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
};

#if defined(__SANITIZE_ADDRESS__)
void BeforeSwitch(void** save, const Stack& to) { __sanitizer_start_switch_fiber(save, to.bottom, to.size); }
void AfterSwitch(void* saved, Stack* from) { __sanitizer_finish_switch_fiber(saved, &from->bottom, &from->size); }
#else
void BeforeSwitch(void**, const Stack&) {}
void AfterSwitch(void*, Stack*) {}
#endif

// One thread of a block. Its fiber outlives the block and serves the next ones.
struct Fiber {
  static constexpr size_t kStackBytes = 256 << 10;

  explicit Fiber(void (*main)())  // a stack costs no memory where it is not touched
      : bytes(new char[kStackBytes]), stack{bytes.get(), kStackBytes}, execution(bytes.get(), kStackBytes, main) {}

  std::unique_ptr<char[]> bytes;
  Stack stack;
  Execution execution;
  void* saved = nullptr;
  bool done = true;
};

class BlockRunner {
 public:
  static BlockRunner& Get() {
    static auto* const runner = new BlockRunner;
    return *runner;
  }

  void Run(const Call& call, unsigned threads) {
    call_ = &call;
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>(Main));
    // The first thread shows whether the kernel has a barrier.
    fibers_[0]->done = false;
    Resume(0);
    if (fibers_[0]->done) {
      for (unsigned i = 1; i < threads; ++i) {
        threadIdx.x = i;
        call();
      }
      return;
    }
    for (unsigned i = 1; i < threads; ++i) {
      fibers_[i]->done = false;
      Resume(i);
    }
    for (bool backwards = true;; backwards = !backwards) {
      for (unsigned i = 1; i < threads; ++i) {
        SNUG_CHECK_MSG(fibers_[i]->done == fibers_[0]->done, "some threads of a block wait, others have returned");
      }
      if (fibers_[0]->done) return;
      for (unsigned i = 0; i < threads; ++i) Resume(backwards ? threads - 1 - i : i);
    }
  }

  void Wait() {
    SNUG_CHECK_MSG(current_ != nullptr, "a thread waits for a barrier that the block's first thread did not come to");
    Leave(*current_);
  }

 private:
  static void Main() {
    BlockRunner& runner = Get();
    Fiber& self = *runner.current_;
    AfterSwitch(nullptr, &runner.main_stack_);
    for (;;) {
      (*runner.call_)();
      self.done = true;
      runner.Leave(self);
    }
  }

  void Resume(unsigned i) {
    Fiber& fiber = *fibers_[i];
    threadIdx.x = i;
    current_ = &fiber;
    void* saved = nullptr;
    Stack left;
    BeforeSwitch(&saved, fiber.stack);
    main_.SwitchTo(fiber.execution);
    AfterSwitch(saved, &left);
    current_ = nullptr;
  }

  void Leave(Fiber& fiber) {
    BeforeSwitch(&fiber.saved, main_stack_);
    fiber.execution.SwitchTo(main_);
    AfterSwitch(fiber.saved, &main_stack_);
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;  // null: the main stack runs
  const Call* call_ = nullptr;
  Execution main_;
  Stack main_stack_;
};

}  // namespace

void Know(const void* kernel, Binder binder) { Binders()[kernel] = binder; }

Call RunGrid(Call thread, const unsigned (&grid)[3], unsigned threads) {
  return [call = std::move(thread), grid = Index{grid[0], grid[1], grid[2]}, threads] {
    gridDim = grid;
    blockDim = {threads, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
      for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
        for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) BlockRunner::Get().Run(call, threads);
      }
    }
  };
}

Call BindLaunch(const void* kernel, const unsigned (&grid)[3], unsigned threads, void** arguments) {
  const auto found = Binders().find(kernel);
  SNUG_CHECK_MSG(found != Binders().end(), "a kernel that is not emulated");
  return RunGrid(found->second(kernel, arguments), grid, threads);
}

void Barrier() { BlockRunner::Get().Wait(); }

}  // namespace snug::core::cuda::emulation
