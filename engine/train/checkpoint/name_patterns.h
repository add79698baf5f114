// Which names a user means: "layer1.*", "!fc.*".
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace snug::checkpoint {

// Patterns (engine/base/glob.h) in a row, the last that matches decides: one that begins with '!' leaves the name out,
// others take it in. Names that none matches are out; but if the first leaves something out, in. No patterns: all names
// are in.
class NamePatterns {
 public:
  explicit NamePatterns(std::vector<std::string> patterns);

  // `decided`, if given: the pattern that decided, or "".
  bool Includes(absl::string_view name, std::string* decided = nullptr);
  // Those that have matched no name yet.
  std::vector<std::string> Unused() const;

 private:
  std::vector<std::string> patterns_;
  std::vector<char> used_;
};

}  // namespace snug::checkpoint
