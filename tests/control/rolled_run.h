// What tests of loops that stay nodes share: an LSTM in a loop, two steps of training, and the loops of a program.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"
#include "tests/control/lstm_cell.h"

namespace snug::core::test {

// The rolled loops of a program, by the names of their nodes.
inline std::map<std::string, const RolledLoop*> Rolled(const Compiled& compiled) {
  std::map<std::string, const RolledLoop*> loops;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
    if (loop != nullptr) loops[compiled.graph.node(id).name] = loop;
  }
  return loops;
}

// An LSTM of `units` over `length` steps, trained on a sum of squares. Sequences lie [length, batch, units] if
// `time_first`.
inline std::string Lstm(int batch, int length, int units, bool time_first) {
  return LstmCell(units, /*second_bias=*/false) +
         absl::Substitute(R"(
    batch: $0
    input { name: "x" $1 }
    input { name: "h" shape { dim: $2 } }
    input { name: "c" shape { dim: $2 } }
    layer { name: "lstm" input: "x" input: "h" input: "c" loop { body: "cell" scan { input: "x" $3 }
      carry { input: "h" output: "h_next" } carry { input: "c" output: "c_next" } collect { output: "h_next" $3 } } }
    layer { name: "squares" input: "lstm:2" square {} }
    layer { name: "last" input: "lstm" input: "lstm:1" mul {} }
    layer { name: "a" input: "squares" reduce_mean {} }
    layer { name: "b" input: "last" reduce_mean {} }
    layer { name: "loss" input: "a" input: "b" add {} }
    objective: "loss" output: "lstm:2")",
                          batch,
                          time_first
                              ? absl::StrCat("no_batch: true shape { dim: [", length, ", ", batch, ", ", units, "] }")
                              : absl::StrCat("shape { dim: [", length, ", ", units, "] }"),
                          units, time_first ? "axis: 0" : "");
}

}  // namespace snug::core::test
