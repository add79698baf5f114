// Makes a plan in which every buffer has its own memory pages, with guard pages around them that nothing may touch. The
// check of accesses (check_executor.h) runs on it.
#pragma once

#include <absl/status/status.h>

#include "engine/compile/pipeline.h"

namespace snug::core {

// Lowers `compiled` anew, in its order, on one stream. What its plan writes in place stays in place, on the same pages.
// A buffer ends where its last page does, as far as the alignment of 64 bytes allows.
absl::Status PadPlan(Compiled& compiled);
// Pads the plan of Variables, which several programs may share.
memory::Plan PadState(const memory::Problem& problem);

}  // namespace snug::core
