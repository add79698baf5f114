// Keeps the nodes that a library's kernel was expected to serve and another kernel serves, which may be many times
// slower: the library has nothing for their types (known when the network is compiled, KernelChoice::passed_over), or
// refuses them on the device. A session reports each once.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/text/json.h"
#include "engine/compile/pipeline.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

struct Fallback {
  std::string node, op;
  std::string library, why;  // "cuDNN", and what it said
  // The name of the row that serves; kAnotherAlgorithm where the library does, but not by the algorithm that was chosen
  // when the session opened its device.
  std::string instead;

  friend auto operator<=>(const Fallback&, const Fallback&) = default;
};

inline constexpr absl::string_view kAnotherAlgorithm = "another algorithm";

class Fallbacks {
 public:
  // Gets a line for each reason. Null: the line goes to standard error.
  using Report = std::function<void(const std::string& line)>;
  // `strict`: one is an error.
  explicit Fallbacks(Report report, bool strict = false) : report_(std::move(report)), strict_(strict) {}

  // Both fail with FailedPrecondition, of the first, if there are to be none. What is known already, from another
  // program of the session, is neither counted nor said again.
  absl::Status AddPassedOver(const Compiled& compiled);
  absl::Status AddRefused(const Compiled& compiled, absl::Span<const Executor::Refused> refused);
  const std::vector<Fallback>& all() const { return all_; }

 private:
  absl::Status Add(const Node& node, absl::string_view library, const std::string& why, absl::string_view instead);
  void SayFrom(size_t first) const;

  Report report_;
  bool strict_;
  std::vector<Fallback> all_;
  std::set<Fallback> known_;
};

// Writes two members into the open object: "fallbacks", a number, and "fallback_nodes".
void WriteFallbacks(const std::vector<Fallback>& fallbacks, Json& json);

// A member "kernels": how many Steps run by each, by the names of their rows.
void WriteKernels(const Compiled& compiled, Json& json);

}  // namespace snug::core
