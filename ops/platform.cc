#include "ops/platform.h"

#include "ops/lib/isa.h"
#if SNUG_HAS_ONEDNN
#include "ops/lib/onednn.h"
#endif

namespace snug {

Platform CpuPlatform() {
#if SNUG_HAS_ONEDNN
  const std::string library = "oneDNN " + onednn::Version();
#else
  const std::string library = "none";
#endif
  return {.device = "cpu", .instructions = std::string(Name(CurrentIsa())), .library = library};
}

}  // namespace snug
