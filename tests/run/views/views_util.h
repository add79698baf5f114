// Compiles networks with and without views, says where values lie, and compares what training leaves behind.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/memory/plan_memory.h"
#include "tests/control/lstm_cell.h"
#include "tests/run/train_util.h"

namespace snug::core {

// Parts that are written over in the rounds of a loop, whose gates lie where the product of all slices was, and their
// gradients there, too.
inline const std::string kLoopOfRounds = absl::StrCat("batch: 4 ", test::LstmCell(16), R"(
input { name: "x" shape { dim: [5, 16] } }
input { name: "zeros" shape { dim: 16 } }
layer { name: "lstm" input: "x" input: "zeros" input: "zeros" loop { body: "cell" scan { input: "x" }
  carry { input: "h" output: "h_next" } carry { input: "c" output: "c_next" } collect { output: "h_next" } } }
layer { name: "squares" input: "lstm:2" square {} }
layer { name: "loss" input: "squares" reduce_mean {} }
objective: "loss"
)");

// Every op's kernel runs.
inline const OpRegistry& WithoutRanges() {
  static const OpRegistry* const registry = [] {
    auto* r = new OpRegistry;
    for (const OpDef* op : OpRegistry::Builtin().all()) {
      OpDef copy = *op;
      copy.output_in_input = nullptr;
      copy.input_in_output = nullptr;
      SNUG_CHECK_OK(r->AddAll(OpRegistry::Builtin().file_of(op->name), {copy}));
    }
    return r;
  }();
  return *registry;
}

inline CompileOptions OptionsWithoutFusion(int64_t batch, const MemoryOptions& memory) {
  CompileOptions options{.batch = batch, .threads = 2, .memory = memory};
  options.disabled_passes = {"fuse_activation"};  // so that every value is there by its name
  options.memory.planner = PlannerFor(memory.strategy);
  return options;
}

inline absl::StatusOr<Compiled> TryCompile(const std::string& text, const OpRegistry& registry,
                                           const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  SNUG_CHECK_OK(loaded.status());
  return Compile(loaded->network, loaded->source_map, registry, options);
}

inline Compiled CompileText(const std::string& text, int64_t batch, const OpRegistry& registry,
                            const MemoryOptions& memory = {}) {
  absl::StatusOr<Compiled> compiled = TryCompile(text, registry, OptionsWithoutFusion(batch, memory));
  SNUG_CHECK_OK(compiled.status());
  return *std::move(compiled);
}

inline bool Runs(const Compiled& compiled, const std::string& node) {
  const std::vector<std::string>& names = compiled.tasks.tasks.names;
  return std::find(names.begin(), names.end(), node) != names.end();
}

inline size_t IndexOf(const Compiled& compiled, const std::string& value) {
  const ValueId id = compiled.graph.FindValue(value);
  SNUG_CHECK_MSG(id.valid(), value);
  return static_cast<size_t>(id.index);
}

inline int32_t BufferOf(const Compiled& compiled, const std::string& value) {
  return compiled.tasks.buffer_of_value[IndexOf(compiled, value)];
}

inline int64_t OffsetOf(const Compiled& compiled, const std::string& value) {
  return compiled.tasks.offset_of_value[IndexOf(compiled, value)];
}

// All that three steps leave behind, bit for bit.
inline std::vector<std::string> TrainToBits(Compiled compiled, ExecutorKind engine = ExecutorKind::kReplay,
                                            bool poison = false) {
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(std::move(compiled), {.seed = 3, .engine = engine, .poison = poison});
  SNUG_CHECK_OK(session.status());
  std::vector<std::string> results;
  const auto bytes_of = [](const Session::View& view) {
    return std::string(reinterpret_cast<const char*>(view.data), static_cast<size_t>(view.type->size_bytes()));
  };
  for (uint64_t step = 0; step < 3; ++step) {
    SNUG_CHECK_OK(FeedRandom(**session, OpRegistry::Builtin(), step));
    SNUG_CHECK_OK((*session)->Run());
    for (const Endpoint& output : (*session)->compiled().executable.outputs) {
      results.push_back(bytes_of(*(*session)->Output(output.name)));
    }
  }
  for (const Variable& variable : (*session)->compiled().graph.variables()) {
    const absl::StatusOr<Session::View> view = (*session)->FindVariable(variable.name);
    if (view.ok()) results.push_back(bytes_of(*view));
  }
  return results;
}

inline std::vector<std::string> BitsOfCopies(const std::string& text, int64_t batch) {
  return TrainToBits(CompileText(text, batch, WithoutRanges(), {.strategy = "none"}));
}

inline void ExpectSameBits(const std::string& text, int64_t batch, bool every_strategy) {
  const std::vector<std::string> truth = BitsOfCopies(text, batch);
  for (const std::string& name : AllStrategies()) {
    if (!every_strategy && name != "none" && name != "best") continue;
    const Compiled compiled = CompileText(text, batch, OpRegistry::Builtin(), {.strategy = name});
    EXPECT_TRUE(TrainToBits(compiled) == truth) << name << ", batch " << batch << text;
    EXPECT_TRUE(TrainToBits(compiled, ExecutorKind::kSerial, /*poison=*/true) == truth)
        << name << ", poisoned, batch " << batch << text;
  }
}

// On several streams, by plans with waits for bytes and without, by either engine; and without a plan.
inline void ExpectSameBitsSideBySide(const std::string& text, int64_t batch, bool every_policy) {
  const std::vector<std::string> truth = BitsOfCopies(text, batch);
  const auto expect = [&](const MemoryOptions& memory, ExecutorKind engine) {
    EXPECT_TRUE(TrainToBits(CompileText(text, batch, OpRegistry::Builtin(), memory), engine) == truth)
        << memory.strategy << " " << memory.stream_policy << ", " << memory.streams << " streams, engine "
        << ExecutorName(engine) << text;
  };
  for (const int streams : {2, 4}) {
    for (const absl::string_view policy : StreamPolicies()) {
      if (!every_policy && policy != "serial" && policy != "waitless") continue;
      for (const char* strategy : {"both", "best"}) {
        const MemoryOptions memory{.strategy = strategy, .streams = streams, .stream_policy = std::string(policy)};
        expect(memory, ExecutorKind::kReplay);
        expect(memory, ExecutorKind::kDynamic);
      }
    }
  }
  for (const bool inplace : {true, false}) {
    expect({.strategy = "dynamic", .dynamic = {.inplace = inplace}}, ExecutorKind::kSerial);
    for (const int streams : {1, 2, 4}) {
      expect({.strategy = "dynamic", .streams = streams, .dynamic = {.inplace = inplace}}, ExecutorKind::kDynamic);
    }
  }
}

}  // namespace snug::core
