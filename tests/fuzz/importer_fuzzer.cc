// libFuzzer: every network that loads is imported, its loops and branches get their normal form, it is differentiated
// and its loops are unrolled, or it is refused with a message; nothing crashes, overflows or takes memory by the size
// of a shape.
//
//   build/fuzz/tests/fuzz/importer_fuzzer -dict=tests/fuzz/loader.dict NEW_CORPUS models tests/golden/errors
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/normal_form.h"
#include "engine/compile/control/unroll.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/import.h"
#include "engine/compile/passes/pass.h"
#include "engine/graph/graph.h"
#include "proto/text_loader.h"

namespace {

// As the pipeline does. Returns false where there are too many rounds to look at.
bool Normalize(snug::core::Imported& imported, const snug::core::OpRegistry& registry, bool training) {
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
  const auto choices = snug::core::NormalizeControlFlow(
      imported, registry, {.training = training, .rule = snug::core::LoopRule::kUnrolled});
  SNUG_CHECK(choices.ok() || !choices.status().message().empty());
  if (!choices.ok()) return false;
  SNUG_CHECK_OK(snug::core::VerifyGraph(graph));
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  snug::core::LoadOptions options;
  options.max_layers = 200;
  options.max_expanded_bytes = 1 << 20;
  const auto loaded = snug::core::LoadNetworkText({reinterpret_cast<const char*>(data), size}, "fuzz.pbtxt", options);
  if (!loaded.ok()) return 0;
  const snug::core::OpRegistry& registry = snug::core::OpRegistry::Builtin();
  for (const bool training : {false, true}) {
    for (const snug::core::DType precision : {snug::core::DType::kFloat32, snug::core::DType::kBFloat16}) {
      auto imported = snug::core::Import(loaded->network, loaded->source_map, registry,
                                         {.batch = 2, .training = training, .precision = precision});
      if (!imported.ok()) {
        SNUG_CHECK(!imported.status().message().empty());
        continue;
      }
      SNUG_CHECK_OK(snug::core::VerifyGraph(imported->graph));
      if (!Normalize(*imported, registry, training)) continue;
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
