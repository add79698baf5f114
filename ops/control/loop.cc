// loop: a layer that runs a sub-network again and again. Its node has the body as a sub-graph, which the importer makes
// (engine/compile/import/control_flow.h) and the compiler unrolls (engine/compile/control/unroll.h).
#include "ops/op_def.h"

namespace snug::core::ops::loop {

SNUG_OPS(loop) {
  return {{.name = "loop",
           .doc = "y = the carries of `body` after its rounds, then what is collected of each round",
           .inputs = {{.name = "x", .type = PortType::kAny, .variadic = true}},
           .outputs = {{.name = "y", .type = PortType::kAny, .variadic = true}},
           .traits = {.control = true}}};
}

}  // namespace snug::core::ops::loop
