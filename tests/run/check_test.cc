// The check of accesses: planted kernels that stray are caught and named; ours pass.
#include <absl/types/span.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <csignal>
#include <cstring>
#include <functional>

#include "engine/run/check/check_executor.h"
#include "tests/run/train_util.h"
#include "tests/testing/kernel_of.h"

namespace snug::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a planted kernel does beside the node's own.
using Prank = std::function<void(const KernelContext& context)>;
struct Planted {
  std::shared_ptr<const KernelRow> kernel;
  std::shared_ptr<const void> prepared;
  Prank before, after;
};

absl::Status RunPlanted(const KernelContext& context) {
  const Planted& planted = context.prepared<Planted>();
  if (planted.before != nullptr) planted.before(context);
  const NodeTypes& types = context.types();
  // Nothing of the heap: a kernel that is caught leaves this frame without its destructors.
  std::array<void*, 8> inputs{}, outputs{};
  const auto num_inputs = static_cast<size_t>(context.num_inputs());
  const auto num_outputs = static_cast<size_t>(context.num_outputs());
  for (size_t i = 0; i < num_inputs; ++i) inputs.at(i) = const_cast<char*>(context.input<char>(static_cast<int>(i)));
  for (size_t i = 0; i < num_outputs; ++i) outputs.at(i) = context.output<char>(static_cast<int>(i));
  const KernelContext own(&types, absl::MakeSpan(inputs.data(), num_inputs),
                          absl::MakeSpan(outputs.data(), num_outputs), context.workspace(), planted.prepared.get(),
                          context.threads(), context.random_id());
  const absl::Status status = planted.kernel->run(own);
  if (planted.after != nullptr) planted.after(context);
  return status;
}

absl::StatusOr<Compiled> CompileForChecks(const std::string& model, int64_t batch, int64_t image = 0) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(model, image);
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(),
                 {.batch = batch, .threads = 1, .keep_inputs = true, .memory = {.strategy = "both"}});
}

absl::StatusOr<std::unique_ptr<Session>> Checked(absl::StatusOr<Compiled> compiled) {
  if (!compiled.ok()) return compiled.status();
  auto session =
      Session::Create(*std::move(compiled), {.seed = 1, .engine = ExecutorKind::kSerial, .check_access = true});
  if (!session.ok()) return session;
  const absl::Status fed = FeedRandom(**session, OpRegistry::Builtin(), 1);
  if (!fed.ok()) return fed;
  return session;
}

// The error of a run of mlp in which the node of this name does something else before or after its kernel.
std::string ErrorOf(const std::string& node_name, Prank before, Prank after) {
  absl::StatusOr<Compiled> compiled = CompileForChecks("mlp", 4);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  bool found = false;
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    if (compiled->graph.node(id).name != node_name) continue;
    KernelChoice& choice = compiled->kernels[static_cast<size_t>(id.index)];
    choice.prepared = std::make_shared<Planted>(Planted{choice.kernel, choice.prepared, before, after});
    choice.kernel = test::KernelOf(RunPlanted);
    found = true;
  }
  EXPECT_TRUE(found) << node_name;
  const auto session = Checked(std::move(compiled));
  EXPECT_TRUE(session.ok()) << session.status().message();
  const absl::Status status = (*session)->Run();
  EXPECT_FALSE(status.ok());
  // The same again, or that the session has failed: nothing has crashed.
  EXPECT_FALSE((*session)->Run().ok());
  return std::string(status.message());
}

std::string ErrorAfter(const std::string& node, Prank after) { return ErrorOf(node, nullptr, std::move(after)); }

volatile float g_sink;  // what is read is not optimised away

constexpr char kNode[] = "fc1+relu1";  // [4, 784] x [256, 784] -> [4, 256]: 4096 bytes, a page
constexpr char kWhere[] = "mlp.pbtxt:";

TEST(CheckAccess, AByteWrittenPastAnOutput) {
  const std::string error = ErrorAfter(kNode, [](const KernelContext& c) { c.output<char>(0)[4096] = 1; });
  EXPECT_THAT(error, AllOf(HasSubstr(kWhere), HasSubstr("\"fc1+relu1\" (dense_fused)"),
                           HasSubstr("writes 1 byte past the end of output \"")));
  // An output whose end is not that of its page: the logits, [4, 10].
  EXPECT_THAT(ErrorAfter("fc3", [](const KernelContext& c) { c.output<char>(0)[160 + 2] = 1; }),
              HasSubstr("writes 3 bytes past the end of output \"fc3\" (160 bytes)"));
}

TEST(CheckAccess, AByteWrittenBeforeAnOutput) {
  EXPECT_THAT(ErrorAfter(kNode, [](const KernelContext& c) { c.output<char>(0)[-1] = 1; }),
              HasSubstr("writes 1 byte before the begin of output \""));
  EXPECT_THAT(ErrorAfter("fc3", [](const KernelContext& c) { c.output<char>(0)[-1] = 1; }),
              HasSubstr("writes 1 byte before the begin of output \"fc3\" (160 bytes)"));
}

TEST(CheckAccess, AReadPastAnInput) {
  // 4 x 784 floats end with a page's alignment of 64 bytes.
  EXPECT_THAT(ErrorAfter(kNode, [](const KernelContext& c) { g_sink = c.input<float>(0)[4 * 784]; }),
              HasSubstr("reads 1 byte past the end of input \"image\" (12544 bytes)"));
  // The bias of 10 floats does not: what was read there shows in the result.
  EXPECT_THAT(ErrorAfter("fc3", [](const KernelContext& c) { c.output<float>(0)[3] += c.input<float>(2)[10]; }),
              AllOf(HasSubstr("reads bytes around Variable \"fc3.bias\" (40 bytes)"),
                    HasSubstr("of output \"fc3\" (160 bytes) depends on them")));
}

TEST(CheckAccess, AnInputThatIsWritten) {
  EXPECT_THAT(ErrorAfter(kNode, [](const KernelContext& c) { const_cast<char*>(c.input<char>(0))[7] = 1; }),
              HasSubstr("writes byte 7 of input \"image\" (12544 bytes), which it only reads"));
}

TEST(CheckAccess, AVariableThatIsWrittenButNotDeclaredSo) {
  EXPECT_THAT(ErrorAfter(kNode, [](const KernelContext& c) { const_cast<char*>(c.input<char>(1))[0] = 1; }),
              HasSubstr("writes byte 0 of Variable \"fc1.weight\" (802816 bytes), which it only reads"));
}

// The error of the first run that fails where `user` reads the third number of what `keeper` has last got as its first
// input or output.
std::string ErrorOfStalePointer(const std::string& keeper, bool output, const std::string& user) {
  auto kept = std::make_shared<const float*>(nullptr);
  absl::StatusOr<Compiled> compiled = CompileForChecks("mlp", 4);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  int planted = 0;
  for (const NodeId id : compiled->graph.ProgramOrder()) {
    const std::string& name = compiled->graph.node(id).name;
    Prank after;
    if (name == keeper) {
      after = [=](const KernelContext& c) { *kept = output ? c.output<float>(0) : c.input<float>(0); };
    } else if (name == user) {
      after = [kept](const KernelContext&) {
        if (*kept != nullptr) g_sink = (*kept)[2];
      };
    } else {
      continue;
    }
    KernelChoice& choice = compiled->kernels[static_cast<size_t>(id.index)];
    choice.prepared = std::make_shared<Planted>(Planted{choice.kernel, choice.prepared, nullptr, after});
    choice.kernel = test::KernelOf(RunPlanted);
    ++planted;
  }
  EXPECT_EQ(planted, 2);
  const auto session = Checked(std::move(compiled));
  EXPECT_TRUE(session.ok()) << session.status().message();
  absl::Status status;
  for (int run = 0; run < 2 && status.ok(); ++run) status = (*session)->Run();
  return std::string(status.message());
}

TEST(CheckAccess, AValueThatIsDeadOrYetToComeOrNotDeclared) {
  EXPECT_THAT(ErrorOfStalePointer("loss/softmax_cross_entropy_grad", false, "fc1.weight/update"),
              AllOf(HasSubstr("\"fc1.weight/update\""), HasSubstr("reads byte 8 of \""), HasSubstr("which is dead")));
  EXPECT_THAT(ErrorOfStalePointer("fc3", true, kNode),
              AllOf(HasSubstr(kNode), HasSubstr("reads byte 8 of \"fc3\""), HasSubstr("which is not written yet")));
  EXPECT_THAT(ErrorOfStalePointer("fc2+relu2", false, "fc3"),
              AllOf(HasSubstr("\"fc3\""), HasSubstr("reads byte 8 of \""), HasSubstr("which it does not declare")));
}

TEST(CheckAccess, AnOutputThatIsReadBeforeItIsWritten) {
  auto held = std::make_shared<float>();
  EXPECT_THAT(ErrorOf(
                  kNode, [held](const KernelContext& c) { *held = c.output<float>(0)[5]; },
                  [held](const KernelContext& c) { c.output<float>(0)[9] = *held > 1 ? 3 : 4; }),
              AllOf(HasSubstr("reads output \""), HasSubstr("before it writes it: byte 3"), HasSubstr("depends on")));
}

TEST(CheckAccess, AnOutputThatIsNotWrittenWhole) {
  auto held = std::make_shared<char>();
  EXPECT_THAT(ErrorOf(
                  kNode, [held](const KernelContext& c) { *held = c.output<char>(0)[1000]; },
                  [held](const KernelContext& c) { c.output<char>(0)[1000] = *held; }),
              HasSubstr("does not write byte 1000 of output \""));
}

TEST(CheckAccess, AResultThatIsAnotherEachTime) {
  auto calls = std::make_shared<int>(0);
  EXPECT_THAT(
      ErrorAfter(kNode, [calls](const KernelContext& c) { c.output<float>(0)[0] = static_cast<float>(++*calls); }),
      HasSubstr("is not repeatable"));
}

TEST(CheckAccess, MemoryThatIsNobodys) {
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_THAT(ErrorAfter(kNode, [page](const KernelContext&) { static_cast<volatile char*>(page)[0] = 1; }),
              HasSubstr("which is none of the plan's"));
  munmap(page, 4096);
}

TEST(CheckAccess, HandlersOfFaultsAreThoseOfBeforeAgain) {
  struct sigaction before, after;
  sigaction(SIGSEGV, nullptr, &before);
  const auto session = Checked(CompileForChecks("mlp", 2));
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->Run().ok());
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(CheckAccess, IsForOneThreadOneProgramAndTheSerialEngine) {
  const auto error = [](int threads, SessionOptions options) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel("mlp");
    EXPECT_TRUE(loaded.ok());
    auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), {.threads = threads});
    EXPECT_TRUE(compiled.ok());
    options.check_access = true;
    return std::string(Session::Create(*std::move(compiled), options).status().message());
  };
  EXPECT_THAT(error(2, {.engine = ExecutorKind::kSerial}), HasSubstr("one thread per op, found 2"));
  EXPECT_THAT(error(1, {}), HasSubstr("serial"));
  EXPECT_THAT(error(1, {.engine = ExecutorKind::kSerial, .poison = true}), HasSubstr("poison"));
}

struct CheckedNetwork {
  const char* name;
  int64_t batch, image;
};

class OurKernels : public testing::TestWithParam<CheckedNetwork> {};

// And the results are those of the run without checks.
TEST_P(OurKernels, TouchOnlyWhatTheyDeclare) {
  const CheckedNetwork& net = GetParam();
  const auto session = Checked(CompileForChecks(net.name, net.batch, net.image));
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto plain = Session::Create(*CompileForChecks(net.name, net.batch, net.image), {.seed = 1});
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  ASSERT_TRUE(FeedRandom(**plain, OpRegistry::Builtin(), 1).ok());
  EXPECT_EQ(Losses(**session, 1), Losses(**plain, 1));
  for (const Variable& variable : (*session)->compiled().graph.variables()) {
    if (variable.role == VariableRole::kConstant) continue;
    EXPECT_TRUE(*(*session)->GetVariable(variable.name) == *(*plain)->GetVariable(variable.name)) << variable.name;
  }
}

INSTANTIATE_TEST_SUITE_P(CheckAccess, OurKernels,
                         testing::Values(CheckedNetwork{"mlp", 4, 0}, CheckedNetwork{"lenet", 3, 0},
                                         CheckedNetwork{"resnet18", 2, 32}, CheckedNetwork{"mobilenet_v2", 2, 32},
                                         CheckedNetwork{"resnet50", 2, 32}, CheckedNetwork{"gpt_small", 1, 0},
                                         CheckedNetwork{"conv_zoo", 2, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace snug::core
