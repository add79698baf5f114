#include "engine/compile/memory/batch_steps.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/compile/memory/tasks.h"
#include "memory/share/blocks.h"

namespace snug::core {

memory::StepOfBatch StepsOverBatches(const proto::Network& network, const SourceMap& locations,
                                     const OpRegistry& registry, CompileOptions options) {
  return [&network, &locations, &registry,
          options = std::move(options)](int64_t batch) -> absl::StatusOr<memory::BatchStep> {
    CompileOptions here = options;
    here.batch = batch;
    SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileGraph(network, locations, registry, here));
    memory::BatchStep step{.given = GivenOrder(compiled.graph, compiled.tasks),
                           .other_bytes = memory::PlanNone(compiled.tasks.state).arena_bytes};
    step.tasks = std::move(compiled.tasks.tasks);
    return step;
  };
}

}  // namespace snug::core
