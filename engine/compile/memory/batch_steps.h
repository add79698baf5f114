// The step of a network for any number of samples, for plans over many batches (memory/batch/batch_plans.h).
#pragma once

#include "engine/compile/pipeline.h"
#include "memory/batch/batch_plans.h"

namespace snug::core {

// Compiles the network up to its tasks for each batch that it is asked for. All that is given must outlive what is
// returned, which has a copy of `options`.
memory::StepOfBatch StepsOverBatches(const proto::Network& network, const SourceMap& locations,
                                     const OpRegistry& registry, CompileOptions options);

}  // namespace snug::core
