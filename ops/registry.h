// The ops that are known. A registry is built explicitly from the generated list of files (nothing registers itself)
// and passed by reference to all that needs it, so a test or an embedding program can add its own ops.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ops/op_def.h"

namespace snug::core {

class OpRegistry {
 public:
  // Returns the registry with every op of this library.
  static const OpRegistry& Builtin();

  OpRegistry() = default;
  OpRegistry(const OpRegistry&) = default;

  // Rejects duplicate names and ops without infer, kernel or samples. Errors name `file`.
  absl::Status AddAll(absl::string_view file, std::vector<OpDef> ops);

  const OpDef* Find(absl::string_view name) const;  // null: there is no such op
  const OpDef& Get(absl::string_view name) const;   // it is our own bug if there is no such op
  std::vector<const OpDef*> all() const;            // sorted by name
  absl::string_view file_of(absl::string_view name) const;

 private:
  struct Entry {
    OpDef def;
    std::string file;
  };
  std::map<std::string, Entry, std::less<>> ops_;
};

}  // namespace snug::core
