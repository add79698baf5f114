// Kernel rows for tests that put their own kernels where the engine has others.
#pragma once

#include <memory>
#include <utility>

#include "ops/op_def.h"

namespace snug::core::test {

inline std::shared_ptr<const KernelRow> KernelOf(KernelFn run) {
  return std::make_shared<const KernelRow>(KernelRow{.name = "planted", .run = std::move(run)});
}

// The op with only this row on the row's device.
inline OpDef WithKernel(OpDef op, KernelRow row) {
  std::erase_if(op.kernels, [&](const KernelRow& other) { return other.device == row.device; });
  op.kernels.push_back(std::move(row));
  return op;
}

}  // namespace snug::core::test
