// The independent check of what will be run, whatever made it: a planner, a plan file, one stream or several. It gets
// the Graph and the finished Executable and believes neither lifetimes, buffers, views nor accesses of the stages
// between them: it goes through the Steps in their Order, keeps book of what lies on every byte after each, and from
// the bytes that kernels are pointed to works out who must wait for whom.
#pragma once

#include <absl/status/status.h>

#include "engine/compile/pipeline.h"

namespace snug {

// Whether every run that the schedule allows gives what program order of the Graph does:
//   every node with a kernel runs once, or is a view whose readers find its bytes where those lie;
//   every operand lies inside its arena, on the device's alignment, and holds at that Step what the Graph says,
//   Variables as often changed as in program order; a Step writes over an input of its own only where its op may work
//   in place; what is fetched, what is kept, and every Variable is there after the last Step; of two Steps of which one
//   writes bytes that the other uses, the earlier is done before the later begins, by the schedule's streams and waits,
//   and by the accesses that engines without a schedule go by; blocks of dynamic memory are used after they were taken
//   and before they are given back.
// Internal: a stage is wrong. The error names the layer, the bytes, and what was found there. O(n log n) for n
// operands, times the number of streams.
absl::Status VerifyExecutable(const Compiled& compiled);

}  // namespace snug
