// Products of bfloat16 values that compute on float32 (ops/kernels/matmul/onednn_bfloat16.h): all of a network's or
// none, parameters read as they are, and losses those of float32 but for the rounding of what lies between the
// products.
#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/run/train_util.h"
#if SNUG_HAS_ONEDNN
#include "ops/kit/onednn.h"
#endif

namespace snug::core {
namespace {

const std::set<std::string>& Products() {
  static const auto* const names =
      new std::set<std::string>{"conv",  "conv_fused",  "conv_grad_input",  "conv_grad_weight",
                                "dense", "dense_fused", "dense_grad_input", "dense_grad_weight"};
  return *names;
}

// Whether products compute on float32 unless a tuning says otherwise: our own kernels never do.
bool WideByThemselves() {
#if SNUG_HAS_ONEDNN
  return !onednn::MultipliesBFloat16();
#else
  return false;
#endif
}

// Whether both ways are to be had for sure; other versions of the library may have kernels for some products only.
bool HasBothWays() {
#if SNUG_HAS_ONEDNN
  return onednn::Supports(DType::kBFloat16) && absl::StartsWith(onednn::Version(), "2.");
#else
  return false;
#endif
}

CompileOptions In(DType precision) { return {.batch = 8, .precision = precision, .threads = 2, .list_choices = true}; }

Compiled CompileListingChoices(const char* name, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> model = LoadModel(name);
  EXPECT_TRUE(model.ok()) << model.status().message();
  absl::StatusOr<Compiled> compiled = Compile(model->network, model->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

// The tuning that takes the way that is not taken by itself; null: some product has only one.
std::shared_ptr<const Tuning> TheOtherWay(const Compiled& compiled) {
  Tuning tuning;
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const KernelChoice& kernel = compiled.kernels[static_cast<size_t>(id.index)];
    if (!Products().contains(compiled.graph.node(id).op)) continue;
    const auto way = absl::c_find_if(kernel.offered,
                                     [](const std::string& name) { return name == "float32" || name == "bfloat16"; });
    if (way == kernel.offered.end()) return nullptr;
    tuning.kernels[kernel.key].choice = *way;
  }
  return std::make_shared<const Tuning>(std::move(tuning));
}

// How many products compute on float32: between casts, which only neighbours share, or on bfloat16 data with parameters
// as they are, and gradients for their updates. Nobody casts parameters.
int CountWide(const Compiled& compiled) {
  const Graph& graph = compiled.graph;
  std::map<ValueId, int> readers;
  for (const NodeId id : graph.ProgramOrder()) {
    for (const ValueId input : graph.node(id).inputs) ++readers[input];
  }
  const auto wide = [&](ValueId value) { return value.valid() && graph.type(value).dtype == DType::kFloat32; };
  int count = 0;
  for (const NodeId id : graph.ProgramOrder()) {
    const Node& node = graph.node(id);
    if (!Products().contains(node.op) || !(wide(node.outputs[0]) || absl::c_any_of(node.inputs, wide))) continue;
    ++count;
    if (wide(node.outputs[0])) {
      EXPECT_EQ(readers[node.outputs[0]], 1) << node.name;
    }
    for (ValueId input : node.inputs) {
      if (!wide(input)) continue;
      while (!graph.value(input).variable.valid() && graph.node(graph.value(input).producer).op == "reorder") {
        input = graph.node(graph.value(input).producer).inputs[0];
      }
      if (graph.value(input).variable.valid()) continue;
      const Node& cast = graph.node(graph.value(input).producer);
      EXPECT_EQ(cast.op, "cast") << node.name;
      EXPECT_FALSE(graph.value(cast.inputs[0]).variable.valid()) << node.name;
      EXPECT_LE(readers[input], 2) << node.name;
    }
  }
  return count;
}

int CountProducts(const Compiled& compiled) {
  return static_cast<int>(absl::c_count_if(compiled.graph.ProgramOrder(),
                                           [&](NodeId id) { return Products().contains(compiled.graph.node(id).op); }));
}

int CountCastsOfVariables(const Graph& graph) {
  return static_cast<int>(absl::c_count_if(graph.ProgramOrder(), [&](NodeId id) {
    return graph.node(id).op == "cast" && graph.value(graph.node(id).inputs[0]).variable.valid();
  }));
}

// How many products compute on float32 beside a unit for bfloat16 which they would leave nearly empty.
int CountApart(const Compiled& compiled) {
  if (WideByThemselves()) return 0;
  return static_cast<int>(absl::c_count_if(compiled.graph.ProgramOrder(), [&](NodeId id) {
    const KernelChoice& kernel = compiled.kernels[static_cast<size_t>(id.index)];
    return kernel.kernel != nullptr && kernel.kernel->name == "spans";
  }));
}

// `apart`: so many products do what the others do not.
void ExpectWide(const Compiled& compiled, bool wide, int apart) {
  EXPECT_EQ(CountWide(compiled), wide ? CountProducts(compiled) - apart : apart);
  EXPECT_EQ(CountCastsOfVariables(compiled.graph) == 0, wide);
}

class WideProducts : public testing::TestWithParam<const char*> {};

TEST_P(WideProducts, EitherEveryProductComputesOnFloat32OrNone) {
  const Compiled own = CompileListingChoices(GetParam(), In(DType::kBFloat16));
  EXPECT_GE(CountProducts(own), 6);
  const int apart = CountApart(own);
  EXPECT_LE(apart, 3);
  ExpectWide(own, WideByThemselves(), apart);
  CompileOptions other = In(DType::kBFloat16);
  other.tuning = TheOtherWay(own);
  EXPECT_TRUE(other.tuning != nullptr || !HasBothWays());
  if (other.tuning != nullptr) ExpectWide(CompileListingChoices(GetParam(), other), !WideByThemselves(), 0);
}

TEST_P(WideProducts, TakeNoMoreMemoryThanFloat32) {
  const auto bytes = [](DType precision) {
    return CompileListingChoices(GetParam(), In(precision)).executable.memory.total_bytes();
  };
  EXPECT_LE(bytes(DType::kBFloat16), bytes(DType::kFloat32));
}

TEST_P(WideProducts, EveryWayTrainsAsFloat32ToRounding) {
  const absl::StatusOr<LoadedNetwork> model = LoadModel(GetParam());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto losses = [&](const CompileOptions& options) {
    const auto session = MakeSession(*model, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? Losses(**session, 5) : std::vector<double>();
  };
  const std::vector<double> expected = losses(In(DType::kFloat32));
  ASSERT_EQ(expected.size(), 5);
  CompileOptions other = In(DType::kBFloat16);
  other.tuning = TheOtherWay(CompileListingChoices(GetParam(), In(DType::kBFloat16)));
  for (const CompileOptions& options : {In(DType::kBFloat16), other}) {
    const std::vector<double> found = losses(options);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 0.02 * std::abs(expected[i])) << "step " << i;
    }
  }
}

#if SNUG_HAS_ONEDNN
// What is apart: LeNet's first convolution and its gradients of weights, of one and of six channels. These gradients
// are float32 where updates alone read them, and are rounded where others do.
TEST(WideProducts, OfFewChannelsAreApartBesideTiles) {
  if (!onednn::HasAmx()) GTEST_SKIP() << "this processor has no AMX";
  CompileOptions options = In(DType::kBFloat16);
  options.batch = 64;
  EXPECT_EQ(CountApart(CompileListingChoices("lenet", options)), 3);
  EXPECT_EQ(CountWide(CompileListingChoices("lenet", options)), 3);
  options.gradient_norm = true;
  EXPECT_EQ(CountApart(CompileListingChoices("lenet", options)), 3);
  EXPECT_EQ(CountWide(CompileListingChoices("lenet", options)), 1);
}
#endif

INSTANTIATE_TEST_SUITE_P(Models, WideProducts, testing::Values("lenet", "mlp"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace snug::core
