#include "engine/compile/memory/share_state.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/schedule/stages.h"
#include "memory/verifier.h"

namespace snug::core {
namespace {

// Collects the Variables of several programs in one arena.
class Union {
 public:
  // Returns the buffer in the common problem for each Variable of `compiled`.
  absl::StatusOr<std::vector<int32_t>> Add(const Compiled& compiled) {
    std::vector<int32_t> buffers;
    constants_.clear();
    const std::vector<Variable>& variables = compiled.graph.variables();
    for (size_t i = 0; i < variables.size(); ++i) {
      const memory::Buffer& buffer = compiled.executable.memory.state_problem.buffers[i];
      SNUG_ASSIGN_OR_RETURN(const int32_t index, Find(variables[i], buffer));
      buffers.push_back(index);
    }
    ++programs_;
    return buffers;
  }

  memory::Problem& problem() { return problem_; }

 private:
  absl::StatusOr<int32_t> Find(const Variable& variable, const memory::Buffer& buffer) {
    // Constants are found by their contents, because two networks may use one name for different ones. A network may
    // have several of the same contents, each in a place of its own.
    std::string key = !variable.shared_as.empty() ? variable.shared_as : variable.name;
    if (variable.role == VariableRole::kConstant && variable.init.bytes != nullptr) {
      key = absl::StrCat("constant ", variable.type.ToString(), *variable.init.bytes);
      absl::StrAppend(&key, " number ", constants_[key]++);
    }
    // What follows from Variables follows otherwise in another program, though it may be called the same.
    if (variable.role == VariableRole::kDerived) absl::StrAppend(&key, " of program ", programs_);
    const auto [it, is_new] = found_.emplace(key, Known{static_cast<int32_t>(problem_.buffers.size()), variable.type});
    if (is_new) {
      problem_.buffers.push_back(buffer);
    } else if (!(it->second.type == variable.type)) {
      return absl::InvalidArgumentError(absl::StrCat("variable \"", variable.name, "\" is ", it->second.type.ToString(),
                                                     " in one program of the session, ", variable.type.ToString(),
                                                     " in another"));
    }
    // A Variable has no bytes in a network that does not read it, but may have some in another.
    memory::Buffer& shared = problem_.buffers[static_cast<size_t>(it->second.buffer)];
    shared.size_bytes = std::max(shared.size_bytes, buffer.size_bytes);
    return it->second.buffer;
  }

  struct Known {
    int32_t buffer;
    ValueType type;
  };
  std::map<std::string, Known> found_;
  std::map<std::string, int> constants_;  // of the program being added: how many there were of the same contents
  int programs_ = 0;                      // that have been added
  memory::Problem problem_;
};

// Maps offsets in an old state arena to offsets in the common one.
class Moved {
 public:
  Moved(const MemoryPlan& old, const std::vector<int32_t>& buffers, const memory::Plan& plan) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (old.state_problem.buffers[i].size_bytes == 0) continue;
      shift_[old.state_plan.offsets[i]] = plan.offsets[static_cast<size_t>(buffers[i])] - old.state_plan.offsets[i];
    }
  }

  void Move(Slot& slot) const {
    if (slot.arena == Arena::kState && slot.offset >= 0) slot.offset += ShiftAt(slot.offset);
  }
  void Move(Region& region) const {
    if (region.arena != static_cast<int32_t>(Arena::kState) || region.begin >= region.end) return;
    const int64_t shift = ShiftAt(region.begin);
    region.begin += shift;
    region.end += shift;
  }

 private:
  int64_t ShiftAt(int64_t offset) const {
    auto it = shift_.upper_bound(offset);
    SNUG_CHECK(it != shift_.begin());
    return (--it)->second;
  }
  std::map<int64_t, int64_t> shift_;  // keyed by where a Variable began
};

void MoveState(Executable& executable, const std::vector<int32_t>& buffers, const memory::Problem& problem,
               const memory::Plan& plan) {
  const Moved moved(executable.memory, buffers, plan);
  for (Step& step : executable.steps) {
    for (Slot& slot : step.inputs) moved.Move(slot);
    for (Slot& slot : step.outputs) moved.Move(slot);
    for (Access& access : step.accesses) moved.Move(access.region);
  }
  for (Endpoint& input : executable.inputs) moved.Move(input.slot);
  for (Endpoint& output : executable.outputs) moved.Move(output.slot);
  for (size_t i = 0; i < executable.variables.size(); ++i) {
    const bool has_bytes = executable.memory.state_problem.buffers[i].size_bytes > 0;
    executable.variables[i].offset = has_bytes ? plan.offsets[static_cast<size_t>(buffers[i])] : -1;
  }
  executable.memory.state_problem = problem;
  executable.memory.state_plan = plan;
}

}  // namespace

absl::Status ShareState(absl::Span<Compiled> programs, StatePlanner planner) {
  if (programs.size() < 2) return absl::OkStatus();
  Union all;
  std::vector<std::vector<int32_t>> buffers;
  for (const Compiled& program : programs) {
    SNUG_ASSIGN_OR_RETURN(std::vector<int32_t> of_program, all.Add(program));
    buffers.push_back(std::move(of_program));
  }
  const memory::Plan plan = planner(all.problem());
  SNUG_RETURN_IF_ERROR(memory::Verify(all.problem(), plan));
  for (size_t i = 0; i < programs.size(); ++i) {
    MoveState(programs[i].executable, buffers[i], all.problem(), plan);
    SNUG_RETURN_IF_ERROR(VerifyExecutable(programs[i]));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
