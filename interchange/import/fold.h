// The steps of folding (fold.cc): what a node computes of constants.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interchange/import/node.h"

namespace snug::core::onnx {

using Inputs = std::vector<const Tensor*>;

absl::Status CheckCount(const Dims& dims);

// ---- numbers (fold_numbers.cc) ----

using Function = std::function<double(const double* x)>;

struct NamedFunction {
  int inputs;  // 0: any number, two at a time
  enum { kSame, kBool } result;
  Function f;
};

absl::StatusOr<Tensor> Elementwise(const std::vector<const Tensor*>& inputs, Kind kind, const Function& f);
const std::map<std::string, NamedFunction>& Functions();
absl::StatusOr<Tensor> FoldFunction(const NamedFunction& function, const std::vector<const Tensor*>& in);
absl::StatusOr<Tensor> FoldDivide(NodeContext&, const Inputs& in);
absl::StatusOr<Tensor> FoldMod(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldWhere(NodeContext&, const Inputs& in);
absl::StatusOr<std::optional<Tensor>> FoldReduction(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldCumSum(NodeContext& c, const Inputs& in);

// ---- choices (fold_indices.cc) ----

// Chooses along an axis by number.
absl::StatusOr<Tensor> Take(const Tensor& x, int axis, const std::vector<int64_t>& indices, const Dims& index_dims);
absl::StatusOr<Tensor> FoldGather(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldSlice(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldConcat(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldTile(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldTrilu(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldScatterNd(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldGatherElements(NodeContext& c, const Inputs& in);
absl::StatusOr<Tensor> FoldGatherNd(NodeContext& c, const Inputs& in);
absl::StatusOr<std::vector<Tensor>> FoldSplit(NodeContext& c, const Inputs& in);

}  // namespace snug::core::onnx
