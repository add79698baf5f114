// Clipping by a norm that is no number, or too large to be one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/graph_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"
#include "tests/testing/node_runner.h"

namespace snug::core::test {
namespace {

std::vector<double> Clipped(DType dtype, double norm) {
  NodeTypes types;
  types.options = proto::ParseOptions<proto::ClipNorm>("max_norm: 2");
  types.inputs = {{dtype, {3}}, {dtype == DType::kFloat64 ? dtype : DType::kFloat32, Shape()}};
  types.present = {true, true};
  const OpDef& op = OpRegistry::Builtin().Get("clip_by_norm");
  EXPECT_TRUE(InferTypes(op, &types).ok());
  const std::vector<Tensor> inputs = {Tensor::FromDoubles(types.inputs[0], {1, -2, 4}),
                                      Tensor::FromDoubles(types.inputs[1], {norm})};
  absl::StatusOr<NodeRunner> runner = NodeRunner::Make(OpRegistry::Builtin(), op, types, KernelChoice::kFast, 1);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  const absl::StatusOr<NodeRun> run = runner->Run(inputs);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? run->outputs[0].ToDoubles() : std::vector<double>();
}

TEST(ClipByNorm, DoesNotPassGradientsWhoseNormIsNoNumber) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const std::vector<double> small = Clipped(dtype, 1.5);
    EXPECT_EQ(small, (std::vector<double>{1, -2, 4}));
    const std::vector<double> found = Clipped(dtype, std::numeric_limits<double>::quiet_NaN());
    ASSERT_EQ(found.size(), 3U);
    for (const double x : found) EXPECT_TRUE(std::isnan(x)) << x;
    for (const double x : Clipped(dtype, std::numeric_limits<double>::infinity())) EXPECT_EQ(x, 0);
  }
}

}  // namespace
}  // namespace snug::core::test
