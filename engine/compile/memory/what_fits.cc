#include "engine/compile/memory/what_fits.h"

#include <absl/strings/str_cat.h>

#include <cstdint>

#include "engine/base/has_cuda.h"
#include "engine/base/machine.h"
#include "engine/compile/memory/tasks.h"
#include "memory/share/blocks.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_device.h"
#endif

namespace snug::core {
namespace {

absl::StatusOr<MemoryPlan> PlanWith(const Compiled& compiled, const MemoryOptions& options) {
  return PlanMemory(compiled.tasks, GivenOrder(compiled.graph, compiled.tasks), compiled.device, options);
}

// Returns the bytes of a step with `batch` samples; 0 when they do not fit under the limit.
int64_t BytesOfBatch(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                     CompileOptions options, int64_t batch) {
  options.batch = batch;
  options.observer = nullptr;
  const absl::StatusOr<Compiled> compiled = CompileGraph(network, locations, registry, options);
  if (!compiled.ok()) return 0;
  const absl::StatusOr<MemoryPlan> plan = PlanWith(*compiled, options.memory);
  return plan.ok() ? plan->total_bytes() : 0;
}

}  // namespace

int64_t FreeBytesOf(Device device) {
  if (device.kind == Device::Kind::kCpu) return AvailableBytes();
#if SNUG_HAS_CUDA
  const absl::StatusOr<std::shared_ptr<const cuda::Api>> api = cuda::Api::Load();
  if (!api.ok()) return -1;
  const absl::StatusOr<std::shared_ptr<cuda::CudaDevice>> open = cuda::CudaDevice::Open(*api, device.index);
  if (open.ok()) return (*open)->FreeBytes().value_or(-1);
#endif
  return -1;
}

std::string WhatFits(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                     const CompileOptions& options, const Compiled& compiled) {
  const int64_t limit = options.memory.memory_limit;
  std::string text;
  if (const int64_t free_bytes = FreeBytesOf(options.device); free_bytes >= 0) {
    absl::StrAppend(&text, "\n  foretold, nothing is taken yet; free on ", ToString(PlaceOf(options.device)), ": ",
                    free_bytes, " bytes");
  }
  if (limit == 0) return text;

  // Larger batches need more, so the interval between one that fits and one that does not can be halved.
  int64_t fits = 0, too_large = compiled.batch, bytes = 0;
  while (fits + 1 < too_large) {
    const int64_t batch = fits + (too_large - fits) / 2;
    if (const int64_t found = BytesOfBatch(network, locations, registry, options, batch); found > 0) {
      fits = batch;
      bytes = found;
    } else {
      too_large = batch;
    }
  }
  if (fits > 0) absl::StrAppend(&text, "\n  a step would fit with --batch=", fits, ": ", bytes, " bytes at most");

  MemoryOptions planned = options.memory;
  planned.strategy = std::string(memory::kDefaultStrategy);
  planned.memory_limit = 0;  // so that a plan above the limit is reported, too
  planned.planner.capacity = limit - memory::PlanNone(compiled.tasks.state).arena_bytes;
  const absl::StatusOr<MemoryPlan> plan = PlanWith(compiled, planned);
  if (plan.ok() && plan->total_bytes() <= limit) {
    absl::StrAppend(&text, "\n  this one would fit with --memory=", planned.strategy, ": ", plan->total_bytes(),
                    " bytes");
  }

  MemoryOptions unlimited = options.memory;
  unlimited.memory_limit = 0;
  const absl::StatusOr<MemoryPlan> alone = PlanWith(compiled, unlimited);
  if (alone.ok()) {
    absl::StrAppend(&text, "\n  this one would fit with --memory-limit=", alone->total_bytes());
    if (plan.ok() && plan->total_bytes() > limit) {
      absl::StrAppend(&text, ", or ", plan->total_bytes(), " bytes and --memory=", planned.strategy);
    }
  }
  return text;
}

}  // namespace snug::core
