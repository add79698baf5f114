// Fused kernels against the kernels of their members, one by one: the same bits where kernels are emulated. A real
// device's compiler may contract a product and a sum within one formula in one kernel and not in another, so there they
// have to agree to rounding.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "ops/registry.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/random_chains.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/test_device.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core {
namespace {

constexpr double kTolerance = 1e-3;

using test::Tensor;

absl::StatusOr<Tensor> RunNode(const OpDef& op, const NodeTypes& types, const std::vector<Tensor>& inputs) {
  SNUG_ASSIGN_OR_RETURN(const test::NodeRunner runner,
                        test::NodeRunner::Make(OpRegistry::Builtin(), op, types, test::KernelChoice::kCuda, 1));
  SNUG_ASSIGN_OR_RETURN(test::NodeRun run, runner.Run(inputs));
  return std::move(run.outputs[0]);
}

absl::StatusOr<Tensor> RunOneByOne(const test::RandomChain& random, std::vector<Tensor> values) {
  for (const FusedMember& member : random.chain.members) {
    std::vector<Tensor> operands;
    for (const int value : member.operands) operands.push_back(values[static_cast<size_t>(value)]);
    SNUG_ASSIGN_OR_RETURN(Tensor made, RunNode(*member.op, member.types, operands));
    values.push_back(std::move(made));
  }
  return std::move(values.back());
}

// NaN is NaN: which of two a sum passes on is nobody's promise.
std::string BitDifference(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.ToDoubles();
  const std::vector<double> right = b.ToDoubles();
  for (size_t i = 0; i < left.size(); ++i) {
    const bool same = std::bit_cast<uint64_t>(left[i]) == std::bit_cast<uint64_t>(right[i]);
    if (!same && !(std::isnan(left[i]) && std::isnan(right[i]))) {
      return "element " + std::to_string(i) + ": " + std::to_string(left[i]) + " and " + std::to_string(right[i]);
    }
  }
  return "";
}

class Fusion : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    const absl::Status can = CanCompileKernels();
    if (!can.ok()) GTEST_SKIP() << "SKIPPED: " << can;
  }
};

TEST_F(Fusion, OfRandomChainsComputesWhatTheirMembersDo) {
  const std::unique_ptr<cuda::CudaStream> stream = cuda::CudaStream::Create(device()).value();
  const cuda::LaunchContext context(*stream);
  test::DeviceMemory memory(*stream);
  test::SetCudaRun({.context = &context,
                    .synchronize = [&memory] { return memory.Return(); },
                    .place = [&memory](void* host, int64_t bytes) { return memory.Place(host, bytes); }});
  const uint64_t chains = slow() ? 30 : 200;
  uint64_t same_bits = 0;
  for (uint64_t seed = 1; seed <= chains; ++seed) {
    const test::RandomChain random = test::MakeRandomChain(seed);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < random.types.inputs.size(); ++i) {
      const ValueType& type = random.types.inputs[i];
      inputs.push_back(Tensor::FromDoubles(type, test::RandomValues(seed * 100 + i, type.num_elements(), -1.5, 1.5)));
    }
    const absl::StatusOr<Tensor> fused = RunNode(OpRegistry::Builtin().Get(random.op), random.types, inputs);
    ASSERT_TRUE(fused.ok()) << random.ToString() << ": " << fused.status();
    const absl::StatusOr<Tensor> expected = RunOneByOne(random, inputs);
    ASSERT_TRUE(expected.ok()) << random.ToString() << ": " << expected.status();
    const std::string difference = BitDifference(*fused, *expected);
    same_bits += difference.empty() ? 1 : 0;
    if (slow()) {
      EXPECT_EQ(difference, "") << "seed " << seed << ": " << random.ToString();
    } else {
      EXPECT_EQ(test::FindDifference(fused->type.shape, fused->ToDoubles(), expected->ToDoubles(), kTolerance),
                std::nullopt)
          << "seed " << seed << ": " << random.ToString();
    }
  }
  test::SetCudaRun({});
  RecordProperty("chains with the same bits", std::to_string(same_bits) + " of " + std::to_string(chains));
}

struct FusedModel {
  const char* path;
  int64_t batch;
  DType precision = DType::kFloat32;
  bool training = true;
  bool large = false;
};

class NetworkFusion : public Fusion, public testing::WithParamInterface<FusedModel> {
 protected:
  absl::StatusOr<Result> Run(const LoadedNetwork& loaded, bool fused, int64_t* fused_nodes) {
    const How how{.training = GetParam().training, .batch = GetParam().batch};
    CompileOptions options = OptionsOf(how);
    options.device = {Device::Kind::kCuda};
    options.precision = GetParam().precision;
    if (!fused) options.disabled_passes = {"fuse_elementwise"};
    SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                          Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
    for (const Step& step : compiled.executable.steps)
      *fused_nodes += compiled.graph.node(step.node).op.rfind("fused", 0) == 0 ? 1 : 0;
    std::vector<Compiled> all;
    all.push_back(std::move(compiled));
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(std::move(all), how, device()));
    return Train(*session, loaded, kTrainingSteps);
  }
};

TEST_P(NetworkFusion, ChangesNoBits) {
  if (slow() && GetParam().large) GTEST_SKIP() << "takes minutes where kernels are emulated";
  const LoadedNetwork loaded = LoadModel(GetParam().path).value();
  int64_t fused_nodes = 0;
  int64_t none = 0;
  const absl::StatusOr<Result> fused = Run(loaded, true, &fused_nodes);
  ASSERT_TRUE(fused.ok()) << fused.status();
  const absl::StatusOr<Result> apart = Run(loaded, false, &none);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_EQ(none, 0);
  RecordProperty("fused nodes", std::to_string(fused_nodes));
  if (slow()) {
    EXPECT_EQ(fused->losses, apart->losses);
    EXPECT_TRUE(fused->state == apart->state);
    return;
  }
  for (size_t i = 0; i < apart->losses.size(); ++i) {
    EXPECT_NEAR(fused->losses[i], apart->losses[i], kTolerance * (1 + std::abs(apart->losses[i]))) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, NetworkFusion,
    testing::Values(FusedModel{"models/mlp.pbtxt", 8}, FusedModel{"models/lenet.pbtxt", 2},
                    FusedModel{"models/lenet.pbtxt", 2, DType::kBFloat16},
                    FusedModel{"tests/golden/parity/transformer.pbtxt", 2},
                    FusedModel{"tests/golden/parity/transformer.pbtxt", 2, DType::kBFloat16},
                    FusedModel{"tests/golden/parity/transformer.pbtxt", 2, DType::kFloat32, /*training=*/false},
                    FusedModel{"tests/data/elementwise.pbtxt", 4},
                    FusedModel{"tests/data/elementwise.pbtxt", 4, DType::kBFloat16},
                    FusedModel{"tests/data/elementwise.pbtxt", 4, DType::kFloat64},
                    FusedModel{"models/resnet20.pbtxt", 2, DType::kBFloat16, /*training=*/true, /*large=*/true}),
    [](const auto& info) {
      const std::string path = info.param.path;
      const size_t begin = path.rfind('/') + 1;
      return path.substr(begin, path.find('.') - begin) + "_" + std::string(Name(info.param.precision)) +
             (info.param.training ? "" : "_forward");
    });

}  // namespace
}  // namespace snug::core
