// Goes through the rounds of a loop with names in the place of numbers: what lies where, and which round wrote it. It
// knows where the kernel puts things and what the Steps of the body read and write, and nothing of how places were
// chosen.
//
// A round repeats the one that is a turn of all rings earlier, with names that are as much younger, once every ring has
// been filled and every carry is what a round made. So of many rounds only the first, one turn more, and what is left
// of a turn at the end are gone through; and memory is an array by the number of a place. A turn is the least common
// multiple of all rings' lengths, which whoever chooses places keeps short (RolledLoop::LimitTurn).
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/pipeline.h"

namespace snug::core {

class RolledLoop::Verifier {
 public:
  explicit Verifier(const RolledLoop& loop) : loop_(loop), window_(static_cast<int64_t>(loop.carries_.size()) + 2) {}

  absl::Status Run() {
    SNUG_RETURN_IF_ERROR(FindPlaces());
    FindAccesses();
    carries_.assign(loop_.carries_.size(), {});  // what the loop got, which nothing writes
    inputs_.resize(loop_.inputs_.size());
    made_.resize(loop_.made_.size());
    const int64_t rounds = RoundsToGoThrough();
    for (int64_t n = 0; n < rounds; ++n) {
      if (!loop_.ends_known()) SNUG_RETURN_IF_ERROR(CheckEnd(n));
      SNUG_RETURN_IF_ERROR(GoThrough(n));
    }
    return CheckEnd(rounds);
  }

 private:
  static constexpr int kNobodyWrites = -1;
  // What lies in a place: what the round made as its number `what`, or, if that is negative, read of a slice.
  struct Name {
    int what = 0;
    int64_t round = -1;
    bool operator==(const Name& other) const = default;
  };
  struct Held {
    int place = kNobodyWrites;
    Name name;
  };
  struct Write {
    int made = 0;
    std::vector<char> in_place;  // by read: whether the Step can write where it reads this
  };
  struct Accesses {  // of a Step, to what is not the body's own
    NodeId node;
    std::vector<int> reads;  // numbers of the body's inputs
    std::vector<Write> writes;
  };

  template <class Number>
  static size_t At(Number number) {
    return static_cast<size_t>(number);
  }

  absl::Status Wrong(int64_t n, const std::string& what) const {
    return absl::InternalError(absl::StrCat("the ", n, "-th round to run: ", what));
  }

  int64_t BytesOf(size_t made) const {
    const Made& of = loop_.made_[made];
    const Graph& body = loop_.body_->graph;
    return body.type(loop_.body_->bound[At(of.buffer)].value).size_bytes();
  }

  struct Range {  // of the workspace
    int64_t begin = 0, bytes = 0;
    bool ring = false;  // a place of what rounds make: two may share it
    std::string what;
  };

  // Sorts them. Places of what rounds make are the same or have no byte in common: whether it is right that they are
  // the same, rounds will tell. Everything else is apart.
  absl::Status CheckRanges(std::vector<Range>& ranges) const {
    std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    const Range* before = nullptr;  // the one that ends last
    for (const Range& range : ranges) {
      if (range.bytes == 0) continue;
      if (range.begin < 0 || range.begin + range.bytes > loop_.workspace_bytes_) {
        return absl::InternalError(absl::StrCat(range.what, " lies at ", range.begin, " to ", range.begin + range.bytes,
                                                " of a workspace of ", loop_.workspace_bytes_, " bytes"));
      }
      if (before != nullptr && range.begin < before->begin + before->bytes &&
          !(range.ring && before->ring && range.begin == before->begin)) {
        return absl::InternalError(
            absl::StrCat(range.what, " begins at ", range.begin, " of the workspace, where ", before->what, " lies"));
      }
      if (before == nullptr || range.begin + range.bytes > before->begin + before->bytes) before = &range;
    }
    return absl::OkStatus();
  }

  // Numbers all places that the loop writes.
  absl::Status FindPlaces() {
    std::vector<Range> ranges;
    ranges.push_back({0, loop_.body_->executable.memory.step_bytes(), false, "the body's arena"});
    const auto words = loop_.pointers_ + loop_.body_->bound.size() + 2 * loop_.carries_.size() + loop_.made_.size();
    ranges.push_back({loop_.table_, static_cast<int64_t>(words * sizeof(void*)), false, "the table of pointers"});
    for (size_t i = 0; i < loop_.inputs_.size(); ++i) {
      const Input& input = loop_.inputs_[i];
      if (input.scratch < 0) continue;
      const int64_t bytes = input.source == Source::kIndex ? sizeof(int32_t) : input.slices.bytes();
      ranges.push_back({input.scratch, bytes, false, absl::StrCat("what is read as input ", i)});
    }
    for (size_t m = 0; m < loop_.made_.size(); ++m) {
      const Made& made = loop_.made_[m];
      if (made.collect >= 0) continue;
      if (made.ring.empty()) return absl::InternalError(absl::StrCat("value ", m, " has no place"));
      for (const int64_t place : made.ring) {
        if (place >= 0) {
          ranges.push_back({place, BytesOf(m), true, absl::StrCat("value ", m)});
          continue;
        }
        const bool of_carry = absl::c_any_of(loop_.carries_, [&](const Carry& carry) {
          return carry.result == -1 - place && carry.bytes == BytesOf(m);
        });
        if (of_carry) continue;
        return absl::InternalError(
            absl::StrCat("value ", m, " lies in output ", -1 - place, ", which is no carry of ", BytesOf(m), " bytes"));
      }
    }
    SNUG_RETURN_IF_ERROR(CheckRanges(ranges));
    std::vector<int64_t> begins;
    for (const Range& range : ranges) {
      if (begins.empty() || begins.back() != range.begin) begins.push_back(range.begin);
    }
    const auto number = [&](int64_t begin) {
      return static_cast<int>(std::lower_bound(begins.begin(), begins.end(), begin) - begins.begin());
    };
    const auto first_output = static_cast<int>(begins.size());
    int outputs = 0;
    for (const Carry& carry : loop_.carries_) outputs = std::max(outputs, carry.result + 1);
    for (const Input& input : loop_.inputs_)
      scratch_.push_back(input.scratch < 0 ? kNobodyWrites : number(input.scratch));
    for (const Made& made : loop_.made_) {
      std::vector<int>& ring = rings_.emplace_back();
      if (made.collect >= 0) continue;
      for (const int64_t place : made.ring) {
        ring.push_back(place < 0 ? first_output + static_cast<int>(-1 - place) : number(place));
      }
    }
    first_output_ = first_output;
    first_collected_ = first_output + outputs;
    // Of a collected value, the slices of the last rounds are told apart.
    memory_.resize(At(first_collected_) + loop_.collects_.size() * At(window_));
    return absl::OkStatus();
  }

  void FindAccesses() {
    std::vector<int> input_of(loop_.body_->bound.size(), -1);
    for (size_t i = 0; i < loop_.inputs_.size(); ++i) {
      if (loop_.inputs_[i].buffer >= 0) input_of[At(loop_.inputs_[i].buffer)] = static_cast<int>(i);
    }
    const auto outside = [](const Slot& slot) { return slot.offset >= 0 && slot.arena == Arena::kCaller; };
    for (const Step& step : loop_.body_->executable.steps) {
      Accesses accesses{.node = step.node};
      std::vector<size_t> slots;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (!outside(step.inputs[i])) continue;
        // What an earlier Step of the round put out is read where it was written, in the same round.
        const int input = input_of[At(step.inputs[i].block)];
        accesses.reads.push_back(input >= 0 ? input : -1 - MadeIn(step.inputs[i].block));
        slots.push_back(i);
      }
      const OpDef& op = loop_.body_->registry->Get(loop_.body_->graph.node(step.node).op);
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        if (!outside(step.outputs[o])) continue;
        Write write{.made = MadeIn(step.outputs[o].block)};
        for (const size_t i : slots) {
          const bool whole = step.inputs[i].offset == 0 && step.outputs[o].offset == 0;
          write.in_place.push_back(
              whole && step.types.input(static_cast<int>(i)) == step.types.output(static_cast<int>(o)) &&
              absl::c_any_of(op.aliases, [&](const Alias& alias) {
                return alias.kind != Alias::Kind::kMutates && At(alias.input) == i && At(alias.output) == o;
              }));
        }
        accesses.writes.push_back(std::move(write));
      }
      if (!accesses.reads.empty() || !accesses.writes.empty()) accesses_.push_back(std::move(accesses));
    }
  }

  int MadeIn(int32_t buffer) const {
    const auto found = absl::c_find_if(loop_.made_, [&](const Made& made) { return made.buffer == buffer; });
    SNUG_CHECK(found != loop_.made_.end());
    return static_cast<int>(found - loop_.made_.begin());
  }

  int64_t RoundsToGoThrough() const {
    int64_t turn = 1, filled = window_;
    for (const std::vector<int>& ring : rings_) {
      if (ring.empty()) continue;
      turn = std::lcm(turn, static_cast<int64_t>(ring.size()));
      filled = std::max(filled, static_cast<int64_t>(ring.size()));
      if (turn >= loop_.rounds_) return loop_.rounds_;
    }
    if (loop_.rounds_ <= filled + 2 * turn) return loop_.rounds_;
    return filled + turn + (loop_.rounds_ - filled) % turn;
  }

  bool IsThere(const Held& held) const { return held.place == kNobodyWrites || memory_[At(held.place)] == held.name; }

  const Held& OutputOf(int output) const {
    const PutOut& of = loop_.outputs_[At(output)];
    return of.made >= 0 ? made_[At(of.made)] : inputs_[At(of.input)];
  }

  absl::Status GoThrough(int64_t n) {
    for (size_t m = 0; m < made_.size(); ++m) {
      const Made& of = loop_.made_[m];
      made_[m].name = {static_cast<int>(m), n};
      made_[m].place = of.collect >= 0 ? first_collected_ + static_cast<int>(of.collect * window_ + n % window_)
                                       : rings_[m][At(n) % rings_[m].size()];
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = loop_.inputs_[i];
      if (input.source == Source::kCarry) {
        inputs_[i] = carries_[At(input.number)];
      } else if (input.made >= 0) {
        inputs_[i] = made_[At(input.made)];
        memory_[At(inputs_[i].place)] = inputs_[i].name;
      } else if (scratch_[i] != kNobodyWrites) {
        inputs_[i] = {scratch_[i], {-1 - static_cast<int>(i), n}};
        memory_[At(scratch_[i])] = inputs_[i].name;
      }
    }
    for (const Accesses& step : accesses_) SNUG_RETURN_IF_ERROR(RunStep(step, n));
    for (const Collect& collect : loop_.collects_) {
      if (IsThere(OutputOf(collect.output))) continue;
      return Wrong(n,
                   absl::StrCat("output ", collect.output, " of the body is collected when it has been written over"));
    }
    next_.clear();
    for (const Carry& carry : loop_.carries_) {
      next_.push_back(OutputOf(carry.output));
      if (IsThere(next_.back())) continue;
      return Wrong(n, absl::StrCat("carry ", next_.size() - 1, " has been written over when the round ends"));
    }
    carries_.swap(next_);
    return absl::OkStatus();
  }

  absl::Status RunStep(const Accesses& step, int64_t n) {
    const auto read = [&](int number) -> const Held& {
      return number >= 0 ? inputs_[At(number)] : made_[At(-1 - number)];
    };
    const auto name = [&] { return absl::StrCat("\"", loop_.body_->graph.node(step.node).name, "\""); };
    for (const int number : step.reads) {
      if (IsThere(read(number))) continue;
      return Wrong(
          n, absl::StrCat(name(), " reads ", number >= 0 ? "input " : "value ", number >= 0 ? number : -1 - number,
                          " of the body, but something else has been written there"));
    }
    for (const Write& write : step.writes) {
      const Held& made = made_[At(write.made)];
      int over = 0;
      for (size_t r = 0; r < step.reads.size(); ++r) {
        if (read(step.reads[r]).place != made.place) continue;
        if (write.in_place[r] && ++over == 1) continue;
        return Wrong(n, absl::StrCat(name(), " writes value ", write.made, " over what it reads"));
      }
      memory_[At(made.place)] = made.name;
    }
    return absl::OkStatus();
  }

  // Behind the last round, what is not there yet is copied to the outputs, one after the other.
  absl::Status CheckEnd(int64_t n) const {
    for (size_t c = 0; c < carries_.size(); ++c) {
      const int result = loop_.carries_[c].result;
      if (result < 0) continue;
      if (!IsThere(carries_[c])) return Wrong(n, absl::StrCat("carry ", c, " has been written over at the end"));
      const int output = first_output_ + result;
      if (carries_[c].place == output) continue;
      for (size_t later = c + 1; later < carries_.size(); ++later) {
        if (loop_.carries_[later].result < 0 || carries_[later].place != output) continue;
        return Wrong(n, absl::StrCat("carry ", c, " is copied over carry ", later, " at the end"));
      }
    }
    return absl::OkStatus();
  }

  const RolledLoop& loop_;
  const int64_t window_;                 // rounds after which no carry is any more what a round made
  std::vector<int> scratch_;             // by input of the body: its place
  std::vector<std::vector<int>> rings_;  // by Made
  int first_output_ = 0, first_collected_ = 0;
  std::vector<Accesses> accesses_;
  std::vector<Name> memory_;  // by place
  std::vector<Held> inputs_, made_, carries_, next_;
};

absl::Status RolledLoop::Verify() const { return Annotate(Verifier(*this).Run(), "where the rounds put things"); }

}  // namespace snug::core
