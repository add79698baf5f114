#include "tests/cuda/random_chains.h"

#include <absl/strings/str_cat.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"
#include "proto/data_type.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::test {
namespace {

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {
    for (const OpDef* op : OpRegistry::Builtin().all()) {
      if (op->elementwise.expression != nullptr && op->name != "broadcast_to") ops_.push_back(op);
    }
  }

  RandomChain Make() {
    const Shape shapes[] = {{64},    {4, 8},  {3, 5, 7}, {2, 3, 4, 4}, {1, 6},        {130},
                            {3, 70}, {90, 5}, {3, 256},  {40, 24},     {2, 16, 3, 4}, {1003}};
    shape_ = shapes[Below(12)];
    dtype_ = std::vector<DType>{DType::kFloat32, DType::kBFloat16, DType::kFloat64}[Below(3)];
    layout_ = shape_.rank() == 4 && Below(2) == 0 ? Layout::ChannelsLast() : Layout::Plain();
    RandomChain made;
    const size_t inputs = 1 + Below(4);
    for (size_t i = 0; i < inputs; ++i) {
      const Shape shape = i == 0 ? shape_ : Smaller();
      const bool full = shape.rank() == shape_.rank();
      values_.push_back({dtype_, shape, full ? layout_ : Layout::Plain()});
    }
    made.types.inputs = values_;
    made.types.present.assign(inputs, true);
    const size_t members = 2 + Below(10);
    while (specs_.size() < members) TryMember();
    if (Below(3) == 0 && IsFloating(values_.back().dtype)) {
      specs_.push_back(Reduction());
      made.op = "fused_reduce";
    }
    made.types.options = FusedOptions(specs_);
    SNUG_CHECK_OK(InferTypes(OpRegistry::Builtin().Get(made.op), &made.types));
    made.chain = ReadFusedChain(made.types).value();
    return made;
  }

 private:
  size_t Below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  Shape Smaller() {
    const int rank = shape_.rank();
    switch (Below(5)) {
      case 0:
        return {};
      case 1:
        return Shape({shape_[rank - 1]});
      case 2:
        return rank == 4 ? Shape({shape_[1], 1, 1}) : Shape({shape_[0]});
      case 3:
        return shape_.WithDim(rank - 1, 1);
      default:
        return shape_;
    }
  }

  Options OptionsOf(absl::string_view op) {
    if (op == "scale") {
      proto::Scale options;
      options.set_factor(0.1 * static_cast<double>(Below(40)) - 2);
      options.set_offset(0.3 * static_cast<double>(Below(3)));
      return proto::MakeOptions(options);
    }
    if (op == "clip" || op == "clip_grad") {
      proto::Clip options;
      options.set_max(0.7);
      if (Below(2) == 0) options.set_min(-0.1);
      return proto::MakeOptions(options);
    }
    if (op == "leaky_relu" || op == "leaky_relu_grad") {
      proto::LeakyRelu options;
      options.set_slope(0.3);
      return proto::MakeOptions(options);
    }
    if (op == "gelu" || op == "gelu_grad") {
      proto::Gelu options;
      options.set_tanh(Below(2) == 0);
      return proto::MakeOptions(options);
    }
    if (op == "cast") {
      const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32};
      return proto::CastTo(dtypes[Below(4)]);
    }
    if (op == "bias_add") {
      proto::BiasAdd options;
      options.set_axis(static_cast<int64_t>(Below(static_cast<size_t>(shape_.rank()))));
      return proto::MakeOptions(options);
    }
    return {};
  }

  // Reduces the last value, along some of its axes or all.
  FusedMemberSpec Reduction() {
    constexpr absl::string_view kOps[] = {"reduce_sum", "reduce_mean", "reduce_max"};
    FusedMemberSpec spec{&OpRegistry::Builtin().Get(kOps[Below(3)]), {}, {static_cast<int>(values_.size()) - 1}};
    proto::Reduce options;
    for (int axis = 0; axis < shape_.rank(); ++axis) {
      if (Below(2) == 0) options.add_axis(axis);
    }
    options.set_keep_dims(Below(2) == 0);
    spec.options = proto::MakeOptions(options);
    return spec;
  }

  // Whether ports that follow the network's precision were drawn values of several: within a network there is one.
  static bool MixesPrecisions(const OpDef& op, const NodeTypes& types) {
    std::optional<DType> precision;
    for (size_t i = 0; i < op.inputs.size() && i < types.inputs.size(); ++i) {
      if (op.inputs[i].type != PortType::kFloat32) continue;
      if (precision.value_or(types.inputs[i].dtype) != types.inputs[i].dtype) return true;
      precision = types.inputs[i].dtype;
    }
    return false;
  }

  // Adds an op, unless what was drawn does not fit together.
  void TryMember() {
    const OpDef& op = *ops_[Below(ops_.size())];
    FusedMemberSpec spec{&op, OptionsOf(op.name), {}};
    NodeTypes types{.options = spec.options};
    const size_t count = op.name == "add_n" ? 2 + Below(3) : op.inputs.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t value = i == 0 && Below(4) > 0 ? values_.size() - 1 : Below(values_.size());
      spec.operands.push_back(static_cast<int>(value));
      types.inputs.push_back(values_[value]);
      types.present.push_back(true);
    }
    if (MixesPrecisions(op, types) || !InferTypes(op, &types).ok()) return;
    if (types.output(0).shape != shape_ || !(types.output(0).layout == layout_)) return;
    values_.push_back(types.output(0));
    specs_.push_back(std::move(spec));
  }

  std::mt19937_64 random_;
  std::vector<const OpDef*> ops_;
  Shape shape_;
  Layout layout_;
  DType dtype_ = DType::kFloat32;
  std::vector<ValueType> values_;
  std::vector<FusedMemberSpec> specs_;
};

}  // namespace

std::string RandomChain::ToString() const {
  std::string text;
  for (const ValueType& input : types.inputs) absl::StrAppend(&text, input.ToString(), " ");
  return absl::StrCat(text, types.options.text());
}

RandomChain MakeRandomChain(uint64_t seed) { return Maker(seed).Make(); }

}  // namespace snug::core::test
