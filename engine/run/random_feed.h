// Seeded random data for every input of a session: standard normal numbers, and integers below what their readers
// allow.
#pragma once

#include <absl/status/status.h>

#include "engine/run/session.h"

namespace snug {

// An integer input whose bound nobody states is an error that says how to state it.
absl::Status FeedRandom(Session& session, const OpRegistry& registry, uint64_t seed);

}  // namespace snug
