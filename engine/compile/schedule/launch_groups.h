// Finds Steps that are asked for in one launch (KernelRow::together), for a plan and a schedule as they are.
//
// A Step that can join others is put off as long as what runs meanwhile leaves its bytes alone, by the one rule of
// engine/base/conflict.h. Steps that wait at the same time on one stream, and are alike, run as one. So nothing lives
// longer than the plan has it, and every result has the same bits. Between streams it relies on the schedule: the
// stream waits for others where the Step stood, so that what comes after it there may rely on it; a Step that another
// stream waits for is not put off; and what was put off runs before a Step of its stream that is waited for, unless no
// Step of another stream touches its bytes afterwards. This is for the updates of small parameters, of which networks
// have many. It is not for large ones: there a launch is a small part, and gradients are best read while a cache has
// them.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/compile/executable.h"

namespace snug::core {

struct LaunchGroup {
  std::vector<size_t> steps;  // several run together, on one stream
  bool only_waits = false;    // the one Step is put off, and its stream waits now for what it waits for
};

// Says whether a node of this kernel may join others.
bool CanJoin(const KernelRow& kernel, const NodeTypes& types);
// Says whether two nodes of one kernel have ports of the same element types, as one launch needs them.
bool SameElements(const NodeTypes& a, const NodeTypes& b);

// Returns what streams are asked for, in sequence: every Step once, besides where it only waits. Steps of one stream
// that conflict come in the sequence in which they were given.
std::vector<LaunchGroup> GroupLaunches(const std::vector<Step>& steps, const Schedule& schedule);

}  // namespace snug::core
