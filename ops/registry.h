// The known ops. Built explicitly from the generated list of files (nothing registers itself); passed by reference to
// all that needs it, so a test or an embedding program can add its own.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ops/op_def.h"

namespace snug {

class OpRegistry {
 public:
  // With every op of this library.
  static const OpRegistry& Builtin();

  OpRegistry() = default;
  OpRegistry(const OpRegistry&) = default;

  // Rejects duplicate names and ops without infer, kernel or samples; `file` names the culprit.
  absl::Status AddAll(absl::string_view file, std::vector<OpDef> ops);

  const OpDef* Find(absl::string_view name) const;  // null: unknown
  const OpDef& Get(absl::string_view name) const;   // our own bug if unknown
  std::vector<const OpDef*> all() const;            // by name
  absl::string_view file_of(absl::string_view name) const;

 private:
  struct Entry {
    OpDef def;
    std::string file;
  };
  std::map<std::string, Entry, std::less<>> ops_;
};

}  // namespace snug
