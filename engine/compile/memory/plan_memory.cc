#include "engine/compile/memory/plan_memory.h"

#include <absl/strings/str_cat.h>

#include <chrono>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/memory/what_fits.h"
#include "engine/compile/schedule/streams.h"
#include "memory/place/placers.h"
#include "memory/share/blocks.h"
#include "memory/share/parallel.h"
#include "memory/verifier.h"

namespace snug::core {
namespace {

// Each size is bounded, but their sum could still overflow.
absl::Status CheckTotal(const StepTasks& tasks) {
  double total = 0;
  for (const memory::Buffer& buffer : tasks.state.buffers) total += static_cast<double>(buffer.size_bytes);
  for (const memory::TaskValue& value : tasks.tasks.values) total += static_cast<double>(value.size_bytes);
  if (total < 0x1p56) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the network's values need ", total, " bytes in all, more than any machine has"));
}

constexpr absl::string_view kSerial = "serial", kWaitless = "waitless";

absl::StatusOr<memory::Placement> PlaceForStreams(const memory::Tasks& tasks, const memory::TaskOrder& order,
                                                  absl::string_view policy, const MemoryOptions& options) {
  if (policy != kWaitless) {
    SNUG_ASSIGN_OR_RETURN(memory::ParallelSharing sharing,
                          memory::ShareInParallel(tasks, order, policy, options.planner));
    return std::move(sharing.placement);
  }
  const std::vector<int32_t> stream_of = AssignStreams(tasks, order, options.streams);
  std::vector<std::vector<int32_t>> streams(static_cast<size_t>(options.streams));
  for (size_t i = 0; i < order.size(); ++i) streams[static_cast<size_t>(stream_of[i])].push_back(order[i]);
  return memory::PlaceWaitless(tasks, streams, options.planner);
}

// Tells whether prealloc takes a share of the device, because no size is given.
bool IsShareOfDevice(const memory::AllocatorOptions& options) {
  return options.allocator == "prealloc" && options.initial_mb == 0 && options.reallocate_mb == 0;
}

// Where the device cannot give a chunk of the usual size, the allocator may get by with smaller ones, and this is
// predicted. If the step does not fit in any case, the prediction is for a device that is large enough.
absl::StatusOr<memory::AllocatorStatistics> PredictFor(Device device, const DynamicMemory& dynamic,
                                                       int64_t state_bytes) {
  if (IsShareOfDevice(dynamic.options.allocator)) return Predict(dynamic, state_bytes, FreeBytesOf(device));
  SNUG_ASSIGN_OR_RETURN(memory::AllocatorStatistics predicted, Predict(dynamic, state_bytes, -1));
  const int64_t free_bytes = FreeBytesOf(device);
  if (free_bytes < 0 || predicted.peak_reserved_bytes <= free_bytes) return predicted;
  const absl::StatusOr<memory::AllocatorStatistics> here = Predict(dynamic, state_bytes, free_bytes);
  return here.ok() ? *here : predicted;
}

absl::Status PlanDynamic(const StepTasks& tasks, const memory::TaskOrder& given, Device device,
                         const MemoryOptions& options, MemoryPlan* plan) {
  if (!options.stream_policy.empty()) {
    return absl::InvalidArgumentError("a stream policy shares bytes by a plan: dynamic memory has none");
  }
  DynamicMemoryOptions dynamic_options = options.dynamic;
  dynamic_options.allocator.memory_limit = options.memory_limit;
  SNUG_RETURN_IF_ERROR(memory::Validate(dynamic_options.allocator));
  SNUG_RETURN_IF_ERROR(memory::Validate(dynamic_options.garbage));
  DynamicMemory& dynamic = plan->dynamic.emplace(FindBlocks(tasks, given, dynamic_options, &plan->step));
  SNUG_RETURN_IF_ERROR(memory::Verify(plan->step.problem, plan->step.placement.plan));
  dynamic.place = PlaceOf(device);
  SNUG_ASSIGN_OR_RETURN(dynamic.predicted, PredictFor(device, dynamic, plan->state_plan.arena_bytes));
  memory::SearchReport& report = plan->step.placement.report;
  report.proven = plan->step_bytes() == report.lower_bound;
  return absl::OkStatus();
}

}  // namespace

std::vector<absl::string_view> StreamPolicies() {
  std::vector<absl::string_view> names = {kSerial, kWaitless};
  for (const absl::string_view name : memory::ParallelSharingNames()) names.push_back(name);
  return names;
}

absl::string_view PlacingPolicy(const MemoryOptions& options) {
  if (options.strategy == kDynamicMemory || options.stream_policy == kSerial) return "";
  if (!options.stream_policy.empty()) return options.stream_policy;
  return options.streams > 1 && options.strategy == memory::kDefaultStrategy ? kWaitless : "";
}

absl::StatusOr<MemoryPlan> PlanMemory(const StepTasks& tasks, const memory::TaskOrder& given, Device device,
                                      const MemoryOptions& options) {
  SNUG_RETURN_IF_ERROR(CheckTotal(tasks));
  const auto begin = std::chrono::steady_clock::now();
  MemoryPlan plan{
      .strategy = options.strategy, .state_problem = tasks.state, .state_plan = memory::PlanNone(tasks.state)};
  SNUG_RETURN_IF_ERROR(memory::Verify(plan.state_problem, plan.state_plan));
  if (options.strategy == kDynamicMemory) {
    SNUG_RETURN_IF_ERROR(PlanDynamic(tasks, given, device, options, &plan));
    plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return plan;
  }
  SNUG_ASSIGN_OR_RETURN(plan.step, memory::PlanTasks(tasks.tasks, given, options.strategy, options.planner));
  const absl::string_view policy = PlacingPolicy(options);
  if (!policy.empty()) {
    SNUG_ASSIGN_OR_RETURN(plan.step.placement, PlaceForStreams(tasks.tasks, plan.step.order, policy, options));
    plan.strategy = absl::StrCat(options.strategy, "+", policy);
    plan.step.ordered = false;  // the bound only holds for this order and these streams
    SNUG_RETURN_IF_ERROR(memory::Verify(plan.step.problem, plan.step.placement.plan));
  }
  SNUG_RETURN_IF_ERROR(CheckMemoryLimit(plan, options.memory_limit));
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return plan;
}

absl::Status CheckMemoryLimit(const MemoryPlan& plan, int64_t limit) {
  if (limit == 0 || plan.total_bytes() <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("memory by ", plan.strategy, " takes ", plan.total_bytes(), " bytes, the limit is ", limit,
                   plan.lower_bound() > limit ? absl::StrCat("; no plan takes less than ", plan.lower_bound()) : "",
                   ". `snug fit` finds the largest batch for a limit, `snug memcost` what each strategy takes"));
}

}  // namespace snug::core
