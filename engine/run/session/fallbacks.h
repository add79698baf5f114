// Keeps the nodes for which a library's kernel was planned but one of our own runs, which may be many times slower. A
// session reports each once.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

struct Fallback {
  std::string node, op;
  std::string library, why;  // "cuDNN", and what it said
  std::string instead;       // the name of the row that serves
};

class Fallbacks {
 public:
  // Gets a line for each reason. Null: the line goes to standard error.
  using Report = std::function<void(const std::string& line)>;
  // `strict`: one is an error.
  explicit Fallbacks(Report report, bool strict = false) : report_(std::move(report)), strict_(strict) {}

  // FailedPrecondition, of the first: they are to be none.
  absl::Status Add(const Compiled& compiled, absl::Span<const Executor::Refused> refused);
  const std::vector<Fallback>& all() const { return all_; }

 private:
  const Report report_;
  const bool strict_;
  std::vector<Fallback> all_;
};

// Writes two members into the open object: "fallbacks", a number, and "fallback_nodes".
void WriteFallbacks(const std::vector<Fallback>& fallbacks, Json& json);

// A member "kernels": how many Steps run by each, by the names of their rows.
void WriteKernels(const Compiled& compiled, Json& json);

}  // namespace snug::core
