#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/interval_map.h"
#include "engine/base/status.h"
#include "engine/compile/memory/contents.h"
#include "engine/compile/schedule/declared_order.h"
#include "engine/compile/schedule/stages.h"
#include "memory/stream_clocks.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

constexpr int32_t kNobody = -1;  // stands for a Step where it was so before the first one

// Describes what lies on some bytes, and which Steps have used them.
struct Stored {
  ValueId root;                  // invalid: nothing that anybody may read
  int32_t version = 0;           // for a Variable: how often it has been changed
  int64_t origin = 0;            // where its first byte would lie
  int32_t writer = kNobody;      // the Step that wrote it
  std::vector<int32_t> readers;  // Steps that have read it since then
};

// Bytes with addresses of their own: an arena, a buffer of the caller's, or a block of dynamic memory.
struct Space {
  std::string name;
  int64_t bytes = 0;
  bool there = true;  // false for a block that is not taken yet, or was given back
  IntervalMap<Stored> stored;
};

struct Operand {
  enum class Use : uint8_t { kInput, kChanged, kOutput, kWorkspace };
  Use use = Use::kInput;
  size_t port = 0;
  ValueId value;  // invalid for a workspace
  Slot slot;
  Space* space = nullptr;
  int64_t begin = 0, end = 0;

  bool writes() const { return use != Use::kInput; }
};

class ExecutableVerifier {
 public:
  ExecutableVerifier(const Compiled& compiled, const Contents& contents, const memory::StreamClocks& clocks)
      : compiled_(compiled),
        graph_(compiled.graph),
        executable_(compiled.executable),
        contents_(contents),
        clocks_(clocks),
        declared_(executable_.steps) {
    const MemoryPlan& memory = executable_.memory;
    state_ = {.name = "the state arena", .bytes = memory.state_plan.arena_bytes};
    step_ = {.name = "the step arena", .bytes = memory.dynamic.has_value() ? 0 : memory.step_bytes()};
    for (const CallerBuffer& buffer : executable_.caller_buffers) {
      callers_.push_back(
          {.name = absl::StrCat("the caller's buffer \"", buffer.name, "\""), .bytes = buffer.type.size_bytes()});
    }
    if (!memory.dynamic.has_value()) return;
    for (const DynamicMemory::ValueBlock& block : memory.dynamic->blocks) {
      blocks_.push_back(
          {.name = absl::StrCat("block \"", block.name, "\""), .bytes = block.bytes, .there = block.held});
      uses_left_.push_back(block.uses);
    }
  }

  absl::Status Verify() {
    for (Space* const space : {&state_, &step_}) space->stored.Assign(0, space->bytes, {});
    for (Space& space : callers_) space.stored.Assign(0, space.bytes, {});
    for (Space& space : blocks_) space.stored.Assign(0, space.bytes, {});
    SNUG_RETURN_IF_ERROR(LayDownWhatIsThere());
    for (size_t step = 0; step < executable_.steps.size(); ++step) {
      const Node& node = graph_.node(executable_.steps[step].node);
      if (absl::Status status = Run(static_cast<int32_t>(step)); !status.ok()) {
        return NodeError(node.loc, node.name, node.op, status);
      }
    }
    return CheckWhatIsLeft();
  }

 private:
  // --- places ---

  absl::StatusOr<Space*> SpaceOf(const Slot& slot) {
    const auto of = [&](std::vector<Space>& spaces) -> absl::StatusOr<Space*> {
      const auto block = static_cast<size_t>(slot.block);
      if (block >= spaces.size()) return absl::InternalError(absl::StrCat("there is no buffer ", slot.block));
      return &spaces[block];
    };
    switch (slot.arena) {
      case Arena::kState:
        return &state_;
      case Arena::kStep:
        return &step_;
      case Arena::kCaller:
        return of(callers_);
      case Arena::kBlocks:
        return of(blocks_);
      case Arena::kParts:
        break;
    }
    return absl::InternalError("lies in no arena");
  }

  // `what` names the operand in errors.
  absl::StatusOr<Operand> Place(Operand operand, int64_t bytes, absl::string_view what) {
    SNUG_ASSIGN_OR_RETURN(operand.space, SpaceOf(operand.slot));
    operand.begin = operand.slot.offset;
    operand.end = operand.begin + bytes;
    const int64_t alignment = compiled_.device.alignment();
    if (operand.begin < 0 || operand.begin % alignment != 0 || operand.end > operand.space->bytes) {
      return absl::InternalError(absl::StrCat(what, " lies at ", Range(operand), ": expected a multiple of ", alignment,
                                              " inside its ", operand.space->bytes, " bytes"));
    }
    if (!operand.space->there) {
      return absl::InternalError(absl::StrCat(what, " lies at ", Range(operand), ", which is not taken at that time"));
    }
    return operand;
  }

  absl::StatusOr<Operand> PlaceValue(ValueId value, const Slot& slot) {
    return Place({.value = value, .slot = slot}, graph_.type(value).size_bytes(), Quoted(value));
  }

  // --- before the first Step, and after the last ---

  absl::Status LayDown(ValueId value, const Slot& slot) {
    SNUG_ASSIGN_OR_RETURN(const Operand operand, PlaceValue(value, slot));
    ValueId there;
    operand.space->stored.ForEach(operand.begin, operand.end, [&](const Stored& stored) {
      if (stored.root.valid()) there = stored.root;
    });
    if (there.valid()) {
      return absl::InternalError(absl::StrCat(Quoted(value), " lies at ", Range(operand), " over ", Quoted(there),
                                              ", and both are there before the first Step"));
    }
    operand.space->stored.Assign(operand.begin, operand.end, {.root = value, .origin = operand.begin});
    return absl::OkStatus();
  }

  bool HasBytes(ValueId value) const { return graph_.type(value).size_bytes() > 0; }

  absl::Status LayDownWhatIsThere() {
    const std::vector<Variable>& variables = graph_.variables();
    if (executable_.variables.size() != variables.size() || executable_.inputs.size() != graph_.inputs().size() ||
        executable_.outputs.size() != graph_.outputs.size()) {
      return absl::InternalError("the Executable has other Variables, inputs or outputs than the Graph");
    }
    for (size_t i = 0; i < variables.size(); ++i) {  // without a place: a constant that nothing reads
      if (executable_.variables[i].offset < 0 || !HasBytes(variables[i].value)) continue;
      SNUG_RETURN_IF_ERROR(LayDown(variables[i].value, executable_.variables[i]));
    }
    for (size_t i = 0; i < executable_.inputs.size(); ++i) {
      if (!HasBytes(graph_.inputs()[i])) continue;
      SNUG_RETURN_IF_ERROR(LayDown(graph_.inputs()[i], executable_.inputs[i].slot));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWhatIsLeft() {
    SNUG_RETURN_IF_ERROR(CheckGivenBack());
    const auto check = [&](ValueId value, const Slot& slot, absl::string_view why) -> absl::Status {
      if (!HasBytes(value)) return absl::OkStatus();
      SNUG_ASSIGN_OR_RETURN(const Operand operand, PlaceValue(value, slot));
      return Annotate(CheckHolds(operand, NodeId()), absl::StrCat("after the last Step, ", why));
    };
    for (size_t i = 0; i < executable_.variables.size(); ++i) {
      if (executable_.variables[i].offset < 0) continue;
      SNUG_RETURN_IF_ERROR(check(graph_.variables()[i].value, executable_.variables[i], "a Variable"));
    }
    for (size_t i = 0; i < executable_.inputs.size(); ++i) {
      const Endpoint& input = executable_.inputs[i];
      if (!input.kept && !compiled_.keep_inputs) continue;
      SNUG_RETURN_IF_ERROR(check(graph_.inputs()[i], input.slot, "an input that is kept"));
    }
    for (size_t i = 0; i < executable_.outputs.size(); ++i) {
      SNUG_RETURN_IF_ERROR(check(graph_.outputs[i].value, executable_.outputs[i].slot, "an output"));
    }
    return absl::OkStatus();
  }

  // --- a Step ---

  absl::StatusOr<std::vector<Operand>> OperandsOf(const Step& step, const Node& node, const OpDef& op) {
    std::vector<Operand> operands;
    if (step.inputs.size() != node.inputs.size() || step.outputs.size() != node.outputs.size()) {
      return absl::InternalError("its Step has other inputs or outputs than the node");
    }
    bool mutates = false;
    const auto add = [&](Operand operand, bool needed) -> absl::Status {
      if (needed != (operand.slot.offset >= 0)) {
        return absl::InternalError(absl::StrCat("operand ", operand.port, " is ", needed ? "" : "not ", "expected"));
      }
      if (!needed || !HasBytes(operand.value)) return absl::OkStatus();
      const int64_t bytes = graph_.type(operand.value).size_bytes();
      SNUG_ASSIGN_OR_RETURN(operand, Place(operand, bytes, Quoted(operand.value)));
      operands.push_back(operand);
      return absl::OkStatus();
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool changed = node.inputs[i].valid() && Mutates(op, i);
      mutates |= changed;
      SNUG_RETURN_IF_ERROR(add({.use = changed ? Operand::Use::kChanged : Operand::Use::kInput,
                                .port = i,
                                .value = node.inputs[i],
                                .slot = step.inputs[i]},
                               node.inputs[i].valid()));
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      SNUG_RETURN_IF_ERROR(
          add({.use = Operand::Use::kOutput, .port = o, .value = node.outputs[o], .slot = step.outputs[o]}, true));
    }
    if (const int64_t bytes = compiled_.kernels[static_cast<size_t>(step.node.index)].workspace_bytes; bytes > 0) {
      SNUG_ASSIGN_OR_RETURN(const Operand workspace,
                            Place({.use = Operand::Use::kWorkspace, .slot = step.workspace}, bytes, "its workspace"));
      operands.push_back(workspace);
    }
    if (mutates != step.mutates) return absl::InternalError("its Step does not say whether it changes Variables");
    return operands;
  }

  absl::Status Run(int32_t index) {
    const Step& step = executable_.steps[static_cast<size_t>(index)];
    const Node& node = graph_.node(step.node);
    const OpDef& op = compiled_.registry->Get(node.op);
    SNUG_RETURN_IF_ERROR(TakeBlocks(index));
    SNUG_ASSIGN_OR_RETURN(const std::vector<Operand> operands, OperandsOf(step, node, op));
    SNUG_RETURN_IF_ERROR(CheckApart(operands, op));
    for (const Operand& operand : operands) {
      SNUG_RETURN_IF_ERROR(CheckCounted(operand, index));
      if (operand.use == Operand::Use::kInput || operand.use == Operand::Use::kChanged) {
        SNUG_RETURN_IF_ERROR(CheckHolds(operand, step.node));
        SNUG_RETURN_IF_ERROR(Read(operand, index));
      }
    }
    for (const Operand& operand : operands) {
      if (operand.writes()) SNUG_RETURN_IF_ERROR(Write(operand, index));
    }
    GiveBlocksBack(index);
    return absl::OkStatus();
  }

  // A Step's outputs must not overlap its other operands, except one input where the kernel works in place.
  absl::Status CheckApart(const std::vector<Operand>& operands, const OpDef& op) const {
    for (const Operand& written : operands) {
      if (!written.writes()) continue;
      int inputs_under = 0;
      for (const Operand& other : operands) {
        if (&other == &written || other.space != written.space || other.begin >= written.end ||
            written.begin >= other.end) {
          continue;
        }
        const bool in_place = written.use == Operand::Use::kOutput && other.use == Operand::Use::kInput &&
                              other.begin == written.begin && MayShare(op, written, other) && ++inputs_under == 1;
        if (in_place) continue;
        return absl::InternalError(absl::StrCat("writes ", Quoted(written.value), " at ", Range(written), " over its ",
                                                Quoted(other.value), " at ", Range(other)));
      }
    }
    return absl::OkStatus();
  }

  bool MayShare(const OpDef& op, const Operand& output, const Operand& input) const {
    if (!(graph_.type(output.value) == graph_.type(input.value))) return false;
    return std::any_of(op.aliases.begin(), op.aliases.end(), [&](const Alias& alias) {
      return alias.kind == Alias::Kind::kMayShare && static_cast<size_t>(alias.output) == output.port &&
             static_cast<size_t>(alias.input) == input.port;
    });
  }

  // Checks that the operand's bytes are those that the Graph wants there before `reader` or, if that is invalid, at the
  // end.
  absl::Status CheckHolds(const Operand& operand, NodeId reader) const {
    const std::vector<Contents::Part>& parts = contents_.Of(operand.value);
    if (parts.empty()) return absl::InternalError(absl::StrCat("nothing computes ", Quoted(operand.value)));
    for (const Contents::Part& part : parts) {
      const VariableId variable = graph_.value(part.root).variable;
      const int32_t version = !variable.valid() ? 0
                              : !reader.valid() ? contents_.LastVersion(variable)
                                                : contents_.VersionAt(variable, reader);
      const int64_t origin = operand.begin + part.begin - part.from;
      absl::Status status;
      operand.space->stored.ForEach(operand.begin + part.begin, operand.begin + part.end, [&](const Stored& found) {
        if (!status.ok() || (found.root == part.root && found.origin == origin && found.version == version)) return;
        status = Other(operand, part.root, version, found);
      });
      SNUG_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  // --- who waits for whom ---

  absl::Status Read(const Operand& operand, int32_t step) {
    absl::Status status;
    operand.space->stored.UpdateEach(operand.begin, operand.end, [&](Stored& stored) {
      status.Update(CheckDone(stored.writer, step, operand));
      if (stored.readers.empty() || stored.readers.back() != step) stored.readers.push_back(step);
    });
    return status;
  }

  absl::Status Write(const Operand& operand, int32_t step) {
    absl::Status status;
    operand.space->stored.ForEach(operand.begin, operand.end, [&](const Stored& stored) {
      status.Update(CheckDone(stored.writer, step, operand));
      for (const int32_t reader : stored.readers) status.Update(CheckDone(reader, step, operand));
    });
    SNUG_RETURN_IF_ERROR(status);
    Stored written{.root = operand.value, .origin = operand.begin, .writer = step};
    if (operand.use == Operand::Use::kChanged) {
      const VariableId variable = graph_.value(operand.value).variable;
      written.version = contents_.VersionAt(variable, executable_.steps[static_cast<size_t>(step)].node) + 1;
    }
    operand.space->stored.Assign(operand.begin, operand.end, std::move(written));
    return absl::OkStatus();
  }

  absl::Status CheckDone(int32_t earlier, int32_t later, const Operand& operand) const {
    if (earlier == kNobody || earlier == later) return absl::OkStatus();
    const auto wrong = [&](absl::string_view how) {
      return absl::InternalError(absl::StrCat("may run before \"", NameOf(earlier), "\" is done ", how, ": both use ",
                                              Range(operand), " for ", Quoted(operand.value),
                                              ", and one of them writes"));
    };
    if (!clocks_.Before(earlier, later)) {
      return wrong(absl::StrCat("on ", executable_.schedule.count(), " streams"));
    }
    return declared_.Before(earlier, later) ? absl::OkStatus() : wrong("by what its Step says that it accesses");
  }

  // --- blocks of dynamic memory ---

  const DynamicMemory::StepBlocks* BlocksOf(int32_t step) const {
    const std::optional<DynamicMemory>& dynamic = executable_.memory.dynamic;
    return dynamic.has_value() ? &dynamic->steps[static_cast<size_t>(step)] : nullptr;
  }

  absl::Status TakeBlocks(int32_t step) {
    const DynamicMemory::StepBlocks* const blocks = BlocksOf(step);
    if (blocks == nullptr) return absl::OkStatus();
    for (const int32_t block : blocks->takes) {
      Space& space = blocks_[static_cast<size_t>(block)];
      if (space.there) return absl::InternalError(absl::StrCat("takes ", space.name, ", which is taken already"));
      space.there = true;
      space.stored.Assign(0, space.bytes, {});  // whatever lay there before was something else's
    }
    return absl::OkStatus();
  }

  // Counts must come to zero within a step: a block that is never given back would be taken again in the next.
  absl::Status CheckGivenBack() const {
    const std::optional<DynamicMemory>& dynamic = executable_.memory.dynamic;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (!blocks_[b].there || dynamic->blocks[b].held) continue;
      return absl::InternalError(absl::StrCat("after the last Step, ", blocks_[b].name, " is not given back: of ",
                                              dynamic->blocks[b].uses, " uses, ", uses_left_[b], " did not come"));
    }
    return absl::OkStatus();
  }

  // Checks that the block is not given back while the Step uses it.
  absl::Status CheckCounted(const Operand& operand, int32_t step) const {
    const DynamicMemory::StepBlocks* const blocks = BlocksOf(step);
    if (blocks == nullptr || operand.slot.arena != Arena::kBlocks) return absl::OkStatus();
    const int32_t block = operand.slot.block;
    if (executable_.memory.dynamic->blocks[static_cast<size_t>(block)].held || blocks->workspace == block ||
        std::find(blocks->uses.begin(), blocks->uses.end(), block) != blocks->uses.end()) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrCat("uses ", operand.space->name, ", which may be given back before: it is not counted"));
  }

  void GiveBlocksBack(int32_t step) {
    const DynamicMemory::StepBlocks* const blocks = BlocksOf(step);
    if (blocks == nullptr) return;
    for (const int32_t block : blocks->uses) {
      if (--uses_left_[static_cast<size_t>(block)] == 0) blocks_[static_cast<size_t>(block)].there = false;
    }
    if (blocks->workspace >= 0) blocks_[static_cast<size_t>(blocks->workspace)].there = false;
  }

  // --- words for errors ---

  std::string Quoted(ValueId value) const {
    return value.valid() ? absl::StrCat("\"", graph_.value(value).name, "\"") : "workspace";
  }
  std::string NameOf(int32_t step) const { return graph_.node(executable_.steps[static_cast<size_t>(step)].node).name; }
  static std::string Range(const Operand& operand) {
    return absl::StrCat("bytes ", operand.begin, " to ", operand.end, " of ", operand.space->name);
  }

  // Reports that something else lies where `root` should.
  absl::Status Other(const Operand& operand, ValueId root, int32_t version, const Stored& found) const {
    const std::string by = found.writer == kNobody ? "" : absl::StrCat(", written by \"", NameOf(found.writer), "\"");
    std::string what;
    if (!found.root.valid()) {
      what = found.writer == kNobody ? "nobody has written there" : absl::StrCat("that is scratch", by);
    } else if (found.root != root) {
      what = absl::StrCat(Quoted(found.root), " lies there", by);
    } else if (found.version != version) {
      what = absl::StrCat("it was changed ", found.version, " times by then, expected ", version);
    } else {
      what = "other bytes of it lie there";
    }
    return absl::InternalError(
        absl::StrCat("expected ", Quoted(operand.value), " at ", Range(operand), ", but ", what));
  }

  const Compiled& compiled_;
  const Graph& graph_;
  const Executable& executable_;
  const Contents& contents_;
  const memory::StreamClocks& clocks_;
  const DeclaredOrder declared_;
  Space state_, step_;
  std::vector<Space> callers_, blocks_;
  std::vector<int32_t> uses_left_;  // indexed by block
};

}  // namespace

absl::Status VerifyExecutable(const Compiled& compiled) {
  const Graph& graph = compiled.graph;
  const std::vector<Step>& steps = compiled.executable.steps;
  const Schedule& schedule = compiled.executable.schedule;
  std::vector<char> runs(graph.node_capacity(), 0);
  for (const Step& step : steps) {
    char& run = runs[static_cast<size_t>(step.node.index)];
    if (std::exchange(run, 1) == 0) continue;
    const Node& node = graph.node(step.node);
    return NodeError(node.loc, node.name, node.op, absl::InternalError("two Steps run it"));
  }
  SNUG_ASSIGN_OR_RETURN(const Contents contents, Contents::Create(graph, *compiled.registry, runs));
  const auto name = [&](int32_t step) { return graph.node(steps[static_cast<size_t>(step)].node).name; };
  absl::StatusOr<memory::StreamClocks> clocks =
      memory::StreamClocks::Create(static_cast<int32_t>(steps.size()), schedule.streams, schedule.waits, name);
  if (!clocks.ok()) return absl::InternalError(clocks.status().message());
  return ExecutableVerifier(compiled, contents, *clocks).Verify();
}

}  // namespace snug::core
