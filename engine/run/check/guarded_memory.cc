#include "engine/run/check/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csetjmp>
#include <map>

#include "engine/base/status.h"

#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h>
#endif

namespace snug::core {
namespace {

void SetRights(std::byte* begin, std::byte* end, GuardedMemory::Rights rights) {
  if (begin == end) return;
  constexpr int kFlags[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
  SNUG_CHECK(mprotect(begin, static_cast<size_t>(end - begin), kFlags[static_cast<size_t>(rights)]) == 0);
}

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

std::byte FillingAt(Filling filling, const std::byte* at) {
  constexpr uint8_t kBytes[2][4] = {{0xD7, 0xFF, 0xFB, 0xFF}, {0x29, 0x3F, 0x13, 0x40}};
  return std::byte{kBytes[static_cast<size_t>(filling)][reinterpret_cast<uintptr_t>(at) & 3]};
}

void FillWith(Filling filling, std::byte* begin, std::byte* end) {
  for (std::byte* at = begin; at < end; ++at) *at = FillingAt(filling, at);
}

const std::byte* FindChange(Filling filling, const std::byte* begin, const std::byte* end) {
  while (begin < end && *begin == FillingAt(filling, begin)) ++begin;
  return begin;
}

GuardedMemory::GuardedMemory(const Executable& executable, const ArenaBytes& arenas) {
  const MemoryPlan& plan = executable.memory;
  AddBlocks(Arena::kState, plan.state_problem, plan.state_plan, arenas.state);
  AddBlocks(Arena::kStep, plan.step.problem, plan.step.placement.plan, arenas.step);
  // An access to a part of a buffer names all of it, rounded up to its alignment. Where the bytes end that kernels may
  // touch is known by the types of values.
  const auto reach = [this](const Slot& slot, int64_t bytes) {
    const bool ours = slot.arena == Arena::kState || slot.arena == Arena::kStep;
    if (!ours || slot.offset < 0 || bytes == 0) return;
    const Region region = {static_cast<int32_t>(slot.arena), slot.offset, slot.offset + bytes};
    GuardedBlock& block = blocks_[BlockOf(region)];
    block.data_end = std::max(block.data_end, arenas_[static_cast<size_t>(slot.arena)].begin + region.end);
  };
  for (const Step& step : executable.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) reach(step.inputs[i], step.types.inputs[i].size_bytes());
    for (size_t i = 0; i < step.outputs.size(); ++i) reach(step.outputs[i], step.types.outputs[i].size_bytes());
    for (const Access& access : step.accesses) {
      const Region& region = access.region;
      if (region.arena != static_cast<int32_t>(step.workspace.arena) || region.begin != step.workspace.offset) continue;
      reach(step.workspace, region.end - region.begin);
    }
  }
  for (GuardedBlock& block : blocks_) {  // no Step touches these, but they may be fetched whole
    if (block.data_end == block.data) block.data_end = block.end;
  }
}

void GuardedMemory::AddBlocks(Arena arena, const memory::Problem& problem, const memory::Plan& plan, std::byte* bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  std::map<int64_t, GuardedBlock> by_offset;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const int64_t offset = plan.offsets[i], size = problem.buffers[i].size_bytes;
    if (size == 0) continue;
    GuardedBlock& block = by_offset[offset];
    block.arena = arena;
    block.buffers.push_back(static_cast<int32_t>(i));
    block.pages = bytes + offset / page * page;
    block.data = block.data_end = bytes + offset;
    block.end = std::max(block.end, bytes + memory::AlignUp(offset + size, page));
  }
  const size_t first = blocks_.size();
  for (auto& [offset, block] : by_offset) blocks_.push_back(std::move(block));
  arenas_[static_cast<size_t>(arena)] = {bytes, plan.arena_bytes, first, blocks_.size()};
}

size_t GuardedMemory::BlockOf(const Region& region) const {
  const bool part = region.arena == static_cast<int32_t>(Arena::kParts);
  const Range& arena = arenas_[part ? static_cast<size_t>(Arena::kStep) : static_cast<size_t>(region.arena)];
  const int64_t block = BlockAround(arena.begin + region.begin);
  SNUG_CHECK(block >= 0);
  return static_cast<size_t>(block);
}

int64_t GuardedMemory::BlockAround(const std::byte* address) const {
  for (const Range& arena : arenas_) {
    if (arena.bytes == 0 || address < arena.begin || address >= arena.begin + arena.bytes) continue;
    if (arena.first_block == arena.last_block) return -1;
    // The address lies between two blocks or in the earlier one; takes the closest.
    const auto first = blocks_.begin() + static_cast<std::ptrdiff_t>(arena.first_block);
    const auto last = blocks_.begin() + static_cast<std::ptrdiff_t>(arena.last_block);
    auto block = std::upper_bound(first, last, address,
                                  [](const std::byte* at, const GuardedBlock& other) { return at < other.pages; });
    const bool before_is_closer =
        block == last || (block != first && address - (block - 1)->end < block->pages - address);
    if (before_is_closer) --block;
    return block - blocks_.begin();
  }
  return -1;
}

void GuardedMemory::Protect(const GuardedBlock& block, Rights rights) { SetRights(block.pages, block.end, rights); }

void GuardedMemory::ProtectAll(Rights rights) const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const Range& arena : arenas_) {
    if (arena.bytes > 0) SetRights(arena.begin, arena.begin + memory::AlignUp(arena.bytes, page), rights);
  }
}

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
