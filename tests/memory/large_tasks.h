// Generated ordering problems of any size, shaped like training steps: for tests and benches of planning at scale.
#pragma once

#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include "memory/tasks.h"

namespace snug::core::memory {

// A kind of graph, by name:
// - "chain": a training step of layers in a row with shortcuts, as residual networks have; weights are resident, their
//   updates write in place.
// - "branches": the same, in which each layer is a block of four ways of two layers each that are joined.
// - "rounds": a recurrent cell over many rounds, backwards through time, with one gradient of the weights that grows.
// - "towers": 16 chains that begin at one input and meet at one loss, each trained.
// - "thicket": tasks in a random graph: each reads up to three of the last 40 values. No network is like that.
absl::Span<const absl::string_view> LargeTasksKinds();

// About `tasks` tasks; sizes are drawn by a generator with a fixed seed, so that the same arguments give the same
// graph.
Tasks LargeTasks(absl::string_view kind, int tasks);

}  // namespace snug::core::memory
