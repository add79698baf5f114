// Programs that keep what follows from Variables alone (CompileOptions::keep_derived) compute what the others do, of
// the Variables as they are now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::HasSubstr;

absl::StatusOr<Compiled> CompileForward(const LoadedNetwork& loaded, CompileOptions options) {
  options.training = false;
  options.threads = 2;
  return Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
}

// Parameters and statistics that are no defaults: a batch norm with them does something.
void Stir(Session& session, double by = 0.002) {
  for (const Variable& variable : session.compiled().graph.variables()) {
    if (variable.role != VariableRole::kParameter && variable.role != VariableRole::kStatistic) continue;
    std::vector<double> values = *session.GetVariable(variable.name);
    for (size_t i = 0; i < values.size(); ++i) values[i] += by * static_cast<double>(i % 7);
    ASSERT_TRUE(session.SetVariable(variable.name, values).ok()) << variable.name;
  }
}

std::vector<double> AllOutputs(Session& session, size_t program = 0) {
  std::vector<double> all;
  for (const Endpoint& output : session.program(program).compiled().executable.outputs) {
    const std::vector<double> values = *session.program(program).Fetch(output.name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-3 * (1 + std::fabs(expected[i]))) << what << ", " << i;
  }
}

TEST(KeepDerived, EveryModelComputesTheSame) {
  for (const std::string& name : ModelsToRun()) {
    if (name == "gpt2" || name == "bert_base" || name == "vit_b16" || name == "resnet50" || name == "alexnet" ||
        name == "vgg11" || name == "convnext_tiny" || name == "densenet121" || name == "transformer_base")
      continue;  // large, and more of the same
    const absl::StatusOr<LoadedNetwork> loaded = LoadModel(name);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    std::vector<std::vector<double>> results;
    for (const bool keep : {false, true}) {
      CompileOptions options = {.batch = 2, .keep_inputs = true, .keep_derived = keep};
      options.training = false;
      auto session = MakeSession(*loaded, options);
      ASSERT_TRUE(session.ok()) << name << ": " << session.status();
      Stir(**session);
      for (int run = 0; run < 2; ++run) {
        ASSERT_TRUE((*session)->Run().ok()) << name;
        results.push_back(AllOutputs(**session));
      }
      EXPECT_EQ((*session)->state_bytes() + (*session)->step_bytes(), (*session)->compiled().planned_bytes()) << name;
      EXPECT_EQ((*session)->programs(), 1U);
    }
    ExpectNear(results[2], results[0], name);
    EXPECT_EQ(results[2], results[3]) << name;
  }
}

constexpr char kConvAndNorm[] = R"(
  name: "conv_and_norm"
  input { name: "x" shape { dim: [16, 8, 8] } }
  input { name: "target" shape { dim: 5 } }
  layer { name: "conv" input: "x" conv { filters: 64 kernel: 3 pad: 1 } }
  layer { name: "norm" input: "conv" batch_norm {} }
  layer { name: "act" input: "norm" relu {} }
  layer { name: "conv2" input: "act" conv { filters: 64 kernel: 3 pad: 1 bias: false } }
  layer { name: "norm2" input: "conv2" batch_norm { affine: false } }
  layer { name: "flat" input: "norm2" flatten {} }
  layer { name: "fc" input: "flat" dense { units: 5 } }
  layer { name: "norm3" input: "fc" batch_norm {} }
  layer { name: "loss" input: "norm3" input: "target" mean_squared_error {} }
  objective: "loss"
)";

std::vector<std::string> OpsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const NodeId id : graph.ProgramOrder()) ops.push_back(graph.node(id).op);
  return ops;
}

TEST(KeepDerived, FoldsBatchNormAndPacksWeightsInTheDerivation) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kConvAndNorm, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const absl::StatusOr<Compiled> compiled = CompileForward(*loaded, {.batch = 3, .keep_derived = true});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const std::string& op : OpsOf(compiled->graph)) {
    EXPECT_THAT(op, testing::Not(testing::AnyOf(HasSubstr("batch_norm"), testing::StrEq("cast"))))
        << ToText(compiled->graph);
  }
  ASSERT_NE(compiled->derivation, nullptr);
  const std::vector<std::string> derived = OpsOf(compiled->derivation->graph);
  EXPECT_EQ(std::count(derived.begin(), derived.end(), "fold_batch_norm"), 3);
  EXPECT_GE(std::count(derived.begin(), derived.end(), "reorder"), 1);
  const absl::StatusOr<Compiled> plain = CompileForward(*loaded, {.batch = 3});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->derivation, nullptr);
}

// A small image, one in steps, and pixels by few and by many weights.
constexpr char kSmallImages[] = R"(
  name: "small_images"
  input { name: "x" shape { dim: [64, 14, 14] } }
  layer { name: "few" input: "x" conv { filters: 2 kernel: 1 } }
  layer { name: "many" input: "x" conv { filters: 256 kernel: 1 } }
  layer { name: "steps" input: "many" conv { filters: 64 kernel: 3 stride: 2 pad: 1 } }
  layer { name: "small" input: "steps" conv { filters: 64 kernel: 3 pad: 1 } }
)";

TEST(KeepDerived, MultipliesSmallImagesTapByTap) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kSmallImages, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto kernel_of = [](const Compiled& compiled, absl::string_view name) -> std::string {
    for (const Step& step : compiled.executable.steps) {
      if (compiled.graph.node(step.node).name == name) return std::string(step.kernel->name);
    }
    return "";
  };
  for (const bool keep : {false, true}) {
    const absl::StatusOr<Compiled> compiled = CompileForward(*loaded, {.batch = 1, .keep_derived = keep});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const std::string dump = ToText(compiled->graph);
    EXPECT_EQ(kernel_of(*compiled, "steps") == "taps", keep) << dump;
    EXPECT_EQ(kernel_of(*compiled, "small") == "taps", keep) << dump;
    if (!keep) continue;
    EXPECT_EQ(kernel_of(*compiled, "many"), "product") << dump;
#if SNUG_HAS_ONEDNN
    EXPECT_EQ(kernel_of(*compiled, "few"), "onednn") << dump;
#endif
  }
}

// Four blocks: without an expansion, with a shortcut, with stride 2, and one whose inside is read elsewhere too.
constexpr char kDepthwise[] = R"(
  name: "depthwise"
  input { name: "x" shape { dim: [16, 11, 9] } }
  input { name: "target" shape { dim: 5 } }
  layer { name: "d1" input: "x" conv { kernel: 3 pad: 1 depthwise: true } }
  layer { name: "a1" input: "d1" relu6 {} }
  layer { name: "p1" input: "a1" conv { filters: 24 kernel: 1 bias: false } }
  layer { name: "n1" input: "p1" batch_norm {} }
  layer { name: "e2" input: "n1" conv { filters: 48 kernel: 1 } }
  layer { name: "b2" input: "e2" relu {} }
  layer { name: "d2" input: "b2" conv { kernel: 3 pad: 1 depthwise: true bias: false } }
  layer { name: "a2" input: "d2" relu6 {} }
  layer { name: "p2" input: "a2" conv { filters: 24 kernel: 1 } }
  layer { name: "s2" input: "n1" input: "p2" add {} }
  layer { name: "e3" input: "s2" conv { filters: 32 kernel: 1 } }
  layer { name: "d3" input: "e3" conv { kernel: 3 stride: 2 pad: 1 depthwise: true } }
  layer { name: "p3" input: "d3" conv { filters: 16 kernel: 1 } }
  layer { name: "e4" input: "p3" conv { filters: 16 kernel: 1 } }
  layer { name: "d4" input: "e4" conv { kernel: 3 pad: 1 depthwise: true } }
  layer { name: "p4" input: "d4" conv { filters: 16 kernel: 1 } }
  layer { name: "s4" input: "d4" input: "p4" add {} }
  layer { name: "flat" input: "s4" flatten {} }
  layer { name: "fc" input: "flat" dense { units: 5 } }
  layer { name: "loss" input: "fc" input: "target" mean_squared_error {} }
  objective: "loss"
)";

// Runs a batch of 3 with weights kept. `check` sees the network as it was compiled.
template <class Check>
std::vector<double> RunKept(const LoadedNetwork& loaded, CompileOptions options, const Check& check) {
  options.training = false;
  options.batch = 3;
  options.keep_derived = true;
  auto session = MakeSession(loaded, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  Stir(**session, 0.05);
  EXPECT_TRUE((*session)->Run().ok());
  check((*session)->compiled());
  return AllOutputs(**session);
}

TEST(KeepDerived, JoinsDepthwiseConvolutionsWithThoseAroundThem) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kDepthwise, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto run = [&](const CompileOptions& options) {
    return RunKept(*loaded, options, [&](const Compiled& compiled) {
      int64_t blocks = 0;
      for (const NodeId id : compiled.graph.ProgramOrder()) {
        const Node& node = compiled.graph.node(id);
        if (node.op != "depthwise_block") continue;
        ++blocks;
        EXPECT_EQ(compiled.kernels[static_cast<size_t>(id.index)].kernel->name, "strips") << node.name;
        EXPECT_EQ(node.inputs.size() > 7, node.name == "e2+b2+p2+s2") << node.name;
      }
      EXPECT_EQ(blocks, options.disabled_passes.empty() ? 3 : 0) << ToText(compiled.graph);
    });
  };
  const std::vector<double> joined = run({.threads = 1});
  ExpectNear(joined, run({.disabled_passes = {"join_depthwise"}}), "joined");
  for (const int threads : {2, 5}) EXPECT_EQ(run({.threads = threads}), joined) << threads;
}

// What is between two depthwise convolutions belongs to the first block, and so does the addition of two blocks, whose
// shortcut is then the second's result.
TEST(KeepDerived, JoinsEachConvolutionOnce) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(R"(
    name: "blocks"
    input { name: "x" shape { dim: [16, 16, 16] } }
    input { name: "target" shape { dim: 16 } }
    layer { name: "d0" input: "x" conv { kernel: 3 pad: 1 depthwise: true } }
    layer { name: "e1" input: "d0" conv { filters: 32 kernel: 1 } }
    layer { name: "r1" input: "e1" relu6 {} }
    layer { name: "d1" input: "r1" conv { kernel: 3 pad: 1 depthwise: true } }
    layer { name: "p1" input: "d1" conv { filters: 16 kernel: 1 } }
    layer { name: "e2" input: "x" conv { filters: 32 kernel: 1 } }
    layer { name: "r2" input: "e2" relu6 {} }
    layer { name: "d2" input: "r2" conv { kernel: 3 pad: 1 depthwise: true } }
    layer { name: "p2" input: "d2" conv { filters: 16 kernel: 1 } }
    layer { name: "sum" input: "p1" input: "p2" add {} }
    layer { name: "pool" input: "sum" global_avg_pool {} }
    layer { name: "loss" input: "pool" input: "target" mean_squared_error {} }
    objective: "loss"
  )",
                                                               "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto run = [&](const CompileOptions& options) {
    return RunKept(*loaded, options, [&](const Compiled& compiled) {
      const std::vector<std::string> ops = OpsOf(compiled.graph);
      const bool joins = options.disabled_passes.empty();
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "depthwise_block"), joins ? 3 : 0) << ToText(compiled.graph);
      EXPECT_TRUE(!joins || std::count(ops.begin(), ops.end(), "add") == 0) << ToText(compiled.graph);
    });
  };
  const std::vector<double> joined = run({.threads = 1});
  ExpectNear(joined, run({.disabled_passes = {"join_depthwise"}}), "joined");
  for (const int threads : {2, 5}) EXPECT_EQ(run({.threads = threads}), joined) << threads;
}

// Three additions: of a shortcut that is read again later, of two convolutions, and with nothing after it.
constexpr char kShortcuts[] = R"(
  name: "shortcuts"
  input { name: "x" shape { dim: [16, 5, 6] } }
  input { name: "target" shape { dim: 5 } }
  layer { name: "c1" input: "x" conv { filters: 16 kernel: 3 pad: 1 bias: false } }
  layer { name: "n1" input: "c1" batch_norm {} }
  layer { name: "c2" input: "n1" conv { filters: 16 kernel: 1 } }
  layer { name: "n2" input: "c2" batch_norm {} }
  layer { name: "s2" input: "n1" input: "n2" add {} }
  layer { name: "a2" input: "s2" relu {} }
  layer { name: "c3" input: "a2" conv { filters: 32 kernel: 1 bias: false } }
  layer { name: "d3" input: "n1" conv { filters: 32 kernel: 1 } }
  layer { name: "s3" input: "c3" input: "d3" add {} }
  layer { name: "a3" input: "s3" relu6 {} }
  layer { name: "c4" input: "a3" conv { filters: 32 kernel: 1 } }
  layer { name: "s4" input: "c4" input: "a3" add {} }
  layer { name: "flat" input: "s4" flatten {} }
  layer { name: "fc" input: "flat" dense { units: 5 } }
  layer { name: "loss" input: "fc" input: "target" mean_squared_error {} }
  objective: "loss"
)";

TEST(KeepDerived, AddsShortcutsWhereTheConvolutionIsComputed) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kShortcuts, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto run = [&](const CompileOptions& options) {
    return RunKept(*loaded, options, [&](const Compiled& compiled) {
      const std::vector<std::string> ops = OpsOf(compiled.graph);
      const bool joins = options.disabled_passes.empty();
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "conv_add"), joins ? 3 : 0);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "add"), joins ? 0 : 3);
    });
  };
  const std::vector<double> joined = run({.threads = 2});
  ExpectNear(joined, run({.threads = 2, .disabled_passes = {"add_in_convolution"}}), "joined");
  EXPECT_EQ(run({.threads = 2, .memory = {.strategy = "none"}}), joined);
}

// One side of the addition goes in steps of two, the other does not: the latter takes its pixels where they lie.
constexpr char kDownsample[] = R"(
  name: "downsample"
  input { name: "x" shape { dim: [16, 6, 6] } }
  input { name: "target" shape { dim: 5 } }
  layer { name: "c1" input: "x" conv { filters: 24 kernel: 3 pad: 1 stride: 2 } }
  layer { name: "c2" input: "c1" conv { filters: 32 kernel: 1 } }
  layer { name: "down" input: "x" conv { filters: 32 kernel: 1 stride: 2 } }
  layer { name: "sum" input: "c2" input: "down" add {} }
  layer { name: "relu" input: "sum" relu {} }
  layer { name: "flat" input: "relu" flatten {} }
  layer { name: "fc" input: "flat" dense { units: 5 } }
  layer { name: "loss" input: "fc" input: "target" mean_squared_error {} }
  objective: "loss"
)";

TEST(KeepDerived, AddsShortcutsInTheConvolutionThatCopiesNoPixels) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kDownsample, "test");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto run = [&](const CompileOptions& options) {
    return RunKept(*loaded, options, [&](const Compiled& compiled) {
      std::vector<std::string> joined;
      for (const NodeId id : compiled.graph.ProgramOrder()) {
        const Node& node = compiled.graph.node(id);
        if (node.op == "conv_add") joined.push_back(node.name);
      }
      if (options.disabled_passes.empty()) {
        EXPECT_THAT(joined, testing::ElementsAre("c2+sum+relu"));
      } else {
        EXPECT_THAT(joined, testing::IsEmpty());
      }
    });
  };
  ExpectNear(run({.threads = 2}), run({.threads = 2, .disabled_passes = {"add_in_convolution"}}), "joined");
}

class OneNetwork : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(kConvAndNorm, "test");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    loaded_ = *std::move(loaded);
  }

  std::unique_ptr<Session> Make(const std::vector<CompileOptions>& options,
                                const SessionOptions& session = {.seed = 3}) {
    std::vector<Compiled> programs;
    for (CompileOptions one : options) {
      one.threads = 2;
      absl::StatusOr<Compiled> compiled = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), one);
      EXPECT_TRUE(compiled.ok()) << compiled.status();
      programs.push_back(*std::move(compiled));
    }
    absl::StatusOr<std::unique_ptr<Session>> made = Session::Create(std::move(programs), session);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  void Feed(Session& session, size_t program, double shift = 0) {
    for (const Endpoint& input : session.program(program).compiled().executable.inputs) {
      std::vector<double> values(static_cast<size_t>(input.type.num_elements()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i)) + shift;
      ASSERT_TRUE(session.program(program).Feed(input.name, values).ok());
    }
  }

  LoadedNetwork loaded_;
};

CompileOptions Forward(int64_t batch, bool keep) {
  return {.batch = batch, .training = false, .fetch = {"act", "norm3"}, .keep_derived = keep};
}

TEST_F(OneNetwork, WhatIsSetCountsFromTheNextStepOnAndWhatIsFedStays) {
  const auto kept = Make({Forward(2, true)});
  const auto plain = Make({Forward(2, false)});
  for (int round = 0; round < 3; ++round) {
    for (Session* session : {kept.get(), plain.get()}) {
      Feed(*session, 0, 0.1 * round);
      if (round > 0) Stir(*session, 0.05);  // after feeding: the derivation may not take the bytes of inputs
      ASSERT_TRUE(session->Run().ok());
    }
    ExpectNear(AllOutputs(*kept), AllOutputs(*plain), "round");
  }
}

TEST_F(OneNetwork, EveryEngineAndStrategyHasTheSameBits) {
  std::vector<double> first;
  for (const ExecutorKind engine : {ExecutorKind::kSerial, ExecutorKind::kReplay, ExecutorKind::kDynamic}) {
    for (const char* const strategy : {"none", "best", "dynamic"}) {
      CompileOptions options = Forward(2, true);
      options.memory.strategy = strategy;
      options.memory.streams = strategy == std::string("dynamic") ? 1 : 2;
      if (!InfoOf(engine).needs_plan || strategy != std::string("dynamic")) {
        const auto session = Make({options}, {.seed = 3, .engine = engine});
        Feed(*session, 0);
        ASSERT_TRUE(session->Run().ok());
        if (first.empty()) first = AllOutputs(*session);
        EXPECT_EQ(AllOutputs(*session), first) << ExecutorName(engine) << " " << strategy;
      }
    }
  }
}

TEST_F(OneNetwork, EvaluationBesideTrainingSeesWhatIsLearnt) {
  CompileOptions training = {.batch = 2};
  const auto kept = Make({training, Forward(4, true), Forward(3, true)});
  const auto plain = Make({training, Forward(4, false), Forward(3, false)});
  EXPECT_EQ(kept->programs(), 3U);
  for (int round = 0; round < 2; ++round) {
    for (Session* session : {kept.get(), plain.get()}) {
      Feed(*session, 0);
      ASSERT_TRUE(session->Run(0).ok());
    }
    for (const size_t program : {1, 2}) {
      for (Session* session : {kept.get(), plain.get()}) {
        Feed(*session, program);
        ASSERT_TRUE(session->Run(program).ok());
      }
      ExpectNear(AllOutputs(*kept, program), AllOutputs(*plain, program), "evaluation");
    }
  }
}

TEST_F(OneNetwork, ProgramsThatDeriveOtherwiseDoNotMix) {
  std::string text = kConvAndNorm;
  text.replace(text.find("batch_norm {}"), 13, "batch_norm { epsilon: 1 }");
  absl::StatusOr<LoadedNetwork> other = LoadNetworkText(text, "other");
  ASSERT_TRUE(other.ok()) << other.status();
  std::vector<std::vector<double>> results;
  for (const bool keep : {false, true}) {
    std::vector<Compiled> programs;
    for (const LoadedNetwork* network : {&loaded_, &*other}) {
      absl::StatusOr<Compiled> compiled = CompileForward(*network, Forward(2, keep));
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      programs.push_back(*std::move(compiled));
    }
    const auto session = Session::Create(std::move(programs), {.seed = 3});
    ASSERT_TRUE(session.ok()) << session.status();
    for (const size_t program : {0, 1, 0}) {
      Feed(**session, program);
      ASSERT_TRUE((*session)->Run(program).ok());
      results.push_back(AllOutputs(**session, program));
    }
  }
  for (size_t i = 0; i < 3; ++i) ExpectNear(results[3 + i], results[i], std::to_string(i));
  EXPECT_NE(results[3], results[4]);
}

TEST_F(OneNetwork, WhatIsKeptIsNobodysToSet) {
  const auto session = Make({Forward(2, true)});
  const std::string name = session->program(0).compiled().derivation->graph.outputs[0].name;
  EXPECT_THAT(session->SetVariable(name, {1}).message(), HasSubstr("follows from others"));
}

TEST_F(OneNetwork, DynamicMemoryIsPlannedBesideTheDerivation) {
  CompileOptions options = Forward(2, true);
  options.memory.strategy = "dynamic";
  const auto session = Make({options}, {.seed = 3, .engine = ExecutorKind::kSerial});
  Feed(*session, 0);
  ASSERT_TRUE(session->Run().ok());
  EXPECT_EQ(session->state_bytes() + session->step_bytes(), session->compiled().planned_bytes());
}

TEST_F(OneNetwork, RefusesWhatItCannotDo) {
  CompileOptions options = {.batch = 2, .keep_derived = true};
  const auto training = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  EXPECT_THAT(training.status().message(), HasSubstr("keep-derived: expected a forward-only program"));
  options.keep_derived = false;
  options.only = {"fc"};
  const auto only = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  EXPECT_THAT(only.status().message(), HasSubstr("only: expected a forward-only program"));
  options = Forward(2, false);
  options.only = {"fo"};
  const auto unknown = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  EXPECT_THAT(unknown.status().message(), HasSubstr("the network has no value of that name"));
  options = Forward(2, true);
  options.threads = 1;
  absl::StatusOr<Compiled> compiled = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  ASSERT_TRUE(compiled.ok());
  const auto checked = Session::Create(*std::move(compiled), {.engine = ExecutorKind::kSerial, .check_access = true});
  EXPECT_THAT(checked.status().message(), HasSubstr("expected no --keep-derived"));
  options.memory.memory_limit = 1 << 20;
  const auto limited = Compile(loaded_.network, loaded_.source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(absl::IsResourceExhausted(limited.status())) << limited.status();
}

TEST_F(OneNetwork, OnlyComputesWhatIsAskedFor) {
  CompileOptions options = Forward(2, false);
  options.only = {"norm3"};
  const auto session = Make({options});
  EXPECT_THAT(OpsOf(session->compiled().graph), testing::Not(testing::Contains("mean_squared_error")));
  Feed(*session, 0);
  ASSERT_TRUE(session->Run().ok());
  EXPECT_EQ(session->Fetch("norm3")->size(), 10U);
  EXPECT_FALSE(session->Fetch("loss").ok());
}

}  // namespace
}  // namespace snug::core
