// libFuzzer: every network that loads is imported, its loops and branches get their normal form, it is differentiated
// and its loops are unrolled, or it is refused with a message; small ones are compiled to the end, with what the
// input's last bytes say of their loops. Nothing crashes, overflows or takes memory by the size of a shape.
//
//   build/fuzz/tests/fuzz/importer_fuzzer -dict=tests/fuzz/loader.dict NEW_CORPUS models tests/golden/errors
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/control/unroll.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/import.h"
#include "engine/compile/passes/pass.h"
#include "engine/compile/pipeline.h"
#include "engine/graph/graph.h"
#include "proto/text_loader.h"

namespace {

using snug::core::CompileOptions;
using snug::core::LoopRule;

// What the last bytes of an input choose: they are the end of the text as well, so nothing is lost of it.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  int Below(int end) { return left_ == 0 ? 0 : data_[--left_] % end; }

 private:
  const uint8_t* const data_;
  size_t left_;
};

// How loops are to be compiled. Options that do not go together are among it: those are refused.
CompileOptions LoopOptions(Choices& choices) {
  constexpr LoopRule kRules[] = {LoopRule::kRolled, LoopRule::kBySize, LoopRule::kUnrolled};
  CompileOptions options{.batch = 2, .loops = kRules[choices.Below(3)]};
  const int what = choices.Below(4);
  if (what == 1) options.recompute_rounds = choices.Below(9) - 1;
  if (what == 2) options.stash_limit = int64_t{1} << choices.Below(24);
  if (choices.Below(4) == 0) options.disabled_passes.insert("common_subexpressions");
  options.memory.planner.work_limit = 1000;
  return options;
}

// Whether it is small enough to be planned: not many nodes, in bodies neither, and no value of many bytes.
bool IsSmall(const snug::core::Graph& graph, int64_t* nodes) {
  constexpr int64_t kMostNodes = 200, kMostBytes = 1 << 20;
  for (snug::core::NodeId id = graph.first_node(); id.valid(); id = graph.node(id).next) {
    if (++*nodes > kMostNodes) return false;
    for (const snug::core::ValueId output : graph.node(id).outputs) {
      if (graph.type(output).size_bytes() > kMostBytes) return false;
    }
    for (const auto& body : graph.node(id).subgraphs) {
      if (!IsSmall(*body, nodes)) return false;
    }
  }
  for (const snug::core::ValueId input : graph.inputs()) {
    if (graph.type(input).size_bytes() > kMostBytes) return false;
  }
  return std::all_of(graph.variables().begin(), graph.variables().end(),
                     [](const snug::core::Variable& variable) { return variable.type.size_bytes() <= kMostBytes; });
}

// As the pipeline does. Returns false where there are too many rounds to look at.
bool Normalize(snug::core::Imported& imported, const snug::core::OpRegistry& registry, bool training, LoopRule rule) {
  constexpr int64_t kMost = 20'000;
  snug::core::Graph& graph = imported.graph;
  if (!snug::core::HasControlFlow(graph)) return true;
  if (snug::core::CountUnrolled(graph) > kMost) return false;
  for (const auto passes : {snug::core::LoopPasses(), snug::core::CellPasses()}) {
    for (const snug::core::Pass& pass : passes) {
      SNUG_CHECK_OK(pass.run(graph, registry));
      SNUG_CHECK_OK(snug::core::VerifyGraph(graph));
    }
  }
  const auto choices = snug::core::NormalizeControlFlow(imported, registry, {.training = training, .rule = rule});
  SNUG_CHECK(choices.ok() || !choices.status().message().empty());
  if (!choices.ok()) return false;
  SNUG_CHECK_OK(snug::core::VerifyGraph(graph));
  return true;
}

// The whole compile. A bug of ours is no answer, whatever the network is.
void CompileSmall(const snug::core::LoadedNetwork& loaded, const snug::core::OpRegistry& registry,
                  const CompileOptions& options) {
  const auto compiled = snug::core::Compile(loaded.network, loaded.source_map, registry, options);
  if (compiled.ok()) return;
  SNUG_CHECK(!compiled.status().message().empty());
  SNUG_CHECK_MSG(!absl::IsInternal(compiled.status()), std::string(compiled.status().message()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  snug::core::LoadOptions options;
  options.max_layers = 200;
  options.max_expanded_bytes = 1 << 20;
  const auto loaded = snug::core::LoadNetworkText({reinterpret_cast<const char*>(data), size}, "fuzz.pbtxt", options);
  if (!loaded.ok()) return 0;
  const snug::core::OpRegistry& registry = snug::core::OpRegistry::Builtin();
  Choices choices(data, size);
  CompileOptions compile = LoopOptions(choices);
  for (const bool training : {false, true}) {
    for (const snug::core::DType precision : {snug::core::DType::kFloat32, snug::core::DType::kBFloat16}) {
      auto imported = snug::core::Import(loaded->network, loaded->source_map, registry,
                                         {.batch = 2, .training = training, .precision = precision});
      if (!imported.ok()) {
        SNUG_CHECK(!imported.status().message().empty());
        continue;
      }
      SNUG_CHECK_OK(snug::core::VerifyGraph(imported->graph));
      int64_t nodes = 0;
      const bool small = IsSmall(imported->graph, &nodes);
      if (!Normalize(*imported, registry, training, compile.loops)) continue;
      compile.training = training;
      compile.precision = precision;
      if (small) CompileSmall(*loaded, registry, compile);
      std::vector<snug::core::ValueId> kept;
      if (training) {
        snug::core::GraphBuilder builder(registry, &imported->graph);
        const auto gradients =
            snug::core::AddBackward(builder, {.wanted = snug::core::TrainedParameters(imported->graph)});
        SNUG_CHECK(gradients.ok() || !gradients.status().message().empty());
        SNUG_CHECK_OK(snug::core::VerifyGraph(imported->graph));
        if (!gradients.ok()) continue;
        for (const auto& [value, gradient] : *gradients) kept.push_back(gradient);
      }
      SNUG_CHECK_OK(snug::core::UnrollLoops(imported->graph, registry, kept).status());
      SNUG_CHECK_OK(snug::core::VerifyGraph(imported->graph));
    }
  }
  return 0;
}
