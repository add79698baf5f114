// Nodes for which a library's kernel was planned and one of our own serves, which may be many times slower: a session
// keeps them and tells of each once.
#pragma once

#include <absl/types/span.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executor.h"

namespace snug {

struct Fallback {
  std::string node, op;
  std::string library, why;  // "cuDNN", and what it said
};

class Fallbacks {
 public:
  // Gets a line for each reason. Null: it goes to standard error.
  using Report = std::function<void(const std::string& line)>;
  explicit Fallbacks(Report report) : report_(std::move(report)) {}

  void Add(const Compiled& compiled, absl::Span<const Executor::Refused> refused);
  const std::vector<Fallback>& all() const { return all_; }

 private:
  const Report report_;
  std::vector<Fallback> all_;
};

// Two members of the object that is open: "fallbacks", how many, and "fallback_nodes".
void WriteFallbacks(const std::vector<Fallback>& fallbacks, Json& json);

}  // namespace snug
