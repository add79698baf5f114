// loop: a layer that runs a sub-network again and again. Its node has the body as a sub-graph, which the importer makes
// (engine/compile/import/control_flow.h). The compiler unrolls it (engine/compile/control/unroll.h) or gives it a
// kernel that runs the compiled body (engine/compile/control/rolled_loop.h).
#include "ops/node_types.h"
#include "ops/op_def.h"
#include "proto/loops.pb.h"

namespace snug::core::ops::loop {
namespace {

// What the compiler has added up.
Cost CostOfRounds(const NodeTypes& types) {
  const auto& options = types.options.Get<proto::NormalLoop>();
  return {.flops = options.flops(), .bytes = options.bytes(), .multiply_adds = options.multiply_adds()};
}

}  // namespace

SNUG_OPS(loop) {
  return {{.name = "loop",
           .doc = "y = the carries of `body` after its rounds, then what is collected of each round",
           .inputs = {{.name = "x", .type = PortType::kAny, .variadic = true}},
           .outputs = {{.name = "y", .type = PortType::kAny, .variadic = true}},
           .traits = {.control = true},
           .cost = CostOfRounds}};
}

}  // namespace snug::core::ops::loop
