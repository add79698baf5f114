// branch: a layer that takes one of several sub-networks. Its node has them as sub-graphs, which the importer makes
// (engine/compile/import/control_flow.h) and the compiler unrolls (engine/compile/control/unroll.h).
#include "ops/op_def.h"

namespace snug::core::ops::branch {

SNUG_OPS(branch) {
  return {{.name = "branch",
           .doc = "y = what the sub-network puts out whose number is the selector",
           .inputs = {{"selector", PortType::kInteger}, {.name = "x", .type = PortType::kAny, .variadic = true}},
           .outputs = {{.name = "y", .type = PortType::kAny, .variadic = true}},
           .traits = {.control = true}}};
}

}  // namespace snug::core::ops::branch
