// The cell of an LSTM, in layers: a block "cell" with the inputs x, h and c and the outputs h_next and c_next.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>

#include <string>

namespace snug::core::test {

// `second_bias`: the product of h has one, too, as PyTorch's.
inline std::string LstmCell(int units, bool second_bias = true) {
  return absl::Substitute(R"(
    block { name: "cell" input: "x" input: "h" input: "c"
      layer { name: "ih" input: "$$x" dense { units: $0 } }
      layer { name: "hh" input: "$$h" dense { units: $0 $1 } }
      layer { name: "sum" input: "ih" input: "hh" add {} }
      layer { name: "gates" input: "sum" split { parts: 4 axis: -1 } }
      layer { name: "i" input: "gates" sigmoid {} }
      layer { name: "f" input: "gates:1" sigmoid {} }
      layer { name: "g" input: "gates:2" tanh {} }
      layer { name: "o" input: "gates:3" sigmoid {} }
      layer { name: "kept" input: "f" input: "$$c" mul {} }
      layer { name: "added" input: "i" input: "g" mul {} }
      layer { name: "c_next" input: "kept" input: "added" add {} }
      layer { name: "bounded" input: "c_next" tanh {} }
      layer { name: "h_next" input: "o" input: "bounded" mul {} }
      output: "h_next" output: "c_next" })",
                          4 * units, second_bias ? "" : "bias: false");
}

}  // namespace snug::core::test
