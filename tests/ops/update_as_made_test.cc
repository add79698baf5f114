// Tests that the workspace has room for the last block of a large gradient that is made in blocks. It has fewer rows,
// but its product can be cut into larger pieces. No sample of the conformance suite is as large.
#include <gtest/gtest.h>

#include <vector>

#include "engine/base/random.h"
#include "proto/internal.pb.h"
#include "proto/options.h"
#include "tests/testing/node_runner.h"

namespace snug::core::test {
namespace {

Tensor RandomTensor(const ValueType& type, uint64_t stream) {
  std::vector<double> values(static_cast<size_t>(type.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * ToUniform(Philox{1}(stream, i)[0]) - 1;
  return Tensor::FromDoubles(type, values);
}

// Of a parameter [units, width], by `rows` rows of x and dy in `dtype`. `named` may say "split", for products in
// pieces.
void ExpectThePlainUpdate(int64_t units, int64_t width, int64_t rows, DType dtype, absl::string_view named) {
  const OpDef& op = OpRegistry::Builtin().Get("dense_sgd_update");
  NodeTypes types;
  types.options = proto::ParseOptions<proto::Update>("weight_decay: 0.1");
  types.inputs = {{DType::kFloat32, {units, width}}, {dtype, {rows, width}},  {dtype, {rows, units}}, {}, {},
                  {DType::kFloat32, Shape()},        {DType::kUint8, Shape()}};
  types.present = {true, true, true, false, false, true, true};
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    inputs.push_back(types.present[i] ? RandomTensor(types.inputs[i], i) : Tensor());
  }
  inputs[5].Set(0, 0.125);
  inputs[6].Set(0, 1);
  const absl::StatusOr<NodeRunner> plain =
      NodeRunner::Make(OpRegistry::Builtin(), op, types, KernelChoice::kPlain, /*threads=*/2);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const absl::StatusOr<NodeRun> expected = plain->Run(inputs);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int threads : {1, 2, 3, 4, 8}) {
    const absl::StatusOr<NodeRunner> runner =
        NodeRunner::Make(OpRegistry::Builtin(), op, types, KernelChoice::kFast, threads, /*random_id=*/0, named);
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_TRUE(runner->fast());
    const absl::StatusOr<NodeRun> run = runner->Run(inputs);
    ASSERT_TRUE(run.ok()) << run.status();
    const std::vector<double> found = run->mutated[0].second.ToDoubles();
    EXPECT_EQ(FindDifference({units, width}, found, expected->mutated[0].second.ToDoubles(),
                             dtype == DType::kFloat32 ? 1e-5 : 2e-2),
              std::nullopt)
        << threads << " threads";
  }
}

TEST(UpdateAsMade, AShortLastBlockInPieces) {
  ExpectThePlainUpdate(/*units=*/512 + 384, /*width=*/1024, /*rows=*/64, DType::kFloat32, "split");
}

// x has so many rows that no thread makes blocks by itself.
TEST(UpdateAsMade, AShortLastBlockInFloat32) {
  ExpectThePlainUpdate(/*units=*/682 + 457, /*width=*/768, /*rows=*/1300, DType::kFloat32, "");
}

TEST(UpdateAsMade, AShortLastBlockInBFloat16) {
  ExpectThePlainUpdate(/*units=*/2048 + 1105, /*width=*/512, /*rows=*/64, DType::kBFloat16, "");
}

}  // namespace
}  // namespace snug::core::test
