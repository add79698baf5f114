// A plan as JSON, for programs that draw it or look into it. `snug plan --json` writes the same fields, and more.
#pragma once

#include <string>

#include "snug/internal/engine.h"

namespace snug {
inline namespace v0 {
namespace embed {

std::string PlanReport(const core::Compiled& compiled);

}  // namespace embed
}  // namespace v0
}  // namespace snug
