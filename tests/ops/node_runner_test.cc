// Tests that the runner sees kernels that misbehave: otherwise the conformance suite would prove nothing.
#include "tests/testing/node_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/graph_builder.h"
#include "ops/kernel_context.h"
#include "ops/prepare_context.h"
#include "tests/ops/conformance.h"
#include "tests/testing/fake_op.h"

namespace snug::core::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

absl::Status Copy(const KernelContext& k) {
  for (int i = 0; i < 4; ++i) k.output<float>(0)[i] = k.input<float>(0)[i];
  return absl::OkStatus();
}

absl::StatusOr<NodeRun> RunKernel(KernelFn kernel, PrepareFn prepare = nullptr) {
  OpDef op = FakeOp("f", {{"x"}}, {{"y"}});
  op.kernels[0].run = kernel;
  op.kernels[0].prepare = prepare;
  NodeTypes types;
  types.inputs = types.outputs = {{DType::kFloat32, {4}}};
  types.present = {true};
  const std::vector<Tensor> inputs = {Tensor::FromDoubles(types.inputs[0], {1, 2, 3, 4})};
  absl::StatusOr<NodeRunner> runner = NodeRunner::Make(OpRegistry::Builtin(), op, types, KernelChoice::kFast, 1);
  if (!runner.ok()) return runner.status();
  return runner->Run(inputs);
}

TEST(NodeRunner, GivesTheOutputs) {
  const absl::StatusOr<NodeRun> run = RunKernel(Copy);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->outputs[0].ToDoubles(), ::testing::ElementsAre(1, 2, 3, 4));
}

#if !defined(__SANITIZE_ADDRESS__)  // AddressSanitizer stops the program at the write itself
TEST(NodeRunner, SeesWritesOutsideTheOutput) {
  const auto status = RunKernel([](const KernelContext& k) {
                        k.output<float>(0)[4] = 0;
                        return Copy(k);
                      }).status();
  EXPECT_THAT(status.message(), HasSubstr("outside output 0 \"y\" of 16 bytes: at offset 16"));
  const auto before = RunKernel([](const KernelContext& k) {
                        k.output<uint8_t>(0)[-1] = 0;
                        return Copy(k);
                      }).status();
  EXPECT_THAT(before.message(), HasSubstr("at offset -1"));
}

TEST(NodeRunner, SeesWritesOutsideTheWorkspace) {
  const auto status = RunKernel(
                          [](const KernelContext& k) {
                            k.workspace<uint8_t>()[10] = 0;
                            return Copy(k);
                          },
                          [](PrepareContext& c) {
                            c.SetWorkspaceBytes(10);
                            return absl::OkStatus();
                          })
                          .status();
  EXPECT_THAT(status.message(), HasSubstr("outside its workspace of 10 bytes: at offset 10"));
}
#endif

TEST(NodeRunner, SeesChangedInputs) {
  const auto status = RunKernel([](const KernelContext& k) {
                        k.variable<float>(0)[2] = 7;
                        return Copy(k);
                      }).status();
  EXPECT_THAT(status.message(), HasSubstr("the kernel changed input 0 \"x\": element [2]: 3 and 7"));
}

TEST(NodeRunner, PassesTheKernelsErrorOn) {
  const auto status = RunKernel([](const KernelContext&) { return absl::OutOfRangeError("label 9"); }).status();
  EXPECT_EQ(status, absl::OutOfRangeError("label 9"));
}

TEST(NodeRunner, APrepareThatIsNeverContentIsAnError) {
  const auto status = RunKernel(Copy, [](PrepareContext& c) {
                        c.WantInputLayout(0, Layout::Plain());
                        return absl::OkStatus();
                      }).status();
  EXPECT_THAT(status.message(), HasSubstr("asks for other layouts"));
}

// Returns what the conformance suite says of such an op.
Failures FailuresOfOp(OpDef op) {
  op.samples = [](SampleBuilder& s) { s.Case("s").Input({4}).Only({DType::kFloat32}); };
  OpRegistry registry;
  SNUG_CHECK_OK(registry.AddAll("fake", {op}));
  const std::deque<OpSamples> samples = CollectSamples(registry);
  Failures failures;
  for (const ConformanceCase& c : CasesOf(samples)) {
    for (const std::string& failure : CheckKernels(registry, c)) failures.push_back(failure);
  }
  return failures;
}

TEST(Conformance, SeesBytesThatAreNotWritten) {
  OpDef op = FakeOp("f", {{"x"}}, {{"y"}});
  op.kernels[0].run = Copy;
  EXPECT_THAT(FailuresOfOp(op), ::testing::IsEmpty());
  op.kernels[0].run = [](const KernelContext& k) {
    for (int i = 0; i < 3; ++i) k.output<float>(0)[i] = k.input<float>(0)[i];
    return absl::OkStatus();
  };
  EXPECT_THAT(FailuresOfOp(op), Contains(HasSubstr("other garbage in outputs and workspace: output 0 element [3]")));
}

TEST(Conformance, SeesGarbageReadFromTheWorkspace) {
  OpDef op = FakeOp("f", {{"x"}}, {{"y"}});
  op.kernels[0].prepare = [](PrepareContext& c) {
    c.SetWorkspaceBytes(4);
    return absl::OkStatus();
  };
  op.kernels[0].run = [](const KernelContext& k) {
    SNUG_RETURN_IF_ERROR(Copy(k));
    k.output<float>(0)[1] = *k.workspace<float>();
    return absl::OkStatus();
  };
  EXPECT_THAT(FailuresOfOp(op), Contains(HasSubstr("other garbage")));
}

TEST(Conformance, SeesResultsThatDependOnThreads) {
  OpDef op = FakeOp("f", {{"x"}}, {{"y"}});
  op.kernels[0].run = [](const KernelContext& k) {
    SNUG_RETURN_IF_ERROR(Copy(k));
    k.output<float>(0)[0] = static_cast<float>(k.threads());
    return absl::OkStatus();
  };
  EXPECT_THAT(FailuresOfOp(op), Contains(HasSubstr("1 and 2 threads: output 0 element [0]: 1 and 2")));
}

TEST(Conformance, SeesAnAliasThatDoesNotWorkInPlace) {
  OpDef op = FakeOp("f", {{"x"}}, {{"y"}});
  op.aliases = {{Alias::Kind::kMayShare, 0, 0}};
  op.kernels[0].run = [](const KernelContext& k) {  // reverses its input
    for (int i = 0; i < 4; ++i) k.output<float>(0)[i] = k.input<float>(0)[3 - i];
    return absl::OkStatus();
  };
  EXPECT_THAT(FailuresOfOp(op), Contains(HasSubstr("output 0 in place of input 0")));
}

TEST(Conformance, SeesAGateThatDoesNotHold) {
  OpDef op = FakeOp("f", {{"x"}, {"gate", PortType::kBytes}}, {});
  op.infer = [](InferContext&) { return absl::OkStatus(); };
  op.aliases = {{Alias::Kind::kMutates, 0, 0}};
  op.kernels[0].run = [](const KernelContext& k) {
    k.variable<float>(0)[1] += 1;
    return absl::OkStatus();
  };
  op.samples = [](SampleBuilder& s) { s.Case("s").Input({4}).Bytes({}).Values({1}).Only({DType::kFloat32}); };
  OpRegistry registry;
  SNUG_CHECK_OK(registry.AddAll("fake", {op}));
  const std::deque<OpSamples> samples = CollectSamples(registry);
  EXPECT_THAT(CheckKernels(registry, CasesOf(samples)[0]), Contains(HasSubstr("the gate is 0, yet input 0 changed")));
}

}  // namespace
}  // namespace snug::core::test
