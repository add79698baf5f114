#include <absl/strings/str_cat.h>
#include <sched.h>

#include <algorithm>
#include <optional>

#include "tools/cli/command.h"

namespace snug::cli {

absl::StatusOr<DType> ParsePrecision(const std::string& text) {
  const std::optional<DType> dtype = DTypeFromName(text);
  if (dtype.has_value() && IsFloating(*dtype)) return *dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("--precision: expected float32, bfloat16 or float64, found \"", text, "\""));
}

void AddJsonFlag(Flags& flags, bool* json) {
  flags.Add("json", json, "print one JSON document; everything else goes to standard error");
}

int DefaultThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace snug::cli
