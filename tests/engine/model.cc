#include "tests/engine/model.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "tests/engine/model_memory.h"

namespace snug::core::model {
namespace {

constexpr size_t kStackBytes = size_t{32} << 10;
constexpr int kNobody = -1, kSeveral = -2;

}  // namespace

Model::Result Model::Explore(const std::function<void(Model&)>& program) {
  Model model;
  while (true) {
    model.RunOnce(program);
    if (!model.failure_.empty()) break;
    if (model.found_shared_) {
      model.found_shared_ = false;
      model.seen_.clear();
      model.path_.clear();
      continue;
    }
    // The next path: the last choice that has another option takes it.
    while (!model.path_.empty() && model.path_.back().taken + 1 == model.path_.back().options.size()) {
      model.path_.pop_back();
    }
    if (model.path_.empty()) break;
    ++model.path_.back().taken;
  }
  return {model.executions_, static_cast<int64_t>(model.seen_.size()), model.failure_};
}

void Model::Spawn(std::function<void()> body) {
  const OutsideMemory outside;
  auto fiber = std::make_unique<Fiber>();
  fiber->body = std::move(body);
  if (stacks_.size() == fibers_.size()) stacks_.push_back(std::make_unique<char[]>(kStackBytes));
  char* stack = stacks_[fibers_.size()].get();
  std::memset(stack, 0, kStackBytes);  // what lies there is part of the state
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, &Model::Main, 0);
  fiber->stack_low = stack + kStackBytes;
  fibers_.push_back(std::move(fiber));
  SNUG_CHECK(fibers_.size() < static_cast<size_t>(kMaxParts));
}

void Model::Main() {
  current->Thread().body();
  current->Thread().done = true;
  current->Switch();  // does not come back
}

void Model::RunOnce(const std::function<void(Model&)>& program) {
  ResetMemory();
  current = this;
  depth_ = 0;
  known_ = false;
  next_location_ = 0;
  ++executions_;
  allocating_part = 0;
  program(*this);
  Switch();  // comes back when no thread can go on, or need not
  running_ = -1;
  current = nullptr;
  allocating_part = kOutside;
  fibers_.clear();
}

uint64_t Model::StateHash() const {
  uint64_t hash = HashMemory(static_cast<uint64_t>(running_));
  for (size_t i = 0; i < fibers_.size(); ++i) {
    const Fiber& fiber = *fibers_[i];
    const char* end = stacks_[i].get() + kStackBytes;
    hash = HashBytes(hash + (fiber.done ? 1 : 0) + (fiber.asleep ? 2 : 0), fiber.done ? end : fiber.stack_low, end);
  }
  return hash;
}

// One option: no choice. Otherwise the path's, as far as it is given; then the first option, and the others later
// unless the state is known.
int Model::Choose(const std::vector<int>& options, bool at_switch) {
  if (options.size() == 1) return options[0];
  if (depth_ == path_.size()) {
    if (at_switch && !seen_.insert(StateHash()).second) {
      known_ = true;
      return options[0];
    }
    path_.push_back({options, 0});
  }
  const Choice& choice = path_[depth_++];
  return choice.options[choice.taken];
}

// A frame of its own, in which nothing lies but the registers, which belong to the state.
[[gnu::noinline]] void Model::Switch() {
  __builtin_unwind_init();
  SwitchAway();
}

[[gnu::noinline]] void Model::SwitchAway() {
  const int before = running_;
  if (before >= 0) Thread().stack_low = static_cast<const char*>(__builtin_frame_address(0));
  {
    const OutsideMemory outside;
    std::vector<int> options;
    bool all_done = true;
    const auto consider = [&](int i) {
      const Fiber& fiber = *fibers_[static_cast<size_t>(i)];
      all_done = all_done && fiber.done;
      if (!fiber.done && !fiber.asleep && (fiber.wants == nullptr || !fiber.wants->locked)) options.push_back(i);
    };
    // Going on with the same thread comes first, so that most steps of a path need no switch.
    if (before >= 0) consider(before);
    for (int i = 0; i < static_cast<int>(fibers_.size()); ++i) {
      if (i != before) consider(i);
    }
    if (!all_done && options.empty() && failure_.empty()) failure_ = "all threads wait for each other; " + Path();
    running_ = options.empty() || !failure_.empty() ? -1 : Choose(options, /*at_switch=*/true);
    if (known_) running_ = -1;  // no need to go on: all that was allocated goes with the arena
  }
  if (running_ == before) return;
  allocating_part = running_ + 1;
  swapcontext(before < 0 ? &outside_ : &fibers_[static_cast<size_t>(before)]->context,
              running_ < 0 ? &outside_ : &Thread().context);
}

std::string Model::Path() const {
  std::string text = "threads chosen:";
  for (size_t i = 0; i < depth_; ++i) text += " " + std::to_string(path_[i].options[path_[i].taken]);
  return text;
}

void Model::Fail(const std::string& what) {
  {
    const OutsideMemory outside;
    failure_ = what + "; " + Path();
  }
  Switch();
}

bool Model::IsShared(const Location& location) {
  const OutsideMemory outside;
  const auto id = static_cast<size_t>(location.id);
  if (id >= users_.size()) users_.resize(id + 1, kNobody);
  int& user = users_[id];
  if (user == kNobody) user = running_;
  if (user != running_ && user != kSeveral) {
    user = kSeveral;
    found_shared_ = true;
  }
  return user == kSeveral;
}

void Model::Await(Waitable& gate) {
  Thread().wants = &gate;
  if (IsShared(gate.location) || gate.locked || Thread().asleep) Switch();
  Thread().wants = nullptr;
}

void Model::Lock(Waitable& mutex) {
  Await(mutex);
  SNUG_CHECK(!mutex.locked);
  mutex.locked = true;
}

void Model::Sleep(const Location& location, std::vector<int>& sleepers, Waitable& mutex) {
  SchedulingPoint(location);
  sleepers.push_back(running_);
  std::sort(sleepers.begin(), sleepers.end());  // who came first does not matter: any may be woken
  Unlock(mutex);
  Thread().asleep = true;
  Lock(mutex);
}

void Model::WakeOne(std::vector<int>& sleepers) {
  if (sleepers.empty()) return;
  int who;
  {
    const OutsideMemory outside;
    who = Choose(sleepers, /*at_switch=*/false);
  }
  std::erase(sleepers, who);
  fibers_[static_cast<size_t>(who)]->asleep = false;
}

void Model::WakeAll(std::vector<int>& sleepers) {
  for (const int who : sleepers) fibers_[static_cast<size_t>(who)]->asleep = false;
  sleepers.clear();
}

}  // namespace snug::core::model
