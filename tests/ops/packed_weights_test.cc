// Tests that large weights are packed before they are multiplied with. No sample of the conformance suite is as large.
#include <gtest/gtest.h>

#include <vector>

#include "engine/base/random.h"
#include "ops/kit/isa.h"
#include "tests/testing/node_runner.h"

namespace snug::core::test {
namespace {

Tensor TensorOfNumbers(const Shape& shape, uint64_t stream) {
  std::vector<double> values(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * ToUniform(Philox{1}(stream, i)[0]) - 1;
  return Tensor::FromDoubles({DType::kFloat32, shape}, values);
}

TEST(PackedWeights, LargeOnesGiveThePlainGradientOfTheInput) {
  const int64_t rows = 260, units = 1024, in = 1030;
  const OpDef& op = OpRegistry::Builtin().Get("dense_grad_input");
  NodeTypes types;
  types.inputs = {{DType::kFloat32, {rows, units}}, {DType::kFloat32, {units, in}}};
  types.outputs = {{DType::kFloat32, {rows, in}}};
  types.present = {true, true};
  const std::vector<Tensor> inputs = {TensorOfNumbers(types.inputs[0].shape, 1),
                                      TensorOfNumbers(types.inputs[1].shape, 2)};
  std::vector<std::vector<double>> results;
  for (const KernelChoice choice : {KernelChoice::kPlain, KernelChoice::kFast}) {
    const absl::string_view named = choice == KernelChoice::kPlain ? "" : "onednn";
    const absl::StatusOr<NodeRunner> runner =
        NodeRunner::Make(OpRegistry::Builtin(), op, types, choice, /*threads=*/2, /*random_id=*/0, named);
    ASSERT_TRUE(runner.ok()) << runner.status();
    if (runner->fast() && CurrentIsa() == Isa::kAvx512) {
      EXPECT_EQ(runner->bound_types().input(1).layout.kind, Layout::Kind::kPacked);
    }
    const absl::StatusOr<NodeRun> run = runner->Run(inputs);
    ASSERT_TRUE(run.ok()) << run.status();
    results.push_back(run->outputs[0].ToDoubles());
  }
  for (size_t i = 0; i < results[0].size(); ++i) ASSERT_NEAR(results[0][i], results[1][i], 1e-4) << i;
}

}  // namespace
}  // namespace snug::core::test
