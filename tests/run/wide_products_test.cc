// Products of bfloat16 values that compute on float32 (ops/lib/onednn_bfloat16.h): both ways train to the same, and
// what is float32 lives for one node only.
#include <absl/algorithm/container.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/run/train_util.h"

namespace snug {
namespace {

const std::set<std::string>& Products() {
  static const auto* const names =
      new std::set<std::string>{"conv",  "conv_fused",  "conv_grad_input",  "conv_grad_weight",
                                "dense", "dense_fused", "dense_grad_input", "dense_grad_weight"};
  return *names;
}

CompileOptions Narrow() { return {.batch = 8, .precision = DType::kBFloat16, .threads = 2, .list_choices = true}; }

absl::StatusOr<Compiled> CompileModel(const LoadedNetwork& model, const CompileOptions& options) {
  return CompileGraph(model.network, model.source_map, OpRegistry::Builtin(), options);
}

// The options with the way that is not taken by itself: the last one that is offered.
CompileOptions TheOtherWay(const Compiled& compiled) {
  CompileOptions options = Narrow();
  Tuning tuning;
  for (const KernelChoice& kernel : compiled.kernels) {
    if (!kernel.offered.empty()) tuning.kernels[kernel.key].choice = kernel.offered.back();
  }
  options.tuning = std::make_shared<const Tuning>(std::move(tuning));
  return options;
}

// How many products compute on float32; each has casts of its own.
int CountWide(const Compiled& compiled) {
  const Graph& graph = compiled.graph;
  std::map<ValueId, int> readers;
  for (const NodeId id : graph.ProgramOrder()) {
    for (const ValueId input : graph.node(id).inputs) ++readers[input];
  }
  int wide = 0;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    if (!Products().contains(node.op) || graph.type(node.outputs[0]).dtype != DType::kFloat32) continue;
    ++wide;
    EXPECT_EQ(readers[node.outputs[0]], 1) << node.name;
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      EXPECT_EQ(graph.type(input).dtype, DType::kFloat32) << node.name;
      while (graph.node(graph.value(input).producer).op == "reorder") {
        input = graph.node(graph.value(input).producer).inputs[0];
      }
      EXPECT_EQ(graph.node(graph.value(input).producer).op, "cast") << node.name;
      EXPECT_EQ(readers[input], 1) << node.name;
    }
  }
  return wide;
}

int CountProducts(const Compiled& compiled) {
  return static_cast<int>(absl::c_count_if(compiled.graph.ProgramOrder(),
                                           [&](NodeId id) { return Products().contains(compiled.graph.node(id).op); }));
}

TEST(WideProducts, EitherEveryProductComputesOnFloat32OrNone) {
  for (const char* name : {"lenet", "mlp"}) {
    const absl::StatusOr<LoadedNetwork> model = LoadModel(name);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const absl::StatusOr<Compiled> own = CompileModel(*model, Narrow());
    ASSERT_TRUE(own.ok()) << own.status().message();
    if (absl::c_all_of(own->kernels, [](const KernelChoice& kernel) { return kernel.offered.empty(); })) {
      GTEST_SKIP() << "no library here has fast kernels for products of bfloat16";
    }
    const absl::StatusOr<Compiled> other = CompileModel(*model, TheOtherWay(*own));
    ASSERT_TRUE(other.ok()) << other.status().message();
    const int count = CountProducts(*own);
    EXPECT_EQ(CountProducts(*other), count);
    const std::set<int> wide = {CountWide(*own), CountWide(*other)};
    EXPECT_EQ(wide, (std::set<int>{0, count})) << name;
  }
}

TEST(WideProducts, BothWaysTrainToTheSameLosses) {
  const absl::StatusOr<LoadedNetwork> model = LoadModel("lenet");
  ASSERT_TRUE(model.ok()) << model.status().message();
  const absl::StatusOr<Compiled> own = CompileModel(*model, Narrow());
  ASSERT_TRUE(own.ok()) << own.status().message();
  std::vector<std::vector<double>> losses;
  for (const CompileOptions& options : {Narrow(), TheOtherWay(*own)}) {
    auto session = MakeSession(*model, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    losses.push_back(Losses(**session, 5));
  }
  for (size_t i = 0; i < losses[0].size(); ++i) {
    EXPECT_NEAR(losses[0][i], losses[1][i], 0.01 * std::abs(losses[0][i])) << "step " << i;
  }
}

}  // namespace
}  // namespace snug
