#include "engine/compile/control/loop_rule.h"

#include <absl/strings/str_cat.h>

namespace snug::core {

absl::string_view LoopRuleName(LoopRule rule) {
  switch (rule) {
    case LoopRule::kBySize:
      return "by-size";
    case LoopRule::kUnrolled:
      return "unrolled";
    case LoopRule::kRolled:
      return "rolled";
  }
  return "?";
}

absl::StatusOr<LoopRule> ParseLoopRule(absl::string_view name) {
  for (const LoopRule rule : {LoopRule::kBySize, LoopRule::kUnrolled, LoopRule::kRolled}) {
    if (LoopRuleName(rule) == name) return rule;
  }
  return absl::InvalidArgumentError(absl::StrCat("expected by-size, unrolled or rolled, found \"", name, "\""));
}

}  // namespace snug::core
