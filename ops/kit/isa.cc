#include "ops/kit/isa.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace snug::core {
namespace {

Isa Detect() {
#if defined(__x86_64__)
  // All that WithIsa compiles for: a virtual machine may have one and hide another.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

Isa Choose() {
  const Isa machine = Detect();
  const char* wanted = std::getenv("SNUG_ISA");
  return wanted == nullptr ? machine : std::min(IsaCalled(wanted).value_or(machine), machine);
}

}  // namespace

Isa CurrentIsa() {
  static const Isa isa = Choose();
  return isa;
}

std::optional<Isa> IsaCalled(const char* name) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (std::strcmp(name, Name(isa)) == 0) return isa;
  }
  return std::nullopt;
}

const char* Name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

}  // namespace snug::core
