// Small networks for the tests of the library.
#pragma once

#include "snug/snug.h"

namespace snug::testing {

// x [4] -> dense 8 -> tanh -> dense 3, with a loss over y.
inline Network SmallNetwork() {
  Network network("small");
  network.Input("x", {4}).Input("y", {}, DType::kInt32);
  network.Layer("fc", "dense", {"x"}, {{"units", 8}}).Layer("act", "tanh", {"fc"});
  network.Layer("out", "dense", {"act"}, {{"units", 3}});
  network.Layer("loss", "softmax_cross_entropy", {"out", "y"}).Objective("loss");
  network.Output("out").Optimizer({{"learning_rate", 0.1}, {"sgd.momentum", 0.9}});
  return network;
}

constexpr const char* kSmallText = R"(
name: "small"
input { name: "x" shape { dim: 4 } }
input { name: "y" dtype: INT32 }
layer { name: "fc" input: "x" dense { units: 8 } }
layer { name: "act" input: "fc" tanh {} }
layer { name: "out" input: "act" dense { units: 3 } }
layer { name: "loss" input: "out" input: "y" softmax_cross_entropy {} }
objective: "loss"
output: "out"
optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
)";

inline const std::vector<float> kX = {1, 0, -1, 2, 0.5F, 1, 0, -2};  // of batch 2
inline const std::vector<int32_t> kY = {0, 2};

}  // namespace snug::testing
