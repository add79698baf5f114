// Lays the rounds of a loop out one after the other, as a program without loops, for the verifier of every program:
// what lies where, and what each Step of each round reads and writes. It knows where the kernel puts things, and
// nothing of how places were chosen.
//
// Of many rounds only a few are laid out. A round repeats the one that is a turn of all rings earlier, with values that
// are as much younger, once every ring has been filled and every carry is what a round made. So the first of these, one
// turn more, and what is left of a turn at the end are enough. A turn is the least common multiple of all rings'
// lengths, which whoever chooses places keeps short (RolledLoop::LimitTurn).
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/body_copier.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/control/rounds.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/schedule/stages.h"

namespace snug::core {

class RolledLoop::StraightLine {
 public:
  explicit StraightLine(const RolledLoop& loop)
      : loop_(loop), body_(*loop.body_), program_{.registry = body_.registry, .device = body_.device} {}

  absl::StatusOr<Compiled> Make() {
    program_.executable.memory.step.placement.plan.arena_bytes = loop_.workspace_bytes_;
    const auto words =
        static_cast<int64_t>(loop_.pointers_ + body_.bound.size() + 2 * loop_.carries_.size() + loop_.made_.size());
    AddInput("the table of pointers", Bytes(words * static_cast<int64_t>(sizeof(void*))), InWorkspace(loop_.table_));
    AddOutputs();
    inputs_.resize(loop_.inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = loop_.inputs_[i];
      if (input.source == Source::kCaptured) inputs_[i] = AddRead(NameOfInput(i), TypeOfInput(i));
      if (input.source == Source::kSlice && input.slices.in_place) {
        wholes_[i] = NewBuffer(NameOfInput(i), WholeOf(input.slices));
      }
    }
    for (const Carry& carry : loop_.carries_) {
      const auto input = At(carry.input);
      carries_.push_back(AddRead(absl::StrCat(NameOfInput(input), " at first"), TypeOfInput(input)));
    }
    made_.resize(loop_.made_.size());
    const int64_t rounds = RoundsToLayOut();
    for (int64_t n = 0; n < rounds; ++n) {
      if (!loop_.ends_known()) MayEndBefore(n);
      SNUG_RETURN_IF_ERROR(AddRound(n));
    }
    for (const Held& result : End("end")) AddOutput("what a carry is at last", result);
    return Finished();
  }

 private:
  struct Held {
    ValueId value;
    Slot slot;
  };

  template <class Number>
  static size_t At(Number number) {
    return static_cast<size_t>(number);
  }
  static Slot InWorkspace(int64_t place) { return {.arena = Arena::kStep, .offset = place}; }
  static bool SamePlace(const Slot& a, const Slot& b) {
    return a.arena == b.arena && a.offset == b.offset && a.block == b.block;
  }
  static ValueType Bytes(int64_t count) { return {.dtype = DType::kUint8, .shape = {count}}; }
  static ValueType WholeOf(const LoopSlices& slices) {
    return Bytes(slices.bytes() / slices.slice_places * slices.places);
  }

  const std::string& NameOfInput(size_t input) const { return body_.graph.value(body_.graph.inputs()[input]).name; }
  const ValueType& TypeOfInput(size_t input) const { return body_.graph.type(body_.graph.inputs()[input]); }
  const ValueType& TypeOfOutput(int output) const { return body_.graph.type(body_.graph.outputs[At(output)].value); }
  int64_t RoundOf(int64_t n) const { return core::RoundOf(n, loop_.rounds_, loop_.backwards_); }

  int64_t RoundsToLayOut() const {
    int64_t turn = 1, filled = static_cast<int64_t>(loop_.carries_.size()) + 2;  // no carry is what it was at first
    for (const Made& made : loop_.made_) {
      if (made.ring.empty()) continue;
      turn = std::lcm(turn, static_cast<int64_t>(made.ring.size()));
      filled = std::max(filled, static_cast<int64_t>(made.ring.size()));
      if (turn >= loop_.rounds_) return loop_.rounds_;
    }
    if (loop_.rounds_ <= filled + 2 * turn) return loop_.rounds_;
    return filled + turn + (loop_.rounds_ - filled) % turn;
  }

  // --- around the rounds ---

  // Outside of the workspace: the loop's inputs and outputs.
  Slot NewBuffer(const std::string& name, ValueType type) {
    std::vector<CallerBuffer>& buffers = program_.executable.caller_buffers;
    buffers.push_back({.name = name, .type = std::move(type)});
    return {.arena = Arena::kCaller, .offset = 0, .block = static_cast<int32_t>(buffers.size() - 1)};
  }

  // Something that is there before the first Step, and stays.
  Held AddInput(const std::string& name, const ValueType& type, const Slot& slot) {
    const ValueId value = program_.graph.AddInput(absl::StrCat("input ", inputs_added_++, ": ", name), type);
    program_.executable.inputs.push_back({.name = name, .type = type, .slot = slot});
    return {value, slot};
  }
  Held AddRead(const std::string& name, const ValueType& type) { return AddInput(name, type, NewBuffer(name, type)); }

  // Something that must be there after the last Step.
  void AddOutput(const std::string& name, const Held& held) {
    program_.graph.outputs.push_back({name, held.value});
    program_.executable.outputs.push_back({.name = name, .type = program_.graph.type(held.value), .slot = held.slot});
  }

  // The loop's outputs. Results of carries are known by the node's outputs, what is collected by its number.
  void AddOutputs() {
    for (const Carry& carry : loop_.carries_) {
      if (carry.result < 0) continue;
      results_[carry.result] = NewBuffer(absl::StrCat("output ", carry.result), TypeOfInput(At(carry.input)));
    }
    for (const Collect& collect : loop_.collects_) {
      collected_.push_back(NewBuffer(absl::StrCat("output ", collect.result), WholeOf(collect.slices)));
    }
  }

  // Copies carries to where the loop puts them out, one after the other, but for those that lie there.
  std::vector<Held> End(const std::string& name) {
    std::vector<Held> put_out;
    for (size_t c = 0; c < carries_.size(); ++c) {
      const int result = loop_.carries_[c].result;
      if (result < 0) continue;
      const Slot& to = results_.at(result);
      put_out.push_back(SamePlace(carries_[c].slot, to) ? carries_[c]
                                                        : Copy(absl::StrCat(name, ", carry ", c), carries_[c], to));
    }
    return put_out;
  }

  // What the loop puts out if the n-th round does not run. Others read it then, and see that all of it is there.
  void MayEndBefore(int64_t n) {
    const std::string name = absl::StrCat("end before round ", n);
    for (const Held& result : End(name)) {
      Copy(absl::StrCat(name, ", read"), result, NewBuffer(name, program_.graph.type(result.value)));
    }
  }

  // --- a round ---

  absl::Status AddRound(int64_t n) {
    const std::string name = absl::StrCat("round ", n, ", ");
    SNUG_RETURN_IF_ERROR(PlaceWhatIsMade(n));
    ReadInputs(n, name);
    std::vector<Slot> buffers(body_.bound.size());
    for (size_t m = 0; m < made_.size(); ++m) buffers[At(loop_.made_[m].buffer)] = made_[m].slot;
    std::vector<ValueId> copies(body_.graph.value_capacity());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      copies[At(body_.graph.inputs()[i].index)] = inputs_[i].value;
      if (loop_.inputs_[i].buffer >= 0) buffers[At(loop_.inputs_[i].buffer)] = inputs_[i].slot;
    }
    AddNodes(name, buffers, copies);
    const auto output = [&](int number) -> Held {
      const PutOut& of = loop_.outputs_[At(number)];
      if (of.made < 0) return inputs_[At(of.input)];
      const ValueId value = body_.graph.outputs[At(number)].value;
      return {copies[At(value.index)], made_[At(of.made)].slot};
    };
    for (size_t c = 0; c < loop_.collects_.size(); ++c) {
      const Collect& collect = loop_.collects_[c];
      Held made = output(collect.output);
      if (!collect.slices.in_place) {  // among others' bytes: that it is still there is all that there is to see
        made = Copy(absl::StrCat(name, "collected"), made, NewBuffer("a slice", TypeOfOutput(collect.output)));
      } else if (const Slot slot = SliceOf(collected_[c], collect.slices, n); !SamePlace(made.slot, slot)) {
        made = Copy(absl::StrCat(name, "collected"), made, slot);
      }
      AddOutput(absl::StrCat(name, "collected"), made);
    }
    std::vector<Held> next;
    for (const Carry& carry : loop_.carries_) next.push_back(output(carry.output));
    carries_ = std::move(next);
    return absl::OkStatus();
  }

  Slot SliceOf(Slot whole, const LoopSlices& slices, int64_t n) const {
    whole.offset += slices.OffsetOf(RoundOf(n));
    return whole;
  }

  absl::Status PlaceWhatIsMade(int64_t n) {
    for (size_t m = 0; m < made_.size(); ++m) {
      const Made& made = loop_.made_[m];
      if (made.collect >= 0) {
        made_[m].slot = SliceOf(collected_[At(made.collect)], loop_.collects_[At(made.collect)].slices, n);
        continue;
      }
      if (made.ring.empty()) return absl::InternalError(absl::StrCat("value ", m, " has no place"));
      const int64_t place = made.ring[At(n) % made.ring.size()];
      if (place >= 0) {
        made_[m].slot = InWorkspace(place);
        continue;
      }
      const auto result = results_.find(static_cast<int>(-1 - place));
      if (result == results_.end()) {
        return absl::InternalError(absl::StrCat("value ", m, " lies in output ", -1 - place, ", which is no carry"));
      }
      made_[m].slot = result->second;
    }
    return absl::OkStatus();
  }

  void ReadInputs(int64_t n, const std::string& round) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = loop_.inputs_[i];
      if (input.source == Source::kCaptured) continue;
      if (input.source == Source::kCarry) {
        inputs_[i] = carries_[At(input.number)];
        continue;
      }
      const std::string name = absl::StrCat(round, NameOfInput(i));
      const bool first = input.first >= 0 && RoundOf(n) == 0;
      if (input.source == Source::kSlice && (input.slices.in_place || first)) {
        const int64_t late = input.first >= 0 ? 1 : 0;
        Slot slot = first ? NewBuffer(name, TypeOfInput(i)) : wholes_.at(i);
        if (!first) slot.offset += input.slices.OffsetOf(RoundOf(n) - late);
        inputs_[i] = AddInput(name, TypeOfInput(i), slot);
        if (input.made >= 0) made_[At(input.made)] = inputs_[i];
        continue;
      }
      const Slot place = input.made >= 0 ? made_[At(input.made)].slot : InWorkspace(input.scratch);
      inputs_[i] = Copy(name, AddRead(name, TypeOfInput(i)), place);
    }
  }

  // Adds the body's nodes, and its Steps in their sequence.
  void AddNodes(const std::string& round, const std::vector<Slot>& buffers, std::vector<ValueId>& copies) {
    std::vector<NodeId> node_of(body_.graph.node_capacity());
    for (const NodeId id : body_.graph.ProgramOrder()) {
      const Node& node = body_.graph.node(id);
      NodeSpec spec = CopyOf(body_.graph, node, copies);
      spec.name = absl::StrCat(round, node.name);
      node_of[At(id.index)] = AddCopy(body_.graph, node, std::move(spec), program_.graph, copies);
    }
    const auto here = [&](Slot slot) {
      if (slot.offset < 0 || slot.arena != Arena::kCaller) return slot;
      Slot place = buffers[At(slot.block)];
      place.offset += slot.offset;
      return place;
    };
    for (const Step& of_body : body_.executable.steps) {
      std::vector<Slot> reads, writes;
      for (const Slot& slot : of_body.inputs) reads.push_back(here(slot));
      for (const Slot& slot : of_body.outputs) writes.push_back(here(slot));
      const NodeId node = node_of[At(of_body.node.index)];
      AddStep(node, std::move(reads), std::move(writes), of_body.workspace);
      workspace_bytes_[node.index] = body_.kernels[At(of_body.node.index)].workspace_bytes;
    }
  }

  Held Copy(const std::string& name, const Held& from, const Slot& to) {
    Graph& graph = program_.graph;
    const ValueType type = graph.type(from.value);
    const NodeId node = graph.AddNode({.name = name, .op = "reorder", .inputs = {from.value}, .output_types = {type}});
    AddStep(node, {from.slot}, {to}, {});
    return {graph.node(node).outputs[0], to};
  }

  void AddStep(NodeId node, std::vector<Slot> reads, std::vector<Slot> writes, Slot workspace) {
    const Access serial{.region = {.arena = 0, .begin = 0, .end = 1}, .write = true};  // each waits for the one before
    program_.executable.steps.push_back({.inputs = std::move(reads),
                                         .outputs = std::move(writes),
                                         .workspace = workspace,
                                         .node = node,
                                         .accesses = {serial}});
  }

  Compiled Finished() {
    program_.kernels.resize(program_.graph.node_capacity());
    for (const auto& [node, bytes] : workspace_bytes_) program_.kernels[At(node)].workspace_bytes = bytes;
    const size_t steps = program_.executable.steps.size();
    std::vector<int32_t> sequence(steps);
    std::iota(sequence.begin(), sequence.end(), 0);
    program_.executable.schedule = {.stream_of = std::vector<int32_t>(steps, 0), .streams = {std::move(sequence)}};
    return std::move(program_);
  }

  const RolledLoop& loop_;
  const Compiled& body_;
  Compiled program_;
  int inputs_added_ = 0;
  std::map<int, Slot> results_;                 // by output of the node
  std::vector<Slot> collected_;                 // by Collect
  std::map<size_t, Slot> wholes_;               // of slices that are read in place, by input of the body
  std::map<int32_t, int64_t> workspace_bytes_;  // by node
  std::vector<Held> inputs_, made_, carries_;   // in the round that is laid out
};

absl::Status RolledLoop::Verify() const {
  constexpr absl::string_view kWhat = "where the rounds put things";
  const absl::StatusOr<Compiled> rounds = StraightLine(*this).Make();
  if (!rounds.ok()) return Annotate(rounds.status(), kWhat);
  return Annotate(VerifyExecutable(*rounds), kWhat);
}

}  // namespace snug::core
