#include "tools/cli/flags/device_flag.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>

namespace snug::core::cli {

void AddDeviceFlag(Flags& flags, std::string* text) {
  flags.Add("device", text,
            "where steps run: cpu (default), or cuda[:N], the N-th GPU; `snug doctor` says what is there");
}

void SayWhatVaries(const Compiled& compiled) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names = NodesThatVary(compiled.graph, compiled.kernels);
  if (names.empty()) return;
  const size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  std::fprintf(stderr, "may have other bits each time: %s%s\n", absl::StrJoin(names, ", ").c_str(),
               more > 0 ? absl::StrCat(" and ", more, " more").c_str() : "");
}

}  // namespace snug::core::cli
