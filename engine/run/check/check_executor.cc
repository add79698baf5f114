#include "engine/run/check/check_executor.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"

namespace snug::core {
namespace {

using Rights = GuardedMemory::Rights;

std::string Count(int64_t n, absl::string_view what) { return absl::StrCat(n, " ", what, n == 1 ? "" : "s"); }

// Returns `3 bytes past the end of` or `byte 7 of`, for an address in a block or in the guard pages next to it.
std::string Place(const GuardedBlock& block, const std::byte* address) {
  const int64_t at = address - block.data, size = block.data_end - block.data;
  if (at < 0) return absl::StrCat(Count(-at, "byte"), " before the begin of");
  if (at >= size) return absl::StrCat(Count(at - size + 1, "byte"), " past the end of");
  return absl::StrCat("byte ", at, " of");
}

std::string Size(const GuardedBlock& block) {
  return absl::StrCat(" (", Count(block.data_end - block.data, "byte"), ")");
}

}  // namespace

CheckExecutor::CheckExecutor(const Executable& executable, const ArenaBytes& arenas)
    : BoundExecutor(executable, arenas), memory_(executable, arenas), touches_(executable.steps.size()) {
  for (size_t i = 0; i < executable.steps.size(); ++i) {
    const Step& step = executable.steps[i];
    for (const Access& access : step.accesses) {
      if (access.region.begin == access.region.end) continue;
      const size_t block = memory_.BlockOf(access.region);
      auto touch =
          std::find_if(touches_[i].begin(), touches_[i].end(), [&](const Touch& t) { return t.block == block; });
      if (touch == touches_[i].end()) touch = touches_[i].insert(touch, {.block = block});
      touch->writes |= access.write;
      // A Step that writes a Variable usually also reads what was there. A Step that writes a part must keep the
      // others.
      touch->reads |= !access.write || memory_.blocks()[block].arena == Arena::kState ||
                      access.region.arena == static_cast<int32_t>(Arena::kParts);
      touch->workspace |= step.workspace.arena == Arena::kStep && step.workspace.offset == access.region.begin &&
                          access.region.arena == static_cast<int32_t>(Arena::kStep);
      touch->name = NameOf(i, memory_.blocks()[block], touch->writes);
    }
  }
}

std::string CheckExecutor::NameOf(size_t step, const GuardedBlock& block, bool writes) const {
  const MemoryPlan& plan = executable_.memory;
  if (block.arena == Arena::kState) {
    return absl::StrCat("Variable \"", plan.state_problem.buffers[static_cast<size_t>(block.buffers[0])].name, "\"");
  }
  for (const int32_t i : block.buffers) {
    const memory::Buffer& buffer = plan.step.problem.buffers[static_cast<size_t>(i)];
    const auto at = static_cast<int32_t>(step);
    if (writes && buffer.first == at) {
      return absl::StrCat(absl::EndsWith(buffer.name, "/workspace") ? "workspace" : "output", " \"", buffer.name, "\"");
    }
    if (!writes && buffer.first <= at && at <= buffer.last) return absl::StrCat("input \"", buffer.name, "\"");
  }
  return absl::StrCat("\"", plan.step.problem.buffers[static_cast<size_t>(block.buffers[0])].name, "\"");
}

absl::Status CheckExecutor::Run(Failure* failure) {
  SetThreadsPerOp(executable_.threads);
  FaultCatcher catcher;
  memory_.ProtectAll(Rights::kNone);
  absl::Status status;
  for (size_t i = 0; i < steps_.size() && status.ok(); ++i) {
    running_.store(static_cast<int32_t>(i), std::memory_order_relaxed);
    failure->step = i;
    failure->variables_changed |= executable_.steps[i].mutates;
    const int64_t begin = MonotonicNanoseconds();
    status = Check(catcher, i);
    if (times_ != nullptr) times_[i] = {begin, begin, MonotonicNanoseconds(), 0};
  }
  running_.store(-1, std::memory_order_relaxed);
  memory_.ProtectAll(Rights::kWrite);
  return status;
}

absl::Status CheckExecutor::Check(FaultCatcher& catcher, size_t step) {
  for (const Touch& touch : touches_[step]) GuardedMemory::Protect(memory_.blocks()[touch.block], Rights::kRead);
  const std::vector<Bytes> before = Contents(step, /*kept=*/true);
  SNUG_RETURN_IF_ERROR(Attempt(catcher, step, before, [](size_t, bool) { return Filling::kNan; }));
  const std::vector<Bytes> first = Contents(step, /*kept=*/false);
  SNUG_RETURN_IF_ERROR(Attempt(catcher, step, before, [](size_t, bool) { return Filling::kNumber; }));
  const std::vector<Bytes> second = Contents(step, /*kept=*/false);
  if (first != second) return absl::InternalError(Explain(catcher, step, before, first, second));
  for (const Touch& touch : touches_[step]) GuardedMemory::Protect(memory_.blocks()[touch.block], Rights::kNone);
  return absl::OkStatus();
}

absl::Status CheckExecutor::Attempt(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before,
                                    const Fillings& fillings) {
  const std::vector<Touch>& touches = touches_[step];
  for (size_t t = 0; t < touches.size(); ++t) {
    const GuardedBlock& block = memory_.blocks()[touches[t].block];
    GuardedMemory::Protect(block, Rights::kWrite);
    if (!touches[t].keeps()) {
      FillWith(fillings(t, /*inside=*/true), block.data, block.data_end);
    } else if (touches[t].writes) {
      std::memcpy(block.data, before[t].data(), before[t].size());
    }
    FillWith(fillings(t, /*inside=*/false), block.pages, block.data);
    FillWith(fillings(t, /*inside=*/false), block.data_end, block.end);
    if (!touches[t].writes) GuardedMemory::Protect(block, Rights::kRead);
  }
  absl::Status status;
  const std::optional<Fault> fault = catcher.Call([&] { status = steps_.Run(step); });
  if (fault.has_value()) return absl::InternalError(Describe(step, *fault));
  SNUG_RETURN_IF_ERROR(status);
  for (size_t t = 0; t < touches.size(); ++t) {
    const GuardedBlock& block = memory_.blocks()[touches[t].block];
    const Filling filling = fillings(t, /*inside=*/false);
    const std::byte* changed = FindChange(filling, block.pages, block.data);
    if (changed == block.data) changed = FindChange(filling, block.data_end, block.end);
    if (changed == block.end) continue;
    return absl::InternalError(absl::StrCat("writes ", Place(block, changed), " ", touches[t].name, Size(block)));
  }
  return absl::OkStatus();
}

std::vector<CheckExecutor::Bytes> CheckExecutor::Contents(size_t step, bool kept) const {
  std::vector<Bytes> contents;
  for (const Touch& touch : touches_[step]) {
    const GuardedBlock& block = memory_.blocks()[touch.block];
    Bytes& bytes = contents.emplace_back();
    if (touch.writes && !touch.workspace && (touch.keeps() || !kept)) bytes.assign(block.data, block.data_end);
  }
  return contents;
}

std::string CheckExecutor::Explain(FaultCatcher& catcher, size_t step, const std::vector<Bytes>& before,
                                   const std::vector<Bytes>& first, const std::vector<Bytes>& second) {
  const std::vector<Touch>& touches = touches_[step];
  size_t t = 0;
  while (first[t] == second[t]) ++t;
  const auto at = std::mismatch(first[t].begin(), first[t].end(), second[t].begin()).first - first[t].begin();
  const GuardedBlock& block = memory_.blocks()[touches[t].block];
  const std::string where = absl::StrCat("byte ", at, " of ", touches[t].name, Size(block));
  const auto left_alone = [&](Filling filling, const std::vector<Bytes>& contents) {
    return contents[t][static_cast<size_t>(at)] == FillingAt(filling, block.data + at);
  };
  if (!touches[t].keeps() && left_alone(Filling::kNan, first) && left_alone(Filling::kNumber, second)) {
    return absl::StrCat("does not write ", where);
  }
  const auto differs = [&](const Fillings& fillings) {
    return !Attempt(catcher, step, before, fillings).ok() || Contents(step, /*kept=*/false) != first;
  };
  if (differs([](size_t, bool) { return Filling::kNan; })) {
    return absl::StrCat("is not repeatable: run twice on the same bytes, it writes something else to ", where);
  }
  for (size_t other = 0; other < touches.size(); ++other) {
    for (const bool inside : {true, false}) {
      if (inside && touches[other].keeps()) continue;
      if (!differs([=](size_t touch, bool in) {
            return touch == other && in == inside ? Filling::kNumber : Filling::kNan;
          })) {
        continue;
      }
      const std::string& name = touches[other].name;
      return inside ? absl::StrCat("reads ", name, " before it writes it: ", where, " depends on what was there")
                    : absl::StrCat("reads bytes around ", name, Size(memory_.blocks()[touches[other].block]), ": ",
                                   where, " depends on them");
    }
  }
  return absl::StrCat("depends on bytes that it may not read: see ", where);
}

std::string CheckExecutor::Describe(size_t step, const Fault& fault) const {
  const std::string verb = fault.write ? "writes " : "reads ";
  const int64_t closest = memory_.BlockAround(fault.address);
  if (closest < 0) {
    return absl::StrCat(verb, "memory at address ", absl::Hex(reinterpret_cast<uintptr_t>(fault.address)),
                        ", which is none of the plan's");
  }
  const GuardedBlock& block = memory_.blocks()[static_cast<size_t>(closest)];
  const std::string place = absl::StrCat(verb, Place(block, fault.address), " ");
  for (const Touch& touch : touches_[step]) {
    if (touch.block != static_cast<size_t>(closest)) continue;
    const bool inside = block.pages <= fault.address && fault.address < block.end;
    return absl::StrCat(place, touch.name, Size(block), inside && !touch.writes ? ", which it only reads" : "");
  }
  return absl::StrCat(place, DescribeForeign(step, block));
}

std::string CheckExecutor::DescribeForeign(size_t step, const GuardedBlock& block) const {
  if (block.arena == Arena::kState) {
    return absl::StrCat(NameOf(step, block, false), Size(block), ", which it does not declare");
  }
  // Several buffers may use these bytes: takes the last one that was there or, if none was, the first that comes.
  const memory::Buffer* last = nullptr;
  const auto at = static_cast<int32_t>(step);
  for (const int32_t i : block.buffers) {
    const memory::Buffer& buffer = executable_.memory.step.problem.buffers[static_cast<size_t>(i)];
    if (last == nullptr || (buffer.first <= at && (last->first > at || buffer.last > last->last))) last = &buffer;
  }
  return absl::StrCat("\"", last->name, "\"", Size(block),
                      last->first > at  ? ", which is not written yet"
                      : last->last < at ? ", which is dead: nothing needs it any more"
                                        : ", which it does not declare");
}

}  // namespace snug::core
