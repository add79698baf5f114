// libFuzzer: every network that loads is imported and differentiated, or refused with a message; nothing crashes,
// overflows or takes memory by the size of a shape.
//
//   build/fuzz/tests/fuzz/importer_fuzzer -dict=tests/fuzz/loader.dict NEW_CORPUS models tests/golden/errors
#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "engine/compile/import/import.h"
#include "engine/graph/graph.h"
#include "proto/text_loader.h"

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
      if (!training) continue;
      snug::core::GraphBuilder builder(registry, &imported->graph);
      const auto gradients =
          snug::core::AddBackward(builder, {.wanted = snug::core::TrainedParameters(imported->graph)});
      SNUG_CHECK(gradients.ok() || !gradients.status().message().empty());
      SNUG_CHECK_OK(snug::core::VerifyGraph(imported->graph));
    }
  }
  return 0;
}
