// A small network that learns drawn digits, with everything a training has: dropout, a metric, momentum, a schedule.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <string>

namespace snug::core {

// `steps`: how long, e.g. "steps: 20 evaluate_every: 20"; `samples`: of which there are so many.
inline std::string DigitsNetwork(absl::string_view steps, int samples) {
  constexpr char kLayers[] = R"(
    name: "small"
    input { name: "image" shape { dim: 784 } }
    input { name: "label" dtype: INT32 max_value: 10 }
    layer { name: "fc1" input: "image" dense { units: 32 } }
    layer { name: "act" input: "fc1" relu {} }
    layer { name: "drop" input: "act" dropout { rate: 0.1 } }
    layer { name: "fc2" input: "drop" dense { units: 10 } }
    layer { name: "loss" input: "fc2" input: "label" softmax_cross_entropy {} }
    layer { name: "accuracy" input: "fc2" input: "label" accuracy {} }
    objective: "loss" output: "accuracy"
    optimizer { learning_rate: 0.1 sgd { momentum: 0.9 } }
  )";
  return absl::StrCat(kLayers, "training { ", steps, " data { digits { samples: ", samples,
                      " } } schedule { warm_up: 5 cosine {} } }");
}

}  // namespace snug::core
