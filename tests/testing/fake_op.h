// Small ops for tests of what is around ops.
#pragma once

#include "ops/infer_context.h"
#include "ops/op_def.h"
#include "ops/sample_builder.h"

namespace snug::core::test {

// Any number of inputs and outputs; every output is like input 0. Its kernel must not be run.
inline OpDef FakeOp(absl::string_view name, std::vector<Port> inputs, std::vector<Port> outputs) {
  OpDef op;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.infer = [](InferContext& c) {
    c.SetOutput(0, c.input(0));
    return absl::OkStatus();
  };
  op.kernels = {
      {.name = "plain", .run = [](const KernelContext&) { return absl::InternalError("a fake kernel was run"); }}};
  op.samples = [](SampleBuilder&) {};
  return op;
}

}  // namespace snug::core::test
