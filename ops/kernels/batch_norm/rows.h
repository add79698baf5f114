// The kernels of the batch norm ops, which differ in their calls alone.
#pragma once

#include <vector>

#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/kernels/batch_norm/cuda.h"
#include "ops/op_def.h"

namespace snug::core {

// `Call` as for BatchNormCpu.
template <class Call>
std::vector<KernelRow> BatchNormKernels() {
  return {{.name = "own", .serves = NotInDouble, .prepare = PrepareBatchNorm, .run = BatchNormCpuFast<Call>},
          Plain(BatchNormCpu<Call>),
          {.device = kOnCuda,
           .name = "own",
           .prepare = SNUG_IF_CUDA(PrepareBatchNormCuda),
           .run = SNUG_IF_CUDA(BatchNormCuda<Call>)}};
}

}  // namespace snug::core
