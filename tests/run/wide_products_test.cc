// Products of bfloat16 values that compute on float32 (ops/lib/onednn_bfloat16.h): both ways train to the same, and
// what is float32 is read by one node only.
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

constexpr char kOneWay[] = "no library here has kernels for all products of bfloat16 values as they are";

CompileOptions Narrow() { return {.batch = 8, .precision = DType::kBFloat16, .threads = 2, .list_choices = true}; }

absl::StatusOr<Compiled> CompileModel(const LoadedNetwork& model, const CompileOptions& options) {
  return CompileGraph(model.network, model.source_map, OpRegistry::Builtin(), options);
}

// The options with the way that is not taken by itself; without a tuning: some product has only one.
CompileOptions TheOtherWay(const Compiled& compiled) {
  CompileOptions options = Narrow();
  Tuning tuning;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const KernelChoice& kernel = compiled.kernels[static_cast<size_t>(id.index)];
    if (!Products().contains(compiled.graph.node(id).op)) continue;
    const auto way = absl::c_find_if(kernel.offered,
                                     [](const std::string& name) { return name == "float32" || name == "bfloat16"; });
    if (way == kernel.offered.end()) return options;
    tuning.kernels[kernel.key].choice = *way;
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
      while (!graph.value(input).variable.valid() && graph.node(graph.value(input).producer).op == "reorder") {
        input = graph.node(graph.value(input).producer).inputs[0];
      }
      if (graph.value(input).variable.valid()) continue;  // a parameter, as it is
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
    const CompileOptions other_way = TheOtherWay(*own);
    if (other_way.tuning == nullptr) GTEST_SKIP() << kOneWay;
    const absl::StatusOr<Compiled> other = CompileModel(*model, other_way);
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
  const CompileOptions other_way = TheOtherWay(*own);
  if (other_way.tuning == nullptr) GTEST_SKIP() << kOneWay;
  std::vector<std::vector<double>> losses;
  for (const CompileOptions& options : {Narrow(), other_way}) {
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
