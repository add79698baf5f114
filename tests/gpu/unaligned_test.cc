// Reductions, small products and group norms of arrays that begin at no multiple of 16 bytes, so that nothing is read
// in packs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_launch.h"
#include "ops/graph_builder.h"
#include "ops/registry.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/test_device.h"
#include "tests/testing/node_runner.h"
#include "tests/testing/sample_values.h"

namespace snug::core {
namespace {

class Unaligned : public OnDevice {
 protected:
  absl::StatusOr<std::vector<test::Tensor>> RunAt(int64_t shift, const OpDef& op, const NodeTypes& types,
                                                  const std::vector<test::Tensor>& inputs) {
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::CudaStream> stream, cuda::CudaStream::Create(device()));
    const cuda::LaunchContext context(*stream);
    test::DeviceMemory memory(*stream, shift);
    test::SetCudaRun({.context = &context,
                      .synchronize = [&memory] { return memory.Return(); },
                      .place = [&memory](void* host, int64_t bytes) { return memory.Place(host, bytes); }});
    absl::StatusOr<test::NodeRunner> runner =
        test::NodeRunner::Make(OpRegistry::Builtin(), op, types, test::KernelChoice::kCuda, 1);
    absl::StatusOr<test::NodeRun> run = runner.ok() ? runner->Run(inputs) : runner.status();
    test::SetCudaRun({});
    SNUG_RETURN_IF_ERROR(run.status());
    return std::move(run->outputs);
  }

  // Calls compare(name, aligned, unaligned) with the outputs of each good sample of an op.
  template <class Compare>
  void CompareSamples(const char* name, const Compare& compare) {
    const OpDef& op = OpRegistry::Builtin().Get(name);
    SampleBuilder samples;
    op.samples(samples);
    for (const Sample& sample : samples.cases()) {
      if (!sample.infer_error().empty() || !sample.run_error().empty()) continue;
      for (const DType dtype : sample.dtypes()) {
        for (const Layout& layout : {Layout::Plain(), Layout::ChannelsLast()}) {
          if (!layout.plain() && !test::HasChannelsLastForm(op, sample)) continue;
          NodeTypes types = test::SampleTypes(op, sample, dtype, layout);
          ASSERT_TRUE(InferTypes(op, &types).ok());
          const std::vector<test::Tensor> inputs = test::SampleValues(op, sample, types);
          const std::string of = std::string(name) + "/" + sample.name() + "/" + std::string(Name(dtype)) +
                                 (layout.plain() ? "" : "/channels_last");
          const auto aligned = RunAt(0, op, types, inputs);
          ASSERT_TRUE(aligned.ok()) << of << ": " << aligned.status();
          const auto unaligned = RunAt(8, op, types, inputs);
          ASSERT_TRUE(unaligned.ok()) << of << ": " << unaligned.status();
          compare(of, *aligned, *unaligned);
        }
      }
    }
  }
};

// How numbers are read does not change the order in which they are added.
TEST_F(Unaligned, ReductionsHaveTheBitsOfAlignedOnes) {
  std::vector<const char*> ops = {"reduce_sum",      "reduce_mean",     "reduce_max",
                                  "reduce_max_grad", "reduce_to_shape", "global_avg_pool"};
  if (CanCompileKernels().ok()) ops.push_back("fused_reduce");
  for (const char* op : ops) {
    CompareSamples(op, [](const std::string& of, const auto& aligned, const auto& unaligned) {
      EXPECT_EQ(test::FindBitDifference(aligned[0], unaligned[0]), std::nullopt) << of;
    });
  }
}

TEST_F(Unaligned, SmallProductsHaveTheBitsOfAlignedOnes) {
  for (const char* op : {"dense", "dense_fused", "dense_grad_input", "dense_grad_weight_bias"}) {
    CompareSamples(op, [](const std::string& of, const auto& aligned, const auto& unaligned) {
      for (size_t i = 0; i < aligned.size(); ++i) {
        EXPECT_EQ(test::FindBitDifference(aligned[i], unaligned[i]), std::nullopt) << of << ", output " << i;
      }
    });
  }
}

TEST_F(Unaligned, GroupNormsAreTheSameToRounding) {
  for (const char* op : {"group_norm", "group_norm_grad"}) {
    CompareSamples(op, [](const std::string& of, const auto& aligned, const auto& unaligned) {
      for (size_t i = 0; i < aligned.size(); ++i) {
        const ValueType& type = aligned[i].type;
        const double tolerance = type.dtype == DType::kBFloat16 ? 0x1p-7 : type.dtype == DType::kFloat32 ? 1e-4 : 1e-12;
        EXPECT_EQ(test::FindDifference(type.shape, unaligned[i].ToDoubles(), aligned[i].ToDoubles(), tolerance),
                  std::nullopt)
            << of << ", output " << i;
      }
    });
  }
}

}  // namespace
}  // namespace snug::core
