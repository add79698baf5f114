#include "tests/cuda/emulation/emulation.h"

#include <absl/strings/str_cat.h>

#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
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

std::map<const void*, Parameters>& Known() {
  static auto* const known = new std::map<const void*, Parameters>;
  return *known;
}

// The arguments of a launch.
class Arguments {
 public:
  Arguments(const Parameters& parameters, void** given) {
    size_t size = 0;
    for (size_t i = 0; i < parameters.count; ++i) {
      offsets_.push_back(size);
      size += (parameters.sizes[i] + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
    }
    bytes_.resize(size);
    for (size_t i = 0; i < parameters.count; ++i) {
      std::memcpy(bytes_.data() + offsets_[i], given[i], parameters.sizes[i]);
    }
  }
  std::vector<const void*> pointers() const {
    std::vector<const void*> pointers;
    for (const size_t offset : offsets_) pointers.push_back(bytes_.data() + offset);
    return pointers;
  }

 private:
  std::vector<size_t> offsets_;
  std::vector<std::byte> bytes_;  // operator new aligns them for every argument
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ >= kArgumentAlignment);
};

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
  enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kDone } state = State::kDone;
  const WarpCall* call = nullptr;  // what the thread waits for in its warp
};

// What a thread has asked to be copied and has not waited for.
class Copies {
 public:
  void Add(void* to, const void* from, int bytes, int read) {
    std::memset(to, 0xFF, static_cast<size_t>(bytes));
    open_.push_back({to, from, bytes, read});
  }
  void Commit() { groups_.push_back(std::move(open_)), open_.clear(); }
  void Wait(int left) {
    for (; groups_.size() > static_cast<size_t>(left); groups_.pop_front()) {
      for (const Copy& copy : groups_.front()) {
        std::memset(copy.to, 0, static_cast<size_t>(copy.bytes));
        if (copy.read > 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.read));
      }
    }
  }
  // Forgets empty groups, and says whether there are others.
  bool AnyLeft() {
    while (!groups_.empty() && groups_.front().empty()) groups_.pop_front();
    return !open_.empty() || !groups_.empty();
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    int bytes, read;
  };
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;
};

class BlockRunner {
 public:
  static BlockRunner& Get() {
    static auto* const runner = new BlockRunner;
    return *runner;
  }

  void Run(const Call& call, unsigned threads) {
    call_ = &call;
    threads_ = threads;
    if (copies_.size() < threads) copies_.resize(threads);
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>(Main));
    warps_waiting_.assign((threads + kWarpLanes - 1) / kWarpLanes, 0);
    // The first thread shows whether threads of the kernel wait for each other.
    fibers_[0]->state = Fiber::State::kReady;
    Resume(0);
    if (fibers_[0]->state == Fiber::State::kDone) {
      for (unsigned i = 1; i < threads; ++i) {
        threadIdx.x = i;
        call();
      }
    } else {
      for (unsigned i = 1; i < threads; ++i) fibers_[i]->state = Fiber::State::kReady;
      RunFibers();
    }
    for (unsigned i = 0; i < threads; ++i) {
      SNUG_CHECK_MSG(!copies_[i].AnyLeft(), "a thread has returned with copies that it has not waited for");
    }
  }

  void Barrier() {
    Fiber& self = Current();
    self.state = Fiber::State::kAtBarrier;
    Leave(self);
  }

  void Meet(const WarpCall& call) {
    SNUG_CHECK_MSG((call.mask >> (threadIdx.x % kWarpLanes) & 1) != 0,
                   absl::StrCat(call.name, ": thread ", threadIdx.x, " is not in its own mask"));
    Fiber& self = Current();
    self.call = &call;
    self.state = Fiber::State::kInWarp;
    FinishIfAllAreThere(call, threadIdx.x / kWarpLanes);  // then it may go on
    Leave(self);
  }

  Copies& copies() { return copies_[threadIdx.x]; }

 private:
  static void Main() {
    BlockRunner& runner = Get();
    Fiber& self = *runner.current_;
    AfterSwitch(nullptr, &runner.main_stack_);
    for (;;) {
      (*runner.call_)();
      self.state = Fiber::State::kDone;
      runner.Leave(self);
    }
  }

  void RunFibers() {
    for (bool backwards = backwards_first_ = !backwards_first_;; backwards = !backwards) {
      bool moved = false;
      for (unsigned n = 0; n < threads_; ++n) {
        const unsigned i = backwards ? threads_ - 1 - n : n;
        if (fibers_[i]->state != Fiber::State::kReady) continue;
        Resume(i);
        moved = true;
      }
      if (!moved && !OpenBarrier()) return;
    }
  }

  // Returns false where all threads are done.
  bool OpenBarrier() {
    unsigned waiting = 0;
    for (unsigned i = 0; i < threads_; ++i) {
      SNUG_CHECK_MSG(fibers_[i]->state != Fiber::State::kInWarp, WhyStuck(i));
      if (fibers_[i]->state == Fiber::State::kAtBarrier) ++waiting;
    }
    SNUG_CHECK_MSG(waiting == 0 || waiting == threads_, "some threads of a block wait, others have returned");
    for (unsigned i = 0; waiting > 0 && i < threads_; ++i) fibers_[i]->state = Fiber::State::kReady;
    return waiting > 0;
  }

  static bool MayMeet(const WarpCall& a, const WarpCall& b) {
    return a.finish == b.finish && a.mask == b.mask && (a.name == b.name || std::strcmp(a.name, b.name) == 0);
  }

  // Says which thread keeps a thread waiting in its warp.
  std::string WhyStuck(unsigned i) const {
    const WarpCall& call = *fibers_[i]->call;
    std::string what = absl::StrCat(call.name, ": thread ", i, " waits for thread ");
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      if ((call.mask >> lane & 1) == 0) continue;
      const unsigned other = i / kWarpLanes * kWarpLanes + lane;
      if (other >= threads_) return absl::StrCat(what, other, ", which the block does not have");
      const Fiber& fiber = *fibers_[other];
      if (fiber.state == Fiber::State::kDone) return absl::StrCat(what, other, ", which has returned");
      if (fiber.state == Fiber::State::kAtBarrier) return absl::StrCat(what, other, ", which waits for its block");
      if (!MayMeet(*fiber.call, call)) {
        return absl::StrCat(what, other, ", which waits in ", fiber.call->name, " with mask ", fiber.call->mask);
      }
    }
    return what;
  }

  void FinishIfAllAreThere(const WarpCall& call, unsigned warp) {
    const int awaited = std::popcount(call.mask);
    if (++warps_waiting_[warp] < awaited) return;  // most threads of a warp find that others are still to come
    const unsigned first = warp * kWarpLanes;
    const WarpCall* lanes[kWarpLanes] = {};
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      if ((call.mask >> lane & 1) == 0) continue;
      if (first + lane >= threads_) return;
      const Fiber& fiber = *fibers_[first + lane];
      if (fiber.state != Fiber::State::kInWarp || !MayMeet(*fiber.call, call)) return;
      lanes[lane] = fiber.call;
    }
    warps_waiting_[warp] -= awaited;
    call.finish(lanes);
    for (unsigned lane = 0; lane < kWarpLanes; ++lane) {
      if (lanes[lane] != nullptr) fibers_[first + lane]->state = Fiber::State::kReady;
    }
  }

  Fiber& Current() {
    SNUG_CHECK_MSG(current_ != nullptr, "a thread waits for others, which the block's first thread did not");
    return *current_;
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
  std::vector<Copies> copies_;      // by thread
  std::vector<int> warps_waiting_;  // by warp: how many threads wait for others of it
  unsigned threads_ = 0;            // in the block that runs
  bool backwards_first_ = false;    // changes from block to block
  Fiber* current_ = nullptr;        // null: the main stack runs
  const Call* call_ = nullptr;
  Execution main_;
  Stack main_stack_;
};

}  // namespace

void Know(const void* kernel, const Parameters& parameters) { Known()[kernel] = parameters; }

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
  const auto found = Known().find(kernel);
  SNUG_CHECK_MSG(found != Known().end(), "a kernel that is not emulated");
  const auto copied = std::make_shared<const Arguments>(found->second, arguments);
  return RunGrid(
      [kernel, call = found->second.call, copied, pointers = copied->pointers()] { call(kernel, pointers.data()); },
      grid, threads);
}

void Barrier() { BlockRunner::Get().Barrier(); }
void MeetWarp(const WarpCall& call) { BlockRunner::Get().Meet(call); }
void CopyLater(void* to, const void* from, int bytes, int read) {
  BlockRunner::Get().copies().Add(to, from, bytes, read);
}
void CommitCopies() { BlockRunner::Get().copies().Commit(); }
void WaitForCopies(int left) { BlockRunner::Get().copies().Wait(left); }

}  // namespace snug::core::cuda::emulation
