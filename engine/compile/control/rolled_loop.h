// The kernel of a loop that stays a node: it runs the Steps of the body, round by round, on bytes that the plan gave
// it.
//
// Its workspace is the body's arena, buffers between which carries alternate, and a table of the pointers that the
// Steps read. No data moves between rounds; pointers do:
//
//   * A carry that the body computes has n buffers, and round i writes number i % n; the next round reads it there.
//   Round
//     0 reads what the loop's input is. n is how many rounds a value is still read after its own, plus one; without
//     that one where the body has read the old value when it writes the new one, or writes it in place: then both share
//     one address. One of the buffers is the loop's output, so that the last round leaves the carry there. Where many
//     carries alternate between different n and it would take long until all do so anew, n is rounded up (FindRings).
//   * A carry that only changes its name (the body puts out an input as it is) is a pointer that is handed on.
//   * A slice along axis 0 is a pointer into the sequence, and what is collected along axis 0, stashes too, is written
//     where it belongs. A carry that is collected is read there by the next round. Slices that are not one range of
//     bytes are read into the workspace by the round, and written from there. If such a slice, or the number of the
//     round, is carried on as it is, the round reads it into one of n buffers, as if it had made it.
//
// All that changes during a run lies in the workspace: the kernel itself is immutable, but for the counts of what it
// did and the log of when. Thread-safe.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/loop_slices.h"
#include "engine/compile/kernels/choose.h"
#include "engine/graph/graph.h"
#include "ops/kernel_context.h"

namespace snug::proto {
class NormalLoop;
}

namespace snug::core {

struct Compiled;

// When the rounds of a loop ran.
struct RoundLog {
  struct Round {
    int64_t number = 0, begin_ns = 0, end_ns = 0;
  };
  int64_t (*now_ns)() = nullptr;
  std::vector<Round> rounds;  // the first `count` are written; there is room for no more than these
  size_t count = 0;
  int64_t left_out = 0;  // for want of room
};

class RolledLoop : public std::enable_shared_from_this<RolledLoop> {
 public:
  // What was done since it was compiled, in all runs.
  struct Counts {
    int64_t runs = 0, rounds = 0;
    // All that it copied: what one round leaves to the next is never among it.
    int64_t sliced_bytes = 0;  // because slices are not one range of bytes
    int64_t last_bytes = 0;    // after the last round, into the loop's outputs
  };

  // `body` is planned, with its inputs and outputs bound: those that `buffers` says. `node` is the loop.
  static std::shared_ptr<const RolledLoop> Create(const Graph& graph, const Node& node, Compiled body);
  RolledLoop(const RolledLoop&) = delete;
  RolledLoop& operator=(const RolledLoop&) = delete;
  ~RolledLoop();

  int64_t rounds() const { return rounds_; }  // at most
  // Whether all of them run; otherwise the end is known at run time.
  bool ends_known() const { return goes_on_ < 0 && only_rounds_ < 0; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const Compiled& body() const { return *body_; }
  Counts counts() const;
  // Checks, in the straight line of the rounds, that every Step and every carry finds what it is to read
  // (verify_rounds.cc). An error is Internal: a bug of ours.
  absl::Status Verify() const;
  // For each carry, between how many buffers it alternates; 0: it is a pointer that is handed on.
  std::vector<int> CarryBuffers() const;
  // Has runs write down their rounds, until null is set. No two runs may be at once, and none while this is called.
  void SetLog(RoundLog* log) const { log_.store(log); }
  int64_t carry_bytes() const { return carry_bytes_; }  // of the workspace

  absl::Status Run(const KernelContext& k) const;

 private:
  friend class RolledLoopFaults;  // of tests: puts things in wrong places
  class StraightLine;
  enum class Source : uint8_t { kCaptured, kCarry, kSlice, kIndex };
  struct Input {  // of the body
    Source source = Source::kCaptured;
    int number = 0;        // of the carry or slice
    int32_t buffer = -1;   // the body's buffer that it is bound to; -1: nobody reads it
    int64_t scratch = -1;  // where it is read into in the workspace, if it is, and is not carried on as it is:
    int made = -1;         // then it is read into the place of this
    LoopSlices slices;
    int first = -1;  // of slices one round late: the loop's input that the first round gets
  };
  // What a round writes that outlasts it: an output of the body's kernels, or an input that it reads into the
  // workspace.
  struct Made {
    int32_t buffer = -1;  // the body's
    bool is_input = false;
    int64_t bytes = 0;
    int collect = -1;           // written into what is collected, where the round's slice is
    std::vector<int64_t> ring;  // else: places in the workspace, by number modulo their count; < 0: result -1 - place
    int last_use = 0;           // how many rounds later carries still read it, at most
  };
  struct PutOut {
    int made = -1;   // or:
    int input = -1;  // that input as it is
  };
  struct Carry {
    int input = 0, output = 0, result = -1;
    int made = -1, age = 0;  // what it reads, and from how many rounds ago; -1: never what a round made
    int64_t bytes = 0;
  };
  struct Collect {
    int output = 0, result = -1;
    bool stash = false;
    LoopSlices slices;
  };
  struct Pointer {
    size_t place;  // in the table
    int64_t offset;
  };
  struct State;

  RolledLoop(const Graph& graph, const Node& node, Compiled body);
  void FindInputs(const Graph& graph, const Node& node, const proto::NormalLoop& options);
  void FindOutputs();
  void FindCollects(const Graph& graph, const Node& node, const proto::NormalLoop& options);
  void FindCarries(const proto::NormalLoop& options);
  void PlaceInputs();
  void FindRings();
  int PlacesNeeded(int made) const;
  void LimitTurn(std::vector<int>& places) const;
  void FindPointers();
  bool WrittenAfterRead(const Made& made, int carry) const;
  int64_t Allocate(int64_t bytes);
  bool IsReadByRounds(const Input& input) const;

  absl::Status RunRound(const KernelContext& k, State& s, int64_t n, int64_t round) const;
  void Point(State& s, int32_t buffer, char* address) const;
  char* OutputOf(const State& s, int output) const;

  std::unique_ptr<const Compiled> body_;
  int64_t rounds_ = 0;
  bool backwards_ = false;
  std::optional<uint64_t> key_;  // of the random numbers of its rounds; without one they are those of the body
  int goes_on_ = -1, rounds_run_ = -1, only_rounds_ = -1;
  int64_t mask_bytes_ = 0;
  std::vector<Input> inputs_;
  std::vector<Made> made_;
  std::vector<PutOut> outputs_;
  std::vector<Carry> carries_;
  std::vector<Collect> collects_;
  std::vector<size_t> first_pointer_;                 // by Step
  std::vector<std::pair<size_t, int64_t>> of_arena_;  // places in the table, and offsets in the body's arena
  std::vector<std::vector<Pointer>> of_buffer_;       // by the body's buffer
  size_t pointers_ = 0;
  int64_t table_ = 0;  // where the table begins in the workspace
  int64_t carry_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
  mutable std::atomic<RoundLog*> log_{nullptr};
  mutable std::atomic<int64_t> runs_{0}, rounds_run_in_all_{0}, sliced_bytes_{0}, last_bytes_{0};
};

// The loop that this kernel runs, or null.
const RolledLoop* RolledLoopOf(const KernelChoice& choice);

}  // namespace snug::core
