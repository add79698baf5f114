// Kernels that are passed over when a network is compiled: the choice keeps why, and what a library was expected to
// serve is said, counted and, with strict kernels, an error. A pretended library stands before the CPU's own kernels of
// relu.
#include "engine/run/session/fallbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/compile/summary.h"
#include "ops/prepare_context.h"
#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTwoRelus[] = R"(
    input { name: "x" shape { dim: 4 } }
    layer { name: "first" input: "x" relu {} }
    layer { name: "half" input: "first" scale { factor: 0.5 } }
    layer { name: "second" input: "half" relu {} }
    layer { name: "loss" input: "second" reduce_sum {} }
    objective: "loss")";

// The ops of this library, with the row before the others of relu.
OpRegistry With(const KernelRow& row) {
  OpRegistry registry;
  for (const OpDef* op : OpRegistry::Builtin().all()) {
    OpDef added = *op;
    if (op->name == "relu") added.kernels.insert(added.kernels.begin(), row);
    EXPECT_TRUE(registry.AddAll(OpRegistry::Builtin().file_of(op->name), {std::move(added)}).ok());
  }
  return registry;
}

KernelRow Abacus() {
  return {.name = "abacus", .library = "Abacus", .run = OpRegistry::Builtin().Get("relu").plain()->run};
}

KernelRow ThatDeclines(NotServed reason) {
  KernelRow row = Abacus();
  row.prepare = [reason = std::move(reason)](PrepareContext& c) {
    c.Decline(reason);
    return absl::OkStatus();
  };
  return row;
}

KernelRow ThatDoesNotServe(NotServed reason) {
  KernelRow row = Abacus();
  row.serves = [reason = std::move(reason)](const NodeTypes&) { return std::optional(reason); };
  return row;
}

absl::StatusOr<Compiled> CompileWith(const OpRegistry& registry, const char* text, CompileOptions options = {}) {
  options.training = false;
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "beads");
  if (!loaded.ok()) return loaded.status();
  return Compile(loaded->network, loaded->source_map, registry, options);
}

TEST(Fallbacks, ALibraryThatRefusesIsSaidOnceWithItsNodesAndCounted) {
  for (const KernelRow& row :
       {ThatDoesNotServe(Refused("it has no beads")), ThatDeclines(Refused("it has no beads"))}) {
    const OpRegistry registry = With(row);
    std::vector<Compiled> programs;
    for (int i = 0; i < 2; ++i) programs.push_back(CompileWith(registry, kTwoRelus).value());
    EXPECT_EQ(PassedOverText(programs[0]),
              "first relu: not abacus, it has no beads; plain serves\n"
              "second relu: not abacus, it has no beads; plain serves\n");
    std::vector<std::string> lines;
    const absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(std::move(programs), {.fallbacks = [&](const std::string& line) { lines.push_back(line); }});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_THAT(lines, ElementsAre("our plain kernel serves in place of Abacus's, more slowly, for relu \"first\", "
                                   "\"second\": it has no beads"))
        << "once for both programs";
    Json json;
    json.Object();
    WriteFallbacks((*session)->fallbacks(), json);
    json.End();
    EXPECT_THAT(json.text(), AllOf(HasSubstr("\"fallbacks\": 2,"), HasSubstr("\"instead\": \"plain\"")));
  }
}

TEST(Fallbacks, StrictKernelsNameTheNodeTheLibraryTheReasonAndWhatWouldServe) {
  const OpRegistry registry = With(ThatDeclines(Refused("it has no beads")));
  const absl::Status status =
      Session::Create(CompileWith(registry, kTwoRelus).value(), {.strict_kernels = true}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("layer \"first\" (relu): Abacus does not serve it: it has no beads; our plain kernel would, and "
                "--strict-kernels does not want that"));
}

TEST(Fallbacks, WhatIsByDesignOrOursIsInTheDumpAlone) {
  KernelRow ours = ThatDoesNotServe(Refused("it takes even numbers"));
  ours.library = "";
  for (const auto& [row, text] : {std::pair{ThatDeclines(ByDesign("our loops are as fast")), "our loops are as fast"},
                                  std::pair{ours, "it takes even numbers"}}) {
    const OpRegistry registry = With(row);
    Compiled compiled = CompileWith(registry, kTwoRelus).value();
    EXPECT_THAT(PassedOverText(compiled), HasSubstr(absl::StrCat("first relu: not abacus, ", text)));
    std::vector<std::string> lines;
    const absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(std::move(compiled),
                        {.fallbacks = [&](const std::string& line) { lines.push_back(line); }, .strict_kernels = true});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_THAT(lines, IsEmpty());
    EXPECT_THAT((*session)->fallbacks(), IsEmpty());
  }
}

TEST(Fallbacks, WhatTheUserAsksForIsByDesign) {
  const OpRegistry registry = With(Abacus());
  const Compiled plain = CompileWith(registry, kTwoRelus, {.plain_kernels = true}).value();
  EXPECT_THAT(PassedOverText(plain), HasSubstr("first relu: not abacus, plain kernels are asked for (by design)"));
  EXPECT_EQ(PassedOverText(CompileWith(registry, kTwoRelus).value()), "") << "it serves";
}

TEST(Fallbacks, AnErrorOfALibraryIsTheNodesAndNoRefusal) {
  for (const absl::Status& error : {absl::InternalError("a bead broke"), absl::InvalidArgumentError("a bead broke"),
                                    absl::ResourceExhaustedError("a bead broke")}) {
    KernelRow row = Abacus();
    row.prepare = [error](PrepareContext&) { return error; };
    const absl::Status status = CompileWith(With(row), kTwoRelus).status();
    EXPECT_EQ(status.code(), error.code());
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("layer \"first\" (relu)"), HasSubstr("a bead broke")));
  }
}

// Of a float64 network nobody expects a library's speed.
TEST(Fallbacks, Float64IsByDesign) {
  constexpr char kConv[] = R"(
      input { name: "x" shape { dim: [3, 8, 8] } }
      layer { name: "conv" input: "x" conv { filters: 4 kernel: 3 } }
      output: "conv")";
  for (const Device::Kind kind : {Device::Kind::kCpu, Device::Kind::kCuda}) {
    if (OpRegistry::Builtin().Get("conv").KernelsOn(kind).size() < 2) continue;  // the build has no library for it
    const absl::StatusOr<Compiled> compiled =
        CompileWith(OpRegistry::Builtin(), kConv, {.device = {.kind = kind}, .precision = DType::kFloat64});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_THAT(PassedOverText(*compiled), HasSubstr("not float64 (by design)"));
    Fallbacks fallbacks([](const std::string& line) { ADD_FAILURE() << line; });
    EXPECT_TRUE(fallbacks.AddPassedOver(*compiled).ok());
  }
}

// What cuDNN and cuBLASLt are not asked for is known without a device.
TEST(Fallbacks, OnCudaShapesThatALibraryDoesNotTakeAreRefused) {
  if (OpRegistry::Builtin().Get("conv").KernelsOn(kOnCuda).size() < 2) GTEST_SKIP() << "SKIPPED: a build without CUDA";
  const absl::StatusOr<Compiled> compiled = CompileWith(OpRegistry::Builtin(), R"(
      input { name: "image" shape { dim: [3, 8, 8] } }
      input { name: "volume" shape { dim: [3, 8, 8, 8] } }
      input { name: "x" shape { dim: [4, 16] } }
      input { name: "mask" shape { dim: [1, 4, 4] } }
      layer { name: "uneven" input: "image" conv { filters: 4 kernel: 4 padding: SAME } }
      layer { name: "deep" input: "volume" conv { filters: 4 kernel: 3 } }
      layer { name: "even" input: "x" input: "x" input: "x" attention { heads: 2 } }
      layer { name: "narrow" input: "x" input: "x" input: "x" attention { heads: 4 } }
      layer { name: "masked" input: "x" input: "x" input: "x" input: "mask" attention { heads: 2 } }
      output: "uneven"
      output: "deep"
      output: "even"
      output: "narrow"
      output: "masked")",
                                                        {.device = {.kind = kOnCuda}, .precision = DType::kBFloat16});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  std::vector<std::string> lines;
  Fallbacks fallbacks([&](const std::string& line) { lines.push_back(line); });
  EXPECT_TRUE(fallbacks.AddPassedOver(*compiled).ok());
  EXPECT_THAT(lines,
              testing::UnorderedElementsAre(
                  "our own kernel serves in place of cuDNN's, more slowly, for attention \"narrow\": it is for heads "
                  "whose width is a multiple of 8, up to 128",
                  "our own kernel serves in place of cuDNN's, more slowly, for attention \"masked\": it knows no mask "
                  "but the causal one"));
}

class FallbacksOfModels : public testing::TestWithParam<std::string> {};

// Nobody who trains one of our models is told anything.
TEST_P(FallbacksOfModels, ThereAreNone) {
  const absl::StatusOr<LoadedNetwork> model = LoadModel(GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Device::Kind kind : {Device::Kind::kCpu, Device::Kind::kCuda}) {
    if (OpRegistry::Builtin().Get("relu").KernelsOn(kind).empty()) continue;  // a build without CUDA
    for (const DType precision : {DType::kFloat32, DType::kBFloat16}) {
      const absl::StatusOr<Compiled> compiled =
          CompileGraph(model->network, model->source_map, OpRegistry::Builtin(),
                       {.device = {.kind = kind}, .batch = 2, .precision = precision, .threads = 2});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      Fallbacks fallbacks([](const std::string& line) { ADD_FAILURE() << line; });
      EXPECT_TRUE(fallbacks.AddPassedOver(*compiled).ok());
      EXPECT_EQ(fallbacks.all().size(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FallbacksOfModels, testing::ValuesIn(Models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace snug::core
