#include "engine/compile/control/loop_products.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <cstddef>
#include <utility>

#include "engine/base/status.h"
#include "proto/loops.pb.h"

namespace snug::core {
namespace {

class SummedFinder {
 public:
  SummedFinder(const Graph& body, const Graph& both, const proto::NormalLoop& options,
               const std::unordered_map<ValueId, ValueId>& gradients)
      : body_(body), both_(both), options_(options), gradients_(gradients) {}

  SummedGradients Run() {
    FindSummed();
    return std::move(summed_);
  }

 private:
  bool IsCarry(int port) const {
    return absl::c_any_of(options_.carry(), [&](const proto::NormalLoop::Carry& c) { return c.input() == port; });
  }
  const proto::NormalLoop::Along* ScanOf(int port) const {
    const auto found = absl::c_find_if(options_.scan(), [&](const auto& scan) { return scan.port() == port; });
    return found == options_.scan().end() ? nullptr : &*found;
  }
  ValueId GradientOf(int port) const {
    const auto found = gradients_.find(body_.inputs()[static_cast<size_t>(port)]);
    return found == gradients_.end() ? ValueId() : found->second;
  }
  int port_of(ValueId input) const {
    return static_cast<int>(absl::c_find(both_.inputs(), input) - both_.inputs().begin());
  }

  // Finds weights whose gradient is a product of what the rounds read and what flows back, and nothing else.
  void FindSummed() {
    // Rounds that do not run have no x. What is computed anew is there for a chunk only.
    if (options_.has_goes_on() || options_.recompute()) return;
    for (int port = 0; port < static_cast<int>(body_.inputs().size()); ++port) {
      if (IsCarry(port) || ScanOf(port) != nullptr) continue;
      const ValueId gradient = GradientOf(port);
      const NodeId producer = gradient.valid() ? both_.value(gradient).producer : NodeId();
      if (!producer.valid() || both_.node(producer).op != "dense_grad_weight") continue;
      const ValueId x = both_.node(producer).inputs[0];
      // It must be a value of the forward round with one axis to spare.
      const Value& v = both_.value(x);
      const bool forward = v.is_input ? port_of(x) < static_cast<int>(body_.inputs().size())
                                      : both_.node(v.producer).phase == Phase::kForward;
      if (!forward || v.type.shape.rank() >= kMaxRank) continue;
      const proto::NormalLoop::Along* const scan = v.is_input ? ScanOf(port_of(x)) : nullptr;
      if (v.is_input && scan == nullptr && !IsCarry(port_of(x))) continue;  // all rounds read the same
      if (scan != nullptr && (scan->stash() || scan->axis() >= v.type.shape.rank())) continue;
      summed_.products[gradient] = port;
    }
    FindSummedRows();
  }

  // Finds vectors whose gradient is the sum of the rows that flow back to a weight of those, which are collected.
  void FindSummedRows() {
    for (int port = 0; port < static_cast<int>(body_.inputs().size()); ++port) {
      if (IsCarry(port) || ScanOf(port) != nullptr) continue;
      const ValueId gradient = GradientOf(port);
      const NodeId producer = gradient.valid() ? both_.value(gradient).producer : NodeId();
      if (!producer.valid() || both_.node(producer).op != "reduce_to_shape") continue;
      const ValueId dy = both_.node(producer).inputs[0];
      const Shape& rows = both_.type(dy).shape;
      if (rows.rank() == 0 || both_.type(gradient).shape != Shape({rows[rows.rank() - 1]})) continue;
      const bool collected = absl::c_any_of(summed_.products, [&](const auto& product) {
        return both_.node(both_.value(product.first).producer).inputs[1] == dy;
      });
      if (collected) summed_.rows.push_back({port, gradient, dy});
    }
  }

  const Graph& body_;
  const Graph& both_;
  const proto::NormalLoop& options_;
  const std::unordered_map<ValueId, ValueId>& gradients_;
  SummedGradients summed_;
};

}  // namespace

bool SummedGradients::IsSumOfRows(ValueId gradient) const {
  return absl::c_any_of(rows, [&](const SummedRows& one) { return one.gradient == gradient; });
}

SummedGradients FindSummed(const Graph& body, const Graph& both, const proto::NormalLoop& options,
                           const std::unordered_map<ValueId, ValueId>& gradients) {
  return SummedFinder(body, both, options, gradients).Run();
}

absl::StatusOr<ValueId> AddSummedProduct(ControlNodes& nodes, const SummedProduct& product, ValueId dys,
                                         int64_t rounds) {
  const std::string& name = product.name;
  ValueId x = product.x;
  if (!(nodes.type(x).shape == product.x_shape)) {
    SNUG_ASSIGN_OR_RETURN(x, nodes.Reshape(x, product.x_shape, absl::StrCat(name, "/x")));
  }
  if (!product.first.valid()) return nodes.AddOne("dense_grad_weight", {x, dys}, {}, name);
  // Each dy meets the x of the round before it, and the first one what the loop began with.
  const int64_t first = product.reverse ? rounds - 1 : 0;
  SNUG_ASSIGN_OR_RETURN(ValueId dy, nodes.Part(dys, 0, first, first + 1, absl::StrCat(name, "/first")));
  Shape shape = nodes.type(dys).shape.Without(0);
  SNUG_ASSIGN_OR_RETURN(dy, nodes.Reshape(dy, shape, absl::StrCat(name, "/first/dy")));
  if (rounds == 1) return nodes.AddOne("dense_grad_weight", {product.first, dy}, {}, name);
  SNUG_ASSIGN_OR_RETURN(const ValueId of_first,
                        nodes.AddOne("dense_grad_weight", {product.first, dy}, {}, absl::StrCat(name, "/of_first")));
  const int64_t x_begin = product.reverse ? 1 : 0, dy_begin = 1 - x_begin;
  SNUG_ASSIGN_OR_RETURN(x, nodes.Part(x, 0, x_begin, x_begin + rounds - 1, absl::StrCat(name, "/before")));
  SNUG_ASSIGN_OR_RETURN(dy, nodes.Part(dys, 0, dy_begin, dy_begin + rounds - 1, absl::StrCat(name, "/after")));
  SNUG_ASSIGN_OR_RETURN(const ValueId of_others,
                        nodes.AddOne("dense_grad_weight", {x, dy}, {}, absl::StrCat(name, "/of_others")));
  return nodes.Sum({of_first, of_others}, name);
}

}  // namespace snug::core
