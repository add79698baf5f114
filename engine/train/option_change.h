// What a training was told otherwise when it went on: an option, after which step, and its values before and from then
// on. Checkpoints keep all of them, and who looks at the run is told.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/text/json.h"

namespace snug::core {
namespace checkpoint {
class JsonReader;
}

struct OptionChange {
  int64_t step = 0;  // how many steps were done before
  std::string name, before, after;

  std::string ToString() const;  // "learning-rate 0.1 -> 0.01"
  friend bool operator==(const OptionChange& a, const OptionChange& b) {
    return a.step == b.step && a.name == b.name && a.before == b.before && a.after == b.after;
  }
};

// As an array of objects.
void WriteChanges(const std::vector<OptionChange>& changes, Json& json);
// What it does not know is passed over. The error says at which byte what was expected.
absl::StatusOr<std::vector<OptionChange>> ReadChanges(checkpoint::JsonReader& json);

}  // namespace snug::core
