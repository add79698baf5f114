// Tells which names a user means with patterns such as "layer1.*" and "!fc.*".
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

namespace snug::core::checkpoint {

// The last pattern that matches a name decides (engine/base/text/glob.h): a pattern that begins with '!' leaves the
// name out, others take it in. A name that no pattern matches is out, unless the first pattern begins with '!'. Without
// patterns all names are in.
class NamePatterns {
 public:
  explicit NamePatterns(std::vector<std::string> patterns);

  // `decided`, if given, is set to the pattern that decided, or to "".
  bool Includes(absl::string_view name, std::string* decided = nullptr);
  // Returns the patterns that have matched no name yet.
  std::vector<std::string> Unused() const;

 private:
  std::vector<std::string> patterns_;
  std::vector<char> used_;
};

}  // namespace snug::core::checkpoint
