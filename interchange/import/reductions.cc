// Sums, means and the like over some axes, and what chooses along one.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "interchange/import/node.h"
#include "proto/network.pb.h"

namespace snug::core::onnx {
namespace {

struct Reduction {
  std::vector<bool> reduced;  // by axis of the value
  bool keep;
  std::vector<int> axes;  // of the layer
};

absl::StatusOr<Reduction> ReductionOf(NodeContext& c, const Value& x) {
  Reduction r;
  SNUG_ASSIGN_OR_RETURN(const auto written, c.ListOf("axes", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t keep, c.Int("keepdims", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t noop, c.Int("noop_with_empty_axes", 0));
  r.keep = keep != 0;
  const bool all = !written.has_value() || written->empty();
  r.reduced.assign(x.shape.size(), all && noop == 0);
  if (!all) {
    for (const int64_t axis : *written) {
      SNUG_ASSIGN_OR_RETURN(const int a, c.Axis(axis, x.rank()));
      r.reduced[static_cast<size_t>(a)] = true;
    }
  }
  for (size_t i = 0; i < r.reduced.size(); ++i) {
    if (!r.reduced[i]) continue;
    if (BatchAxis(x) == static_cast<int>(i)) {
      return absl::InvalidArgumentError("reduces over the batch: Snug does that in losses only");
    }
    r.axes.insert(r.axes.end(), x.axes[i].begin(), x.axes[i].end());
  }
  std::sort(r.axes.begin(), r.axes.end());
  return r;
}

// The value after `reduced.axes` have gone from the layer's output.
Value AfterReduction(const Value& x, const Reduction& r, Ref ref) {
  std::vector<int> place(x.ref.dims.size());
  int next = 0;
  for (size_t a = 0; a < place.size(); ++a) {
    const bool gone = std::find(r.axes.begin(), r.axes.end(), static_cast<int>(a)) != r.axes.end();
    place[a] = gone ? -1 : next++;
  }
  Value y;
  y.ref = std::move(ref);
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (r.reduced[i] && !r.keep) continue;
    y.shape.push_back(r.reduced[i] ? 1 : x.shape[i]);
    y.axes.emplace_back();
    if (r.reduced[i]) continue;
    for (const int a : x.axes[i]) y.axes.back().push_back(place[static_cast<size_t>(a)]);
  }
  return y;
}

bool IsOfAllPixels(const Value& x, const Reduction& r) {
  if (!x.is_plain() || x.rank() < 3 || x.rank() > 5) return false;
  for (size_t i = 0; i < r.reduced.size(); ++i) {
    if (r.reduced[i] != (i >= 2)) return false;
  }
  return true;
}

enum class How { kSum, kMean, kMax };

absl::StatusOr<Value> Reduced(NodeContext& c, const Value& x, How kind) {
  SNUG_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(c, x));
  proto::Layer layer;
  if (r.axes.empty()) return AfterReduction(x, r, x.ref);
  if (kind == How::kMean && IsOfAllPixels(x, r)) {
    layer.mutable_global_avg_pool();
  } else {
    proto::Reduce* reduce = kind == How::kSum    ? layer.mutable_reduce_sum()
                            : kind == How::kMean ? layer.mutable_reduce_mean()
                                                 : layer.mutable_reduce_max();
    for (const int axis : r.axes) reduce->add_axis(axis);
  }
  SNUG_ASSIGN_OR_RETURN(Ref ref, c.Layer(std::move(layer), {x.ref}));
  return AfterReduction(x, r, std::move(ref));
}

template <How kind>
absl::Status Reduce(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(const Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(Value y, Reduced(c, x, kind));
  c.Set(0, std::move(y));
  return absl::OkStatus();
}

template <auto Mutable>
absl::StatusOr<Value> Through(NodeContext& c, Value x, const char* suffix) {
  proto::Layer layer;
  (layer.*Mutable)();
  SNUG_ASSIGN_OR_RETURN(x.ref, c.builder().AddOne(absl::StrCat(c.LayerName(), suffix), std::move(layer), {x.ref}));
  return x;
}

using L = proto::Layer;

absl::Status ReduceMin(NodeContext& c) {  // -max(-x)
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_neg>(c, x, ".negative"));
  SNUG_ASSIGN_OR_RETURN(x, Reduced(c, x, How::kMax));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_neg>(c, x, ".min"));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status ReduceSumSquare(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_square>(c, x, ".square"));
  SNUG_ASSIGN_OR_RETURN(x, Reduced(c, x, How::kSum));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status ReduceL2(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_square>(c, x, ".square"));
  SNUG_ASSIGN_OR_RETURN(x, Reduced(c, x, How::kSum));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_sqrt>(c, x, ".root"));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

absl::Status ReduceL1(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(x, Through<&L::mutable_abs>(c, x, ".abs"));
  SNUG_ASSIGN_OR_RETURN(x, Reduced(c, x, How::kSum));
  c.Set(0, std::move(x));
  return absl::OkStatus();
}

// An axis of the value, as one axis of the layer's output.
absl::StatusOr<Value> AlongOne(NodeContext& c, const Value& x, int axis) {
  if (BatchAxis(x) == axis) return absl::InvalidArgumentError("works along the batch: Snug keeps samples apart");
  if (x.axes[static_cast<size_t>(axis)].size() == 1) return x;
  return WithLast(c.builder(), x, axis);
}

absl::Status ArgMax(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(0, x.rank()));
  SNUG_ASSIGN_OR_RETURN(const int64_t keep, c.Int("keepdims", 1));
  SNUG_ASSIGN_OR_RETURN(const int64_t last, c.Int("select_last_index", 0));
  if (last != 0) return absl::InvalidArgumentError("select_last_index: only 0");
  SNUG_ASSIGN_OR_RETURN(x, AlongOne(c, x, axis));
  Reduction r;
  r.reduced.assign(x.shape.size(), false);
  r.reduced[static_cast<size_t>(axis)] = true;
  r.keep = keep != 0;
  r.axes = x.axes[static_cast<size_t>(axis)];
  proto::Layer layer;
  layer.mutable_argmax()->set_axis(r.axes[0]);
  SNUG_ASSIGN_OR_RETURN(Ref ref, c.Layer(std::move(layer), {x.ref}));
  c.Set(0, AfterReduction(x, r, std::move(ref)));
  return absl::OkStatus();
}

absl::Status TopK(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const int axis, c.AxisAttribute(-1, x.rank()));
  SNUG_ASSIGN_OR_RETURN(const int64_t largest, c.Int("largest", 1));
  c.Ignore("sorted");  // ours are
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> k, c.ListInput(1, "K"));
  if (largest == 0 || k.size() != 1) return absl::InvalidArgumentError("only the K largest are imported");
  SNUG_ASSIGN_OR_RETURN(x, AlongOne(c, x, axis));
  proto::Layer layer;
  layer.mutable_top_k()->set_k(k[0]);
  layer.mutable_top_k()->set_axis(x.axes[static_cast<size_t>(axis)][0]);
  SNUG_ASSIGN_OR_RETURN(const std::vector<Ref> refs, c.builder().Add(c.LayerName(), std::move(layer), {x.ref}, {}, 2));
  x.shape[static_cast<size_t>(axis)] = k[0];
  for (int i = 0; i < 2; ++i) {
    x.ref = refs[static_cast<size_t>(i)];
    c.Set(i, x);
  }
  return absl::OkStatus();
}

absl::Status CumSum(NodeContext& c) {
  SNUG_ASSIGN_OR_RETURN(Value x, c.Computed(0));
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> written, c.ListInput(1, "axis"));
  SNUG_ASSIGN_OR_RETURN(const int64_t exclusive, c.Int("exclusive", 0));
  SNUG_ASSIGN_OR_RETURN(const int64_t reverse, c.Int("reverse", 0));
  if (written.size() != 1 || exclusive != 0) return absl::InvalidArgumentError("exclusive: only 0");
  SNUG_ASSIGN_OR_RETURN(const int axis, c.Axis(written[0], x.rank()));
  SNUG_ASSIGN_OR_RETURN(x, AlongOne(c, x, axis));
  proto::Layer layer;
  layer.mutable_cumsum()->set_axis(x.axes[static_cast<size_t>(axis)][0]);
  if (reverse != 0) layer.mutable_cumsum()->set_reverse(true);
  return c.SetElementwise(x, std::move(layer));
}

}  // namespace

std::vector<NamedMapping> ReductionMappings() {
  return {{"ArgMax", ArgMax},
          {"CumSum", CumSum},
          {"ReduceL1", ReduceL1},
          {"ReduceL2", ReduceL2},
          {"ReduceMax", Reduce<How::kMax>},
          {"ReduceMean", Reduce<How::kMean>},
          {"ReduceMin", ReduceMin},
          {"ReduceSum", Reduce<How::kSum>},
          {"ReduceSumSquare", ReduceSumSquare},
          {"TopK", TopK}};
}

}  // namespace snug::core::onnx
