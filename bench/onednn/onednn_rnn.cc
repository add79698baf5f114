// oneDNN's own recurrent layer, all of its rounds in one call as it likes them best, in training:
//
//   onednn_rnn lstm|gru WIDTH LENGTH BATCH [THREADS]
//
// Milliseconds of the forward pass and of the backward pass, medians of two seconds each, and what the forward pass
// keeps for the backward one. The GRU is the one with its reset behind the product, as PyTorch's and ours. Weights are
// packed before the clock starts. `snug step --profile` on what bench/recurrent_bench.py writes has our numbers.
#include <absl/strings/numbers.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/parallel.h"

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

struct Sizes {
  int64_t width, length, batch, gates, bias_rows;
};

double MedianMs(dnnl::primitive& primitive, const Arguments& arguments, dnnl::stream& stream) {
  constexpr double kSeconds = 2;
  std::vector<double> times;
  double spent = 0;
  while (spent < kSeconds || times.size() < 5) {
    const auto start = std::chrono::steady_clock::now();
    primitive.execute(stream, arguments);
    stream.wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    spent += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size()) / 2, times.end());
  return 1e3 * times[times.size() / 2];
}

class Layer {
 public:
  Layer(const Sizes& s, bool lstm) : sizes_(s), lstm_(lstm), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void Run() {
    const memory::dim w = sizes_.width, t = sizes_.length, n = sizes_.batch, g = sizes_.gates;
    const auto f32 = memory::data_type::f32;
    const memory::desc sequence({t, n, w}, f32, Tag::tnc), state({1, 1, n, w}, f32, Tag::ldnc);
    const memory::desc weights({1, 1, w, g, w}, f32, Tag::any), bias({1, 1, sizes_.bias_rows, w}, f32, Tag::ldgo);
    if (lstm_) {
      const auto forward = Describe<dnnl::lstm_forward>(dnnl::prop_kind::forward_training, sequence, state, state,
                                                        weights, weights, bias, sequence, state, state);
      const dnnl::lstm_backward::primitive_desc backward({dnnl::prop_kind::backward,
                                                          kDirection,
                                                          sequence,
                                                          state,
                                                          state,
                                                          weights,
                                                          weights,
                                                          bias,
                                                          sequence,
                                                          state,
                                                          state,
                                                          sequence,
                                                          state,
                                                          state,
                                                          weights,
                                                          weights,
                                                          bias,
                                                          sequence,
                                                          state,
                                                          state},
                                                         engine_, forward);
      Time<dnnl::lstm_forward, dnnl::lstm_backward>(forward, backward);
    } else {
      const auto forward = Describe<dnnl::lbr_gru_forward>(dnnl::prop_kind::forward_training, sequence, state, weights,
                                                           weights, bias, sequence, state);
      const dnnl::lbr_gru_backward::primitive_desc backward(
          {dnnl::prop_kind::backward, kDirection, sequence, state, weights, weights, bias, sequence, state, sequence,
           state, weights, weights, bias, sequence, state},
          engine_, forward);
      Time<dnnl::lbr_gru_forward, dnnl::lbr_gru_backward>(forward, backward);
    }
  }

 private:
  static constexpr auto kDirection = dnnl::rnn_direction::unidirectional_left2right;

  template <class Primitive, class... Descs>
  typename Primitive::primitive_desc Describe(dnnl::prop_kind kind, const Descs&... descs) {
    return {{kind, kDirection, descs...}, engine_};
  }

  memory Filled(const memory::desc& desc) {
    memory made(desc, engine_);
    auto* const numbers = static_cast<float*>(made.get_data_handle());
    for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i) numbers[i] = static_cast<float>(i * 7 % 31) / 310;
    return made;
  }

  template <class Forward, class Backward>
  void Time(const typename Forward::primitive_desc& forward, const typename Backward::primitive_desc& backward) {
    Arguments there = {{DNNL_ARG_SRC_LAYER, Filled(forward.src_layer_desc())},
                       {DNNL_ARG_SRC_ITER, Filled(forward.src_iter_desc())},
                       {DNNL_ARG_WEIGHTS_LAYER, Filled(forward.weights_layer_desc())},
                       {DNNL_ARG_WEIGHTS_ITER, Filled(forward.weights_iter_desc())},
                       {DNNL_ARG_BIAS, Filled(forward.bias_desc())},
                       {DNNL_ARG_DST_LAYER, Filled(forward.dst_layer_desc())},
                       {DNNL_ARG_DST_ITER, Filled(forward.dst_iter_desc())},
                       {DNNL_ARG_WORKSPACE, memory(forward.workspace_desc(), engine_)}};
    if constexpr (std::is_same_v<Forward, dnnl::lstm_forward>) {
      there[DNNL_ARG_SRC_ITER_C] = Filled(forward.src_iter_c_desc());
      there[DNNL_ARG_DST_ITER_C] = Filled(forward.dst_iter_c_desc());
    }
    Arguments back = there;
    back[DNNL_ARG_WEIGHTS_LAYER] = Filled(backward.weights_layer_desc());
    back[DNNL_ARG_WEIGHTS_ITER] = Filled(backward.weights_iter_desc());
    back[DNNL_ARG_DIFF_SRC_LAYER] = Filled(backward.diff_src_layer_desc());
    back[DNNL_ARG_DIFF_SRC_ITER] = Filled(backward.diff_src_iter_desc());
    back[DNNL_ARG_DIFF_WEIGHTS_LAYER] = Filled(backward.diff_weights_layer_desc());
    back[DNNL_ARG_DIFF_WEIGHTS_ITER] = Filled(backward.diff_weights_iter_desc());
    back[DNNL_ARG_DIFF_BIAS] = Filled(backward.diff_bias_desc());
    back[DNNL_ARG_DIFF_DST_LAYER] = Filled(backward.diff_dst_layer_desc());
    back[DNNL_ARG_DIFF_DST_ITER] = Filled(backward.diff_dst_iter_desc());
    if constexpr (std::is_same_v<Forward, dnnl::lstm_forward>) {
      back[DNNL_ARG_DIFF_SRC_ITER_C] = Filled(backward.diff_src_iter_c_desc());
      back[DNNL_ARG_DIFF_DST_ITER_C] = Filled(backward.diff_dst_iter_c_desc());
    }
    Forward run(forward);
    Backward run_back(backward);
    const double forward_ms = MedianMs(run, there, stream_), backward_ms = MedianMs(run_back, back, stream_);
    std::printf("forward %.2f ms (%s), backward %.2f ms (%s), keeps %.1f MB\n", forward_ms, forward.impl_info_str(),
                backward_ms, backward.impl_info_str(), 1e-6 * static_cast<double>(forward.workspace_desc().get_size()));
  }

  const Sizes sizes_;
  const bool lstm_;
  dnnl::engine engine_;
  dnnl::stream stream_;
};

int Main(int argc, char** argv) {
  std::array<int64_t, 4> numbers = {0, 0, 0, 1};  // width, length, batch, threads
  bool good = argc == 5 || argc == 6;
  for (int i = 2; good && i < argc; ++i) {
    int64_t& number = numbers[static_cast<size_t>(i) - 2];
    good = absl::SimpleAtoi(argv[i], &number) && number > 0;
  }
  const std::string kind = good ? argv[1] : "";
  if (kind != "lstm" && kind != "gru") {
    std::fprintf(stderr, "usage: onednn_rnn lstm|gru WIDTH LENGTH BATCH [THREADS]\n");
    return 2;
  }
  snug::core::SetThreadsPerOp(static_cast<int>(numbers[3]));
  const bool lstm = kind == "lstm";
  Layer({numbers[0], numbers[1], numbers[2], lstm ? 4 : 3, 4}, lstm).Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {  // dnnl::error is one
    std::fprintf(stderr, "onednn_rnn: %s\n", error.what());
    return 1;
  }
}
