#include "engine/compile/control/rolled_loop.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/base/status.h"
#include "engine/compile/control/rounds.h"
#include "engine/compile/pipeline.h"
#include "memory/problem.h"
#include "ops/graph_builder.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

constexpr absl::string_view kKernel = "rounds";

}  // namespace

// Where things are in one run. The arrays lie in the workspace.
struct RolledLoop::State {
  char* workspace = nullptr;
  void** table = nullptr;
  char** buffers = nullptr;  // addresses of the body's buffers
  char** carries = nullptr;  // what each carry is in this round
  char** made = nullptr;     // where each of Made is, or will be, in this round
  char** next = nullptr;     // what each carry is in the next one
};

std::shared_ptr<const RolledLoop> RolledLoop::Create(const Graph& graph, const Node& node, Compiled body) {
  return std::shared_ptr<const RolledLoop>(new RolledLoop(graph, node, std::move(body)));
}

RolledLoop::~RolledLoop() = default;

RolledLoop::RolledLoop(const Graph& graph, const Node& node, Compiled body)
    : body_(std::make_unique<const Compiled>(std::move(body))) {
  const auto& options = node.options.Get<proto::NormalLoop>();
  rounds_ = options.rounds();
  backwards_ = options.backwards();
  if (options.has_key()) key_ = options.key();
  if (options.has_goes_on()) goes_on_ = options.goes_on();
  if (options.has_rounds_run()) rounds_run_ = options.rounds_run();
  if (options.has_only_rounds()) only_rounds_ = options.only_rounds();
  Allocate(body_->executable.memory.step_bytes());
  FindInputs(graph, node, options);
  FindOutputs();
  FindCollects(graph, node, options);
  FindCarries(options);
  PlaceInputs();
  FindRings();
  FindPointers();
  if (goes_on_ >= 0) {
    mask_bytes_ = body_->graph.type(body_->graph.outputs[static_cast<size_t>(goes_on_)].value).size_bytes();
  }
}

int64_t RolledLoop::Allocate(int64_t bytes) {
  const int64_t place = workspace_bytes_;
  workspace_bytes_ += memory::AlignUp(bytes, body_->device.alignment());
  return place;
}

void RolledLoop::FindInputs(const Graph& graph, const Node& node, const proto::NormalLoop& options) {
  const Graph& body = body_->graph;
  inputs_.resize(body.inputs().size());
  for (size_t b = 0; b < body_->bound.size(); ++b) {
    if (!body_->bound[b].input) continue;
    const auto at = absl::c_find(body.inputs(), body_->bound[b].value) - body.inputs().begin();
    inputs_[static_cast<size_t>(at)].buffer = static_cast<int32_t>(b);
  }
  for (int c = 0; c < options.carry_size(); ++c) {
    Input& input = inputs_[static_cast<size_t>(options.carry(c).input())];
    input.source = Source::kCarry;
    input.number = c;
  }
  for (const proto::NormalLoop::Along& scan : options.scan()) {
    const auto port = static_cast<size_t>(scan.port());
    Input& input = inputs_[port];
    input.source = Source::kSlice;
    const ValueType& whole = graph.type(node.inputs[port]);
    const Shape& slice = body.type(body.inputs()[port]).shape;
    const int64_t places = PlacesOfSlice(whole.shape, slice, scan.axis(), scan.stash());
    input.slices = SlicesAlong(whole, places, scan.axis(), scan.reverse(), body_->device.alignment());
    if (scan.has_first()) input.first = scan.first();
  }
  if (options.has_index()) {
    inputs_[static_cast<size_t>(options.index())].source = Source::kIndex;
  }
}

// Tells whether each round reads it into the workspace. Otherwise it has the same address until the loop ends, or is a
// carry.
bool RolledLoop::IsReadByRounds(const Input& input) const {
  return input.source == Source::kIndex || (input.source == Source::kSlice && !input.slices.in_place);
}

void RolledLoop::PlaceInputs() {
  for (Input& input : inputs_) {
    if (!IsReadByRounds(input) || input.made >= 0) continue;
    input.scratch = Allocate(input.source == Source::kIndex ? int64_t{sizeof(int32_t)} : input.slices.bytes());
  }
}

// An output is made by the body, or is one of its inputs as it is.
void RolledLoop::FindOutputs() {
  const Graph& body = body_->graph;
  const StepTasks& tasks = body_->tasks;
  for (const Output& output : body.outputs) {
    const int32_t buffer = tasks.caller_of_value[static_cast<size_t>(output.value.index)];
    SNUG_CHECK_MSG(buffer >= 0, output.name);
    const CallerValue& bound = body_->bound[static_cast<size_t>(buffer)];
    if (bound.input) {
      const auto at = absl::c_find(body.inputs(), bound.value) - body.inputs().begin();
      outputs_.push_back({.input = static_cast<int>(at)});
      continue;
    }
    const auto same = absl::c_find_if(made_, [&](const Made& made) { return made.buffer == buffer; });
    outputs_.push_back({.made = static_cast<int>(same - made_.begin())});
    if (same == made_.end()) made_.push_back({.buffer = buffer, .bytes = body.type(output.value).size_bytes()});
  }
}

void RolledLoop::FindCollects(const Graph& graph, const Node& node, const proto::NormalLoop& options) {
  for (const proto::NormalLoop::Along& along : options.collect()) {
    Collect collect{.output = along.port(), .result = along.result(), .stash = along.stash()};
    const ValueType& whole = graph.type(node.outputs[static_cast<size_t>(along.result())]);
    const Graph& body = body_->graph;
    const Shape& slice = body.type(body.outputs[static_cast<size_t>(along.port())].value).shape;
    const int64_t places = PlacesOfSlice(whole.shape, slice, along.axis(), along.stash());
    collect.slices = SlicesAlong(whole, places, along.axis(), along.reverse(), body_->device.alignment());
    const PutOut& output = outputs_[static_cast<size_t>(along.port())];
    if (output.made >= 0 && collect.slices.in_place && made_[static_cast<size_t>(output.made)].collect < 0) {
      made_[static_cast<size_t>(output.made)].collect = static_cast<int>(collects_.size());
    }
    collects_.push_back(collect);
  }
}

void RolledLoop::FindCarries(const proto::NormalLoop& options) {
  const Graph& body = body_->graph;
  for (const proto::NormalLoop::Carry& carry : options.carry()) {
    PutOut& output = outputs_[static_cast<size_t>(carry.output())];
    const int64_t bytes = body.type(body.inputs()[static_cast<size_t>(carry.input())]).size_bytes();
    if (output.input >= 0 && IsReadByRounds(inputs_[static_cast<size_t>(output.input)])) {
      Input& input = inputs_[static_cast<size_t>(output.input)];
      if (input.made < 0) {
        input.made = static_cast<int>(made_.size());
        made_.push_back({.buffer = input.buffer, .is_input = true, .bytes = bytes});
      }
      output = {.made = input.made};
    }
    carries_.push_back({.input = carry.input(),
                        .output = carry.output(),
                        .result = carry.has_result() ? carry.result() : -1,
                        .bytes = bytes});
  }
  for (Carry& carry : carries_) {
    // Goes back through carries that only change their names, to what a round made.
    const Carry* from = &carry;
    for (size_t steps = 1; steps <= carries_.size(); ++steps) {
      const PutOut& output = outputs_[static_cast<size_t>(from->output)];
      if (output.made >= 0) {
        carry.made = output.made;
        carry.age = static_cast<int>(steps);
        break;
      }
      const Input& input = inputs_[static_cast<size_t>(output.input)];
      if (input.source != Source::kCarry) break;
      from = &carries_[static_cast<size_t>(input.number)];
    }
    if (carry.made < 0) continue;
    Made& made = made_[static_cast<size_t>(carry.made)];
    made.last_use = std::max(made.last_use, carry.age);
  }
}

// Whether the body has read the carry for the last time when it writes `made`, or does both in one Step that works in
// place. Steps of the body run one after the other.
bool RolledLoop::WrittenAfterRead(const Made& made, int carry) const {
  if (made.is_input) return false;
  const int32_t read = inputs_[static_cast<size_t>(carries_[static_cast<size_t>(carry)].input)].buffer;
  // Read after the round: collected as it is.
  for (const Collect& collect : collects_) {
    if (outputs_[static_cast<size_t>(collect.output)].input == carries_[static_cast<size_t>(carry)].input) return false;
  }
  const std::vector<Step>& steps = body_->executable.steps;
  const auto lies_in = [](const Slot& slot, int32_t buffer) {
    return slot.arena == Arena::kCaller && slot.offset >= 0 && slot.block == buffer;
  };
  for (const Step& step : steps) {
    const auto writes = absl::c_count_if(step.outputs, [&](const Slot& slot) { return lies_in(slot, made.buffer); });
    const auto reads = absl::c_count_if(step.inputs, [&](const Slot& slot) { return lies_in(slot, read); });
    if (writes == 0) continue;
    for (const Step* later = &step + 1; later < steps.data() + steps.size(); ++later) {
      if (absl::c_any_of(later->inputs, [&](const Slot& slot) { return lies_in(slot, read); })) return false;
    }
    if (reads == 0) return true;
    if (reads > 1 || writes > 1) return false;
    const auto in = absl::c_find_if(step.inputs, [&](const Slot& slot) { return lies_in(slot, read); });
    const auto out = absl::c_find_if(step.outputs, [&](const Slot& slot) { return lies_in(slot, made.buffer); });
    const auto i = static_cast<int>(in - step.inputs.begin());
    const auto o = static_cast<int>(out - step.outputs.begin());
    if (in->offset != 0 || out->offset != 0 || !(step.types.input(i) == step.types.output(o))) return false;
    const Node& node = body_->graph.node(step.node);
    return absl::c_any_of(body_->registry->Get(node.op).aliases, [&](const Alias& alias) {
      return alias.kind == Alias::Kind::kMayShare && alias.input == i && alias.output == o;
    });
  }
  return false;
}

// The value that round i makes is read until round i + last_use, so last_use + 1 places are enough, or last_use where
// the last reading is over when it is written anew. 0: it is collected, and has no ring.
int RolledLoop::PlacesNeeded(int m) const {
  const Made& made = made_[static_cast<size_t>(m)];
  if (made.collect >= 0) return 0;
  bool after = made.last_use > 0;
  for (size_t c = 0; c < carries_.size(); ++c) {
    const bool oldest = carries_[c].made == m && carries_[c].age == made.last_use;
    if (oldest) after = after && WrittenAfterRead(made, static_cast<int>(c));
  }
  return made.last_use + (after ? 0 : 1);
}

// Rounds find things where the round a turn of all rings earlier found them, so Verify goes through little more than
// two turns. Rings of 3, 5, 7, 11, 13, 17, 19 and 23 places turn once in 111 million rounds. Where a
// turn is longer than kMany rounds and than the longest ring, and the loop has more rounds than that, each ring gets a
// power of two of places: fewer than twice as many, and all turn with the longest.
void RolledLoop::LimitTurn(std::vector<int>& places) const {
  constexpr int64_t kMany = 4096;
  int64_t turn = 1, longest = kMany;
  for (const int count : places) longest = std::max<int64_t>(longest, count);
  if (rounds_ <= longest) return;
  for (const int count : places) {
    if (count > 0) turn = std::lcm(turn, int64_t{count});
    if (turn > longest) {  // which keeps the next product within 64 bits
      for (int& rounded : places) {
        if (rounded > 0) rounded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rounded)));
      }
      return;
    }
  }
}

void RolledLoop::FindRings() {
  const int64_t before = workspace_bytes_;
  std::vector<int> places_of;
  for (size_t m = 0; m < made_.size(); ++m) places_of.push_back(PlacesNeeded(static_cast<int>(m)));
  LimitTurn(places_of);
  for (size_t m = 0; m < made_.size(); ++m) {
    Made& made = made_[m];
    const int places = places_of[m];
    if (places == 0) continue;
    made.ring.assign(static_cast<size_t>(places), std::numeric_limits<int64_t>::min());
    for (const Carry& carry : carries_) {
      // Of a loop that runs once or not at all, the round that there may be is the last one.
      const bool last_known = ends_known() || rounds_ == 1;
      if (!last_known || carry.made != static_cast<int>(m) || carry.result < 0 || carry.age > rounds_) continue;
      int64_t& place = made.ring[static_cast<size_t>((rounds_ - carry.age) % places)];
      if (place == std::numeric_limits<int64_t>::min()) place = -1 - carry.result;
    }
    for (int64_t& place : made.ring) {
      if (place == std::numeric_limits<int64_t>::min()) place = Allocate(made.bytes);
    }
  }
  carry_bytes_ = workspace_bytes_ - before;
}

void RolledLoop::FindPointers() {
  of_buffer_.resize(body_->bound.size());
  for (const Step& step : body_->executable.steps) {
    first_pointer_.push_back(pointers_);
    const auto add = [&](const Slot& slot) {
      const size_t place = pointers_++;
      if (slot.offset < 0) return;
      if (slot.arena == Arena::kCaller) {
        of_buffer_[static_cast<size_t>(slot.block)].push_back({place, slot.offset});
      } else {
        SNUG_CHECK(slot.arena == Arena::kStep);
        of_arena_.emplace_back(place, slot.offset);
      }
    };
    for (const Slot& slot : step.inputs) add(slot);
    for (const Slot& slot : step.outputs) add(slot);
  }
  const size_t words = pointers_ + body_->bound.size() + 2 * carries_.size() + made_.size();
  table_ = Allocate(static_cast<int64_t>(words * sizeof(void*)));
}

RolledLoop::Counts RolledLoop::counts() const {
  return {.runs = runs_.load(),
          .rounds = rounds_run_in_all_.load(),
          .sliced_bytes = sliced_bytes_.load(),
          .last_bytes = last_bytes_.load()};
}

std::vector<int> RolledLoop::CarryBuffers() const {
  std::vector<int> buffers;
  for (const Carry& carry : carries_) {
    const bool made = outputs_[static_cast<size_t>(carry.output)].made >= 0;
    buffers.push_back(made ? static_cast<int>(made_[static_cast<size_t>(carry.made)].ring.size()) : 0);
  }
  return buffers;
}

void RolledLoop::Point(State& s, int32_t buffer, char* address) const {
  if (buffer < 0 || s.buffers[buffer] == address) return;
  s.buffers[buffer] = address;
  for (const Pointer& pointer : of_buffer_[static_cast<size_t>(buffer)])
    s.table[pointer.place] = address + pointer.offset;
}

char* RolledLoop::OutputOf(const State& s, int output) const {
  const PutOut& of = outputs_[static_cast<size_t>(output)];
  if (of.made >= 0) return s.made[of.made];
  return s.buffers[inputs_[static_cast<size_t>(of.input)].buffer];
}

absl::Status RolledLoop::RunRound(const KernelContext& k, State& s, int64_t n, int64_t round) const {
  for (size_t m = 0; m < made_.size(); ++m) {
    const Made& made = made_[m];
    if (made.collect >= 0) {
      const Collect& collect = collects_[static_cast<size_t>(made.collect)];
      s.made[m] = k.output<char>(collect.result) + collect.slices.OffsetOf(round);
    } else {
      const int64_t place = made.ring[static_cast<size_t>(n % static_cast<int64_t>(made.ring.size()))];
      s.made[m] = place < 0 ? k.output<char>(static_cast<int>(-1 - place)) : s.workspace + place;
    }
    Point(s, made.buffer, s.made[m]);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    switch (input.source) {
      case Source::kCaptured:
        break;  // since the loop began
      case Source::kCarry:
        Point(s, input.buffer, s.carries[input.number]);
        break;
      case Source::kIndex: {
        const auto number = static_cast<int32_t>(round);
        char* const place = input.made >= 0 ? s.made[input.made] : s.workspace + input.scratch;
        std::memcpy(place, &number, sizeof(number));
        Point(s, input.buffer, place);
        break;
      }
      case Source::kSlice: {
        auto* const whole = const_cast<char*>(k.input<char>(static_cast<int>(i)));
        const int64_t of = round - (input.first >= 0 ? 1 : 0);
        if (of < 0) {
          auto* const first = const_cast<char*>(k.input<char>(input.first));
          if (input.made >= 0) s.made[input.made] = first;
          Point(s, input.buffer, first);
        } else if (input.slices.in_place) {
          Point(s, input.buffer, whole + input.slices.OffsetOf(of));
        } else {
          char* const place = input.made >= 0 ? s.made[input.made] : s.workspace + input.scratch;
          TakeSlice(input.slices, of, whole, place);
          Point(s, input.buffer, place);
          sliced_bytes_.fetch_add(input.slices.bytes(), std::memory_order_relaxed);
        }
        break;
      }
    }
  }
  const Executable& body = body_->executable;
  const uint64_t shift = k.random_id() + (key_.has_value() ? RandomShift(*key_, round) : 0);
  for (size_t i = 0; i < body.steps.size(); ++i) {
    const Step& step = body.steps[i];
    void* const* const pointers = s.table + first_pointer_[i];
    const absl::Status status = step.kernel->run(
        KernelContext(&step.types, {pointers, step.inputs.size()}, {pointers + step.inputs.size(), step.outputs.size()},
                      step.workspace.offset < 0 ? nullptr : s.workspace + step.workspace.offset, step.prepared.get(),
                      k.threads(), step.random_id + shift));
    if (!status.ok()) {
      const Node& node = body_->graph.node(step.node);
      return Annotate(status, absl::StrCat("round ", round, ", node \"", node.name, "\" (", node.op, ")"));
    }
  }
  for (size_t c = 0; c < collects_.size(); ++c) {
    const Collect& collect = collects_[c];
    const int made = outputs_[static_cast<size_t>(collect.output)].made;
    if (made >= 0 && made_[static_cast<size_t>(made)].collect == static_cast<int>(c)) continue;
    PutSlice(collect.slices, round, OutputOf(s, collect.output), k.output<char>(collect.result));
    sliced_bytes_.fetch_add(collect.slices.bytes(), std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

absl::Status RolledLoop::Run(const KernelContext& k) const {
  State s{.workspace = k.workspace<char>()};
  s.table = reinterpret_cast<void**>(s.workspace + table_);
  std::fill_n(s.table, pointers_, nullptr);
  s.buffers = reinterpret_cast<char**>(s.table + pointers_);
  std::fill_n(s.buffers, body_->bound.size(), nullptr);
  s.carries = s.buffers + body_->bound.size();
  s.made = s.carries + carries_.size();
  s.next = s.made + made_.size();
  for (const auto& [place, offset] : of_arena_) s.table[place] = s.workspace + offset;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    auto* const whole = const_cast<char*>(k.input<char>(static_cast<int>(i)));
    if (input.source == Source::kCaptured) {
      Point(s, input.buffer, whole);
    } else if (input.source == Source::kCarry) {
      s.carries[input.number] = whole;
    }
  }
  RoundLog* const log = log_.load();
  // The straight line of a loop that ends early has rounds that change nothing behind its end.
  const int64_t end = only_rounds_ >= 0 ? std::min<int64_t>(*k.input<int32_t>(only_rounds_), rounds_) : rounds_;
  int64_t done = 0;
  bool goes_on = true;
  while (goes_on && done < end) {
    const int64_t round = RoundOf(done, end, backwards_);
    const int64_t begin_ns = log == nullptr ? 0 : log->now_ns();
    SNUG_RETURN_IF_ERROR(RunRound(k, s, done, round));
    if (log != nullptr && log->count < log->rounds.size()) {
      log->rounds[log->count++] = {round, begin_ns, log->now_ns()};
    } else if (log != nullptr) {
      ++log->left_out;
    }
    ++done;
    if (goes_on_ >= 0) {
      const char* const mask = OutputOf(s, goes_on_);
      goes_on = std::any_of(mask, mask + mask_bytes_, [](char counts) { return counts != 0; });
    }
    // A carry that changes its name may wait for what another one is now, so all are found before one changes.
    for (size_t c = 0; c < carries_.size(); ++c) s.next[c] = OutputOf(s, carries_[c].output);
    std::copy_n(s.next, carries_.size(), s.carries);
  }
  for (const Collect& collect : collects_) {
    if (collect.stash) continue;  // only rounds that have run are read of it
    for (int64_t round = done; round < rounds_; ++round) {
      PutSlice(collect.slices, round, nullptr, k.output<char>(collect.result));
    }
  }
  for (size_t c = 0; c < carries_.size(); ++c) {
    const Carry& carry = carries_[c];
    if (carry.result < 0 || k.output<char>(carry.result) == s.carries[c]) continue;
    std::memcpy(k.output<char>(carry.result), s.carries[c], static_cast<size_t>(carry.bytes));
    last_bytes_.fetch_add(carry.bytes, std::memory_order_relaxed);
  }
  if (rounds_run_ >= 0) *k.output<int32_t>(rounds_run_) = static_cast<int32_t>(done);
  runs_.fetch_add(1, std::memory_order_relaxed);
  rounds_run_in_all_.fetch_add(done, std::memory_order_relaxed);
  return absl::OkStatus();
}

const RolledLoop* RolledLoopOf(const KernelChoice& choice) {
  const bool rolled = choice.kernel != nullptr && choice.kernel->name == kKernel;
  return rolled ? static_cast<const RolledLoop*>(choice.prepared.get()) : nullptr;
}

}  // namespace snug::core
