#include "tests/memory/large_tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

class Builder {
 public:
  // Adds a task that reads `inputs` and writes a value of `bytes`; returns the value. It may be written over `over`.
  int32_t Add(absl::string_view what, int64_t bytes, std::vector<int32_t> inputs, int32_t over = -1) {
    const int32_t task = tasks_.size();
    tasks_.names.push_back(absl::StrCat(what, task));
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (const int32_t input : inputs) {
      if (input >= 0) tasks_.values[static_cast<size_t>(input)].readers.push_back(task);
    }
    const int32_t value = AddValue(absl::StrCat(what, task), bytes, task);
    if (over >= 0) tasks_.in_place.push_back({value, over});
    return value;
  }

  int32_t Weight(int64_t bytes) {
    const int32_t value = AddValue("weight", bytes, -1);
    tasks_.values[static_cast<size_t>(value)].resident = true;
    return value;
  }

  // A value that is fed, read by what names it as an input.
  int32_t Input(int64_t bytes) { return AddValue("input", bytes, -1); }

  void Fetch(int32_t value) { tasks_.values[static_cast<size_t>(value)].fetched = true; }

  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  // Of an activation: one of a few sizes, as networks have.
  int64_t ActivationBytes() { return int64_t{256} << Below(6); }
  int64_t WeightBytes() { return 64 * (1 + Below(64)); }

  int size() const { return tasks_.size(); }
  Tasks Take() { return std::move(tasks_); }

 private:
  int32_t AddValue(std::string name, int64_t bytes, int32_t producer) {
    tasks_.values.push_back({.name = std::move(name), .size_bytes = bytes, .producer = producer});
    return static_cast<int32_t>(tasks_.values.size()) - 1;
  }

  Tasks tasks_;
  std::mt19937 random_{20260101};
};

// What the backward pass of a layer needs.
struct Layer {
  int32_t input = -1, output = -1, weight = -1;
  int64_t input_bytes = 0;
};

Layer Forward(Builder* b, int32_t input, int64_t input_bytes, int64_t bytes) {
  Layer layer{.input = input, .weight = b->Weight(b->WeightBytes()), .input_bytes = input_bytes};
  layer.output = b->Add("layer", bytes, {input, layer.weight});
  return layer;
}

// Returns the gradient of the layer's input; that of its weight is made and used up by an update.
int32_t Backward(Builder* b, const Layer& layer, int32_t gradient) {
  const int32_t of_weight = b->Add("gradient_of_weight", b->WeightBytes(), {layer.input, gradient});
  b->Add("update", 0, {of_weight, layer.weight});
  return b->Add("gradient", layer.input_bytes, {gradient, layer.weight});
}

// A row of layers, every second of which is added to what was there two layers before.
class Chain {
 public:
  Chain(Builder* b, int32_t input, int64_t bytes) : b_(b), at_(input), bytes_(bytes) {}

  void AddLayer() {
    layers_.push_back(Forward(b_, at_, bytes_, bytes_));
    at_ = b_->Add("relu", bytes_, {layers_.back().output}, layers_.back().output);
    relus_.push_back(at_);
    if (layers_.size() % 2 == 0) at_ = b_->Add("add", bytes_, {at_, layers_[layers_.size() - 2].input}, at_);
  }

  int32_t end() const { return at_; }

  int32_t Differentiate(int32_t gradient) {
    int32_t shortcut = -1;
    for (size_t i = layers_.size(); i-- > 0;) {
      if (i % 2 == 1) shortcut = gradient;
      int32_t inner = b_->Add("relu_gradient", bytes_, {gradient, relus_[i]});
      inner = Backward(b_, layers_[i], inner);
      gradient = i % 2 == 1 || shortcut < 0 ? inner : b_->Add("sum", bytes_, {inner, shortcut}, inner);
    }
    return gradient;
  }

 private:
  Builder* b_;
  int32_t at_;
  const int64_t bytes_;
  std::vector<Layer> layers_;
  std::vector<int32_t> relus_;
};

void BuildChain(Builder* b, int tasks) {
  Chain chain(b, b->Input(4096), 4096);
  while (b->size() * 3 < tasks) chain.AddLayer();
  chain.Differentiate(b->Add("loss", 4096, {chain.end()}));
}

void BuildTowers(Builder* b, int tasks) {
  constexpr int kTowers = 16;
  const int32_t input = b->Input(4096);
  std::vector<Chain> towers;
  std::vector<int32_t> ends;
  for (int i = 0; i < kTowers; ++i) {
    towers.emplace_back(b, input, b->ActivationBytes());
    const int until = b->size() + tasks / kTowers / 3;
    while (b->size() < until) towers.back().AddLayer();
    ends.push_back(towers.back().end());
  }
  const int32_t loss = b->Add("loss", 64, ends);
  for (Chain& tower : towers) tower.Differentiate(b->Add("gradient_of_loss", 4096, {loss}));
}

void BuildBranches(Builder* b, int tasks) {
  constexpr int kWays = 4;
  struct Block {
    int32_t input = -1;
    int64_t bytes = 0;
    std::vector<std::pair<Layer, Layer>> ways;
  };
  std::vector<Block> blocks;
  int32_t at = b->Input(4096);
  int64_t bytes = 4096;
  while (b->size() * 3 < tasks) {
    Block block{.input = at, .bytes = bytes};
    std::vector<int32_t> ends;
    int64_t sum = 0;
    for (int i = 0; i < kWays; ++i) {
      const int64_t inner = b->ActivationBytes(), outer = b->ActivationBytes();
      const Layer first = Forward(b, at, bytes, inner);
      const Layer second = Forward(b, first.output, inner, outer);
      block.ways.emplace_back(first, second);
      ends.push_back(second.output);
      sum += outer;
    }
    blocks.push_back(std::move(block));
    at = b->Add("concat", sum, ends);
    bytes = sum;
  }
  int32_t gradient = b->Add("loss", bytes, {at});
  for (size_t i = blocks.size(); i-- > 0;) {
    const Block& block = blocks[i];
    std::vector<int32_t> parts;
    for (const auto& [first, second] : block.ways) {
      const int32_t part = b->Add("slice", b->ActivationBytes(), {gradient});
      parts.push_back(Backward(b, first, Backward(b, second, part)));
    }
    gradient = b->Add("sum", block.bytes, parts, parts[0]);
  }
}

void BuildRounds(Builder* b, int tasks) {
  const int32_t weight = b->Weight(1 << 16);
  std::vector<std::pair<int32_t, int32_t>> rounds;  // the state before, and the gates
  int32_t state = b->Input(1024);
  while (b->size() * 5 < 2 * tasks) {
    const int32_t x = b->Input(256);
    const int32_t gates = b->Add("gates", 4096, {x, state, weight});
    rounds.emplace_back(state, gates);
    state = b->Add("cell", 1024, {gates, state});
  }
  int32_t gradient = b->Add("loss", 1024, {state});
  int32_t of_weight = b->Add("zeros", 1 << 16, {});
  for (size_t i = rounds.size(); i-- > 0;) {
    const auto& [before, gates] = rounds[i];
    const int32_t of_gates = b->Add("gradient_of_gates", 4096, {gates, gradient}, gates);
    of_weight = b->Add("accumulate", 1 << 16, {of_weight, of_gates, before}, of_weight);
    gradient = b->Add("gradient", 1024, {of_gates, weight});
  }
  b->Add("update", 0, {of_weight, weight});
}

void BuildThicket(Builder* b, int tasks) {
  std::vector<int32_t> values = {b->Input(1024)};
  while (b->size() < tasks) {
    std::vector<int32_t> inputs;
    for (int64_t i = b->Below(3); i >= 0; --i) {
      const auto back = b->Below(std::min<int64_t>(40, static_cast<int64_t>(values.size())));
      inputs.push_back(values[values.size() - 1 - static_cast<size_t>(back)]);
    }
    values.push_back(b->Add("task", 64 * (1 + b->Below(64)), inputs));
  }
  b->Fetch(values.back());
}

constexpr absl::string_view kKinds[] = {"chain", "branches", "rounds", "towers", "thicket"};

}  // namespace

absl::Span<const absl::string_view> LargeTasksKinds() { return kKinds; }

Tasks LargeTasks(absl::string_view kind, int tasks) {
  constexpr void (*kBuild[])(Builder*, int) = {BuildChain, BuildBranches, BuildRounds, BuildTowers, BuildThicket};
  Builder builder;
  const auto at = std::find(std::begin(kKinds), std::end(kKinds), kind);
  SNUG_CHECK_MSG(at != std::end(kKinds), kind);
  kBuild[at - std::begin(kKinds)](&builder, tasks);
  return builder.Take();
}

}  // namespace snug::core::memory
