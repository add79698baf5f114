// Simplifies the gradient of a value that is read in several slices along one axis: add_n(slice_grad(a), slice_grad(b),
// ...) becomes concat(a1, a2 + b1, b2). Gradients are cut where slices begin and end, added where slices overlap, and
// joined. One buffer holds the result instead of one for each slice, and zeros are only written where nobody read
// anything. Where slices overlap, the summands and their order stay the same.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/passes/matching.h"
#include "engine/compile/passes/pass.h"
#include "ops/graph_builder.h"
#include "ops/slice_box.h"
#include "proto/data_type.h"
#include "proto/internal.pb.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core {
namespace {

constexpr size_t kMostPiecesPerSlice = 4;  // more and smaller pieces would cost more than the sum that they save

struct Cut {
  NodeId node;  // the slice_grad
  ValueId gradient;
  SliceBox box;                // the slice within the whole value
  int64_t begin = 0, end = 0;  // along the axis
};

class Joiner {
 public:
  Joiner(const OpRegistry& registry, Graph* graph) : surroundings_(*graph), builder_(registry, graph), graph_(*graph) {}

  absl::Status Run() {
    for (const NodeId id : graph_.ProgramOrder()) {
      if (graph_.node(id).op == "add_n" && FindCuts(id)) SNUG_RETURN_IF_ERROR(Join(id));
    }
    return absl::OkStatus();
  }

 private:
  // Tells whether the node adds up gradients of slices along one axis, and nothing else. If so, sets cuts_, axis_ and
  // bounds_.
  bool FindCuts(NodeId sum) {
    cuts_.clear();
    const Node& node = graph_.node(sum);
    for (const ValueId input : node.inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (!producer.valid() || graph_.node(producer).op != "slice_grad") return false;
      if (surroundings_.SoleReader(input) != sum) return false;
      const Node& grad = graph_.node(producer);
      const absl::StatusOr<SliceBox> box =
          ResolveSlice(grad.options.Get<proto::SliceGrad>().slice(), graph_.type(input).shape);
      if (!box.ok()) return false;
      cuts_.push_back({.node = producer, .gradient = grad.inputs[0], .box = *box});
    }
    return cuts_.size() > 1 && FindAxis(graph_.type(node.outputs[0]).shape);
  }

  bool FindAxis(const Shape& whole) {
    axis_ = -1;
    for (const Cut& cut : cuts_) {
      for (int axis = 0; axis < whole.rank(); ++axis) {
        if (cut.box.step[axis] != 1) return false;
        if (cut.box.shape[axis] == whole[axis]) continue;
        if (axis_ >= 0 && axis_ != axis) return false;
        axis_ = axis;
      }
    }
    if (axis_ < 0) return false;
    std::set<int64_t> bounds = {0, whole[axis_]};
    for (Cut& cut : cuts_) {
      cut.begin = cut.box.begin[axis_];
      cut.end = cut.begin + cut.box.shape[axis_];
      bounds.insert({cut.begin, cut.end});
    }
    bounds_.assign(bounds.begin(), bounds.end());
    size_t pieces = 0;
    for (const Cut& cut : cuts_) {
      pieces += static_cast<size_t>(std::count_if(
          bounds_.begin(), bounds_.end(), [&](int64_t bound) { return cut.begin <= bound && bound < cut.end; }));
    }
    return pieces <= kMostPiecesPerSlice * cuts_.size();
  }

  absl::StatusOr<ValueId> Add(absl::string_view op, absl::string_view what, std::vector<ValueId> inputs,
                              Options options = {}) {
    SNUG_ASSIGN_OR_RETURN(const NodeId node, builder_.Add({.name = absl::StrCat(name_, "/", what),
                                                           .op = std::string(op),
                                                           .options = std::move(options),
                                                           .inputs = std::move(inputs),
                                                           .loc = loc_,
                                                           .phase = Phase::kBackward,
                                                           .forward = forward_}));
    return graph_.node(node).outputs[0];
  }

  // Returns the sum of the cuts between two neighbouring bounds.
  absl::StatusOr<ValueId> Piece(int64_t begin, int64_t end, const ValueType& whole) {
    std::vector<ValueId> summands;
    for (const Cut& cut : cuts_) {
      if (end <= cut.begin || cut.end <= begin) continue;
      if (cut.begin == begin && cut.end == end) {
        summands.push_back(cut.gradient);
        continue;
      }
      SNUG_ASSIGN_OR_RETURN(const ValueId part,
                            Add("slice", absl::StrCat("part:", parts_++), {cut.gradient},
                                proto::MakeOptions(SliceAlong(axis_, begin - cut.begin, end - begin))));
      summands.push_back(part);
    }
    if (summands.size() == 1) return summands[0];
    if (summands.size() > 1) return Add("add_n", absl::StrCat("sum:", begin), std::move(summands));
    proto::Fill zeros;
    zeros.set_dtype(proto::FromDType(whole.dtype));
    const Shape shape = whole.shape.WithDim(axis_, end - begin);
    for (const int64_t dim : shape.dims()) zeros.add_dim(dim);
    return Add("fill", absl::StrCat("zeros:", begin), {}, proto::MakeOptions(zeros));
  }

  absl::Status Join(NodeId sum) {
    const ValueId total = graph_.node(sum).outputs[0];
    const ValueType whole = graph_.type(total);
    name_ = graph_.node(sum).name;
    loc_ = graph_.node(sum).loc;
    forward_ = graph_.node(sum).forward;
    parts_ = 0;
    graph_.SetInsertionPoint(sum);
    std::vector<ValueId> pieces;
    for (size_t i = 0; i + 1 < bounds_.size(); ++i) {
      SNUG_ASSIGN_OR_RETURN(const ValueId piece, Piece(bounds_[i], bounds_[i + 1], whole));
      pieces.push_back(piece);
    }
    proto::Concat concat;
    concat.set_axis(axis_);
    SNUG_ASSIGN_OR_RETURN(const ValueId joined, Add("concat", "joined", std::move(pieces), proto::MakeOptions(concat)));
    graph_.SetInsertionPoint(NodeId());
    graph_.ReplaceUses(total, joined);
    graph_.RemoveNode(sum);
    for (const Cut& cut : cuts_) graph_.RemoveNode(cut.node);
    return absl::OkStatus();
  }

  const Surroundings surroundings_;  // taken before anything is joined; that is safe because sums do not share cuts
  GraphBuilder builder_;
  Graph& graph_;
  std::vector<Cut> cuts_;  // in the sequence of the sum
  int axis_ = -1;
  std::vector<int64_t> bounds_;  // where pieces begin, and where the last one ends
  // These describe the sum that is being joined.
  std::string name_;
  SourceLoc loc_;
  NodeId forward_;
  int parts_ = 0;
};

}  // namespace

absl::Status JoinSlices(Graph& graph, const OpRegistry& registry) { return Joiner(registry, &graph).Run(); }

}  // namespace snug::core
