#include "tests/run/executable_oracle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/hash.h"
#include "tests/run/schedule_util.h"

namespace snug::core::test {
namespace {

constexpr int64_t kLine = 64;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  return x ^ (x >> 32);
}

// A range of lines of one space: an arena, a caller's buffer, a block.
struct Lines {
  std::pair<Arena, int32_t> space;
  int64_t begin = 0, end = 0;

  bool Overlaps(const Lines& other) const { return space == other.space && begin < other.end && other.begin < end; }
  friend bool operator==(const Lines&, const Lines&) = default;
};

Lines LinesOf(const Slot& slot, int64_t bytes) {
  const bool numbered = slot.arena == Arena::kCaller || slot.arena == Arena::kBlocks;
  const int64_t begin = slot.offset / kLine;
  return {{slot.arena, numbered ? slot.block : -1}, begin, begin + (bytes + kLine - 1) / kLine};
}

struct Operand {
  Lines lines;
  bool reads = false, writes = false;
  int port = 0;
  bool output = false;
};

bool Has(const OpDef& op, Alias::Kind kind, int output, int input) {
  return std::any_of(op.aliases.begin(), op.aliases.end(), [&](const Alias& alias) {
    return alias.kind == kind && alias.input == input && (kind == Alias::Kind::kMutates || alias.output == output);
  });
}

std::vector<Operand> OperandsOf(const Compiled& compiled, const Step& step) {
  const OpDef& op = compiled.registry->Get(compiled.graph.node(step.node).op);
  std::vector<Operand> operands;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i].offset < 0 || step.types.inputs[i].size_bytes() == 0) continue;
    const bool mutates = Has(op, Alias::Kind::kMutates, 0, static_cast<int>(i));
    operands.push_back(
        {LinesOf(step.inputs[i], step.types.inputs[i].size_bytes()), true, mutates, static_cast<int>(i)});
  }
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    if (step.types.outputs[o].size_bytes() == 0) continue;
    operands.push_back(
        {LinesOf(step.outputs[o], step.types.outputs[o].size_bytes()), false, true, static_cast<int>(o), true});
  }
  if (const int64_t bytes = compiled.kernels[static_cast<size_t>(step.node.index)].workspace_bytes; bytes > 0) {
    operands.push_back({LinesOf(step.workspace, bytes), false, true, -1});
  }
  return operands;
}

class TokenRun {
 public:
  explicit TokenRun(const Compiled& compiled) : compiled_(compiled), executable_(compiled.executable) {
    const MemoryPlan& memory = executable_.memory;
    Open({Arena::kState, -1}, memory.state_plan.arena_bytes);
    if (!memory.dynamic.has_value()) Open({Arena::kStep, -1}, memory.step_bytes());
    for (size_t i = 0; i < executable_.caller_buffers.size(); ++i) {
      Open({Arena::kCaller, static_cast<int32_t>(i)}, executable_.caller_buffers[i].type.size_bytes());
    }
    if (!memory.dynamic.has_value()) return;
    for (size_t b = 0; b < memory.dynamic->blocks.size(); ++b) {
      const DynamicMemory::ValueBlock& block = memory.dynamic->blocks[b];
      if (block.held) Open({Arena::kBlocks, static_cast<int32_t>(b)}, block.bytes);
      uses_left_.push_back(block.uses);
    }
  }

  std::optional<std::vector<uint64_t>> Run() {
    uint64_t first = 1;
    const auto lay_down = [&](const Slot& slot, const ValueType& type) {
      if (slot.offset >= 0 && type.size_bytes() > 0) Write(Check(slot, type.size_bytes()), first += 1'000'000'007);
    };
    for (size_t i = 0; i < executable_.variables.size(); ++i) {
      lay_down(executable_.variables[i], compiled_.graph.variables()[i].type);
    }
    for (const Endpoint& input : executable_.inputs) lay_down(input.slot, input.type);
    for (size_t i = 0; i < executable_.steps.size() && sound_; ++i) RunStep(i);
    std::vector<uint64_t> left;
    const auto leave = [&](const Slot& slot, const ValueType& type) {
      if (slot.offset >= 0 && type.size_bytes() > 0) left.push_back(Read(Check(slot, type.size_bytes()), {}));
    };
    for (size_t i = 0; i < executable_.variables.size(); ++i) {
      leave(executable_.variables[i], compiled_.graph.variables()[i].type);
    }
    for (const Endpoint& input : executable_.inputs) {
      if (compiled_.keep_inputs) leave(input.slot, input.type);
    }
    for (const Endpoint& output : executable_.outputs) leave(output.slot, output.type);
    if (!sound_ || !EveryBlockIsBack()) return std::nullopt;
    return left;
  }

 private:
  void Open(std::pair<Arena, int32_t> space, int64_t bytes) {
    tokens_[space].assign(static_cast<size_t>((bytes + kLine - 1) / kLine), 0xdead);
  }

  Lines Check(const Slot& slot, int64_t bytes) {
    sound_ = sound_ && slot.offset % compiled_.device.alignment() == 0;
    return Check(LinesOf(slot, bytes));
  }
  Lines Check(const Lines& lines) {
    const auto tokens = tokens_.find(lines.space);
    sound_ = sound_ && lines.begin >= 0 && tokens != tokens_.end() &&
             lines.end <= static_cast<int64_t>(tokens->second.size());
    return lines;
  }

  uint64_t Read(const Lines& lines, const std::vector<Lines>& garbage) {
    uint64_t digest = 0;
    if (!sound_) return digest;
    const std::vector<uint64_t>& tokens = tokens_[lines.space];
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const Lines one{lines.space, line, line + 1};
      const bool spoilt =
          std::any_of(garbage.begin(), garbage.end(), [&](const Lines& written) { return written.Overlaps(one); });
      digest = Mix(digest, spoilt ? 0xbad : tokens[static_cast<size_t>(line)]);
    }
    return digest;
  }

  void Write(const Lines& lines, uint64_t token) {
    if (!sound_) return;
    std::vector<uint64_t>& tokens = tokens_[lines.space];
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      tokens[static_cast<size_t>(line)] = Mix(token, static_cast<uint64_t>(line - lines.begin));
    }
  }

  void RunStep(size_t index) {
    const Step& step = executable_.steps[index];
    const Node& node = compiled_.graph.node(step.node);
    const OpDef& op = compiled_.registry->Get(node.op);
    const std::optional<DynamicMemory>& dynamic = executable_.memory.dynamic;
    if (dynamic.has_value()) {
      for (const int32_t block : dynamic->steps[index].takes) {
        sound_ = sound_ && !tokens_.contains({Arena::kBlocks, block});
        Open({Arena::kBlocks, block}, dynamic->blocks[static_cast<size_t>(block)].bytes);
      }
    }
    for (const Slot& slot : step.inputs) sound_ = sound_ && (slot.offset < 0 || slot.offset % kLine == 0);
    for (const Slot& slot : step.outputs) sound_ = sound_ && slot.offset % kLine == 0;
    sound_ = sound_ && (step.workspace.offset < 0 || step.workspace.offset % kLine == 0);
    const std::vector<Operand> operands = OperandsOf(compiled_, step);
    for (const Operand& operand : operands) Check(operand.lines);
    uint64_t digest = HashName(node.name);
    for (const Operand& read : operands) {
      if (!read.reads) continue;
      std::vector<Lines> garbage;
      for (const Operand& written : operands) {
        if (&written == &read || !written.writes || !written.lines.Overlaps(read.lines)) continue;
        if (!InPlace(op, step, written, read, operands)) garbage.push_back(written.lines);
      }
      digest = Mix(digest, Read(read.lines, garbage));
    }
    uint64_t port = 0;
    for (const Operand& written : operands) {
      ++port;
      if (!written.writes) continue;
      // Two of its outputs on the same bytes: neither can be told to be right.
      const bool torn = std::any_of(operands.begin(), operands.end(), [&](const Operand& other) {
        return &other != &written && other.writes && other.lines.Overlaps(written.lines);
      });
      Write(written.lines, torn ? 0xbad : Mix(digest, port));
    }
    if (dynamic.has_value()) GiveBack(dynamic->steps[index]);
  }

  // The only input that lies there, and the kernel may.
  static bool InPlace(const OpDef& op, const Step& step, const Operand& written, const Operand& read,
                      const std::vector<Operand>& operands) {
    const auto under = std::count_if(operands.begin(), operands.end(), [&](const Operand& other) {
      return other.reads && other.lines.Overlaps(written.lines);
    });
    return under == 1 && written.output && written.lines == read.lines &&
           Has(op, Alias::Kind::kMayShare, written.port, read.port) &&
           step.types.outputs[static_cast<size_t>(written.port)] == step.types.inputs[static_cast<size_t>(read.port)];
  }

  bool EveryBlockIsBack() const {
    return std::all_of(tokens_.begin(), tokens_.end(), [&](const auto& space) {
      const auto& [arena, number] = space.first;
      return arena != Arena::kBlocks || executable_.memory.dynamic->blocks[static_cast<size_t>(number)].held;
    });
  }

  void GiveBack(const DynamicMemory::StepBlocks& blocks) {
    for (const int32_t block : blocks.uses) {
      if (--uses_left_[static_cast<size_t>(block)] == 0) tokens_.erase({Arena::kBlocks, block});
    }
    if (blocks.workspace >= 0) tokens_.erase({Arena::kBlocks, blocks.workspace});
  }

  const Compiled& compiled_;
  const Executable& executable_;
  std::map<std::pair<Arena, int32_t>, std::vector<uint64_t>> tokens_;
  std::vector<int32_t> uses_left_;
  bool sound_ = true;
};

}  // namespace

std::optional<std::vector<uint64_t>> RunOnTokens(const Compiled& compiled) { return TokenRun(compiled).Run(); }

bool EveryOverlapIsOrdered(const Compiled& compiled) {
  const Executable& executable = compiled.executable;
  const size_t n = executable.steps.size();
  std::vector<std::vector<Operand>> operands;
  std::vector<std::vector<Access>> accesses;
  for (const Step& step : executable.steps) {
    operands.push_back(OperandsOf(compiled, step));
    accesses.push_back(step.accesses);
  }
  const auto by_schedule = Reach(executable.schedule, executable.schedule.waits);
  // Each Step on a stream of its own, with a wait for each conflict that is declared.
  Schedule declared{.stream_of = std::vector<int32_t>(n)};
  const auto by_accesses = Reach(declared, ConflictingPairs(accesses));
  for (size_t b = 0; b < n; ++b) {
    for (size_t a = 0; a < b; ++a) {
      const bool overlap = std::any_of(operands[a].begin(), operands[a].end(), [&](const Operand& x) {
        return std::any_of(operands[b].begin(), operands[b].end(),
                           [&](const Operand& y) { return (x.writes || y.writes) && x.lines.Overlaps(y.lines); });
      });
      if (overlap && (by_schedule[b][a] == 0 || by_accesses[b][a] == 0)) return false;
    }
  }
  return true;
}

}  // namespace snug::core::test
