// Feeds seeded random data to every input of a session: standard normal numbers, and integers below what their readers
// allow.
#pragma once

#include <absl/status/status.h>

#include "engine/run/session/session.h"

namespace snug::core {

// An integer input without any known bound is an error, which says how to state one.
absl::Status FeedRandom(Session& session, const OpRegistry& registry, uint64_t seed);

}  // namespace snug::core
