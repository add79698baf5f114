// The last stages, which make an Executable and prove that it does what the Graph says. Each is in a .cc file of its
// own.
#pragma once

#include <absl/status/status.h>

#include "engine/compile/executable.h"
#include "engine/compile/memory/tasks.h"
#include "engine/compile/pipeline.h"

namespace snug::core {

// Makes an Executable from Graph, kernels, tasks and Plan. It lacks only the schedule.
Executable Lower(const Graph& graph, const std::vector<KernelChoice>& kernels, const StepTasks& tasks, MemoryPlan plan,
                 absl::Span<const CallerValue> bound, int threads);

// Gives the Steps of an Executable their streams and the waits between them, and proves that both suffice. The result
// is verified from the tasks, the plan and the schedule alone (memory/verifier.h), so a mistake in what was computed
// from them shows.
absl::Status ScheduleSteps(const StepTasks& tasks, int streams, Executable& executable);
absl::Status VerifySchedule(const StepTasks& tasks, const Executable& executable);

// Estimates what several streams bring, from the Steps' estimated costs.
struct StreamEstimate {
  double one_stream = 0;  // seconds that a step takes on one stream
  double scheduled = 0;   // on the streams of the schedule
  double unlimited = 0;   // on these streams, if nobody had to wait for bytes to be free
};
StreamEstimate EstimateStreams(const StepTasks& tasks, const Executable& executable);

// The independent check of what will be run, whoever made it: a planner, a plan file, one stream or several. It gets
// the Graph and the finished Executable, and trusts no lifetimes, buffers, views or accesses of the stages between
// them. It goes through the Steps in their Order, records after each what lies on every byte, and works out from the
// bytes that kernels use who must wait for whom.
//
// Checks that every run that the schedule allows gives what program order of the Graph does:
//   every node with a kernel runs once, or is a view whose readers find its bytes where those lie;
//   every operand lies inside its arena, on the device's alignment, and holds at that Step what the Graph says, with
//   Variables changed as often as in program order;
//   a Step writes over an input of its own only where its op may work in place;
//   what is fetched, what is kept, and every Variable are there after the last Step;
//   if one of two Steps writes bytes that the other uses, the earlier is done before the later begins, both by the
//   schedule's streams and waits, and by the accesses that engines without a schedule use;
//   blocks of dynamic memory are used after they are taken and before they are given back.
// An error is Internal: a stage is wrong. It names the layer, the bytes, and what was found there. O(n log n) for n
// operands, times the number of streams.
absl::Status VerifyExecutable(const Compiled& compiled);

}  // namespace snug::core
