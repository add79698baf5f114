// What a loop does with the inputs and outputs of its body (Network::Loop). Names are those of the body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace snug {
inline namespace v0 {

struct LoopOptions {
  // The body's input is the loop's at first, and then what the body put out in the round before.
  struct Carry {
    std::string input, output;
  };
  // A slice for each round: of an input of the loop, or of one of its outputs. The whole has them along `axis`.
  struct Along {
    std::string name;
    int64_t axis = 1;
    bool reverse = false;
  };

  std::vector<Carry> carries;
  std::vector<Along> scans;      // inputs that are read slice by slice; others are captured: every round reads the same
  std::vector<Along> collects;   // outputs of all rounds
  std::optional<int64_t> times;  // rounds, or the most that there may be; if absent, as many as there are slices
  bool counted = false;          // the loop's last input says how many: one integer, or one for each sample
  std::string condition;         // the output that is not 0 in a round that counts; empty: there is none
  std::string index;             // the input that gets the round's number; empty: there is none
  bool stop_at_bound = false;    // whether a loop just ends that would go on; otherwise it gives NaN
};

}  // namespace v0
}  // namespace snug
