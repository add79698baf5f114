// Fine-tuning: a session starts from those tensors of a file that fit, and reports which did.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "engine/run/session/session.h"
#include "engine/train/checkpoint/file_system.h"

namespace snug::core::checkpoint {

// Tells which names a user means with patterns such as "layer1.*" and "!fc.*". The last pattern that matches a name
// decides (engine/base/text/glob.h): a pattern that begins with '!' leaves the name out, others take it in. A name that
// no pattern matches is out, unless the first pattern begins with '!'. Without patterns all names are in.
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

struct InitReport {
  struct Left {
    std::string name, why;
  };
  std::string path;  // of the file
  std::vector<std::string> loaded;
  std::vector<Left> not_loaded;        // tensors of the file, and why
  std::vector<std::string> untouched;  // parameters and statistics that keep their content
  std::vector<std::string> unused;     // patterns that matched no tensor
  std::vector<std::string> notes;      // of the file (tensor_source.h)

  std::string ToString() const;  // lines for a log
};

// Loads of a safetensors file, one of torch.save, or the newest in the directory that a training left, the parameters
// and statistics that `patterns` include and that the network has with the same shape; floating-point types are
// converted. An error changes nothing. It is an error if no tensor fits at all.
absl::StatusOr<InitReport> InitFrom(Session& session, FileSystem& files, const std::string& path,
                                    const std::vector<std::string>& patterns);

}  // namespace snug::core::checkpoint
