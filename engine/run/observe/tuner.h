// Measures how the steps of a network are fastest on this machine: threads per op, passes that are better left out, and
// for each node which of the kernels that its op offers.
//
// Kernels are timed where they work, in real steps: in the n-th round every node runs its n-th candidate, and is
// charged for the reorders and casts that the candidate needs. Threads, passes and the final choice are judged by whole
// steps, with two programs in turn. Nothing is taken unless it was measured to be faster than what it replaces and
// computes the same up to rounding: candidates are kernels that a library would not choose by itself.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"

namespace snug::core {

struct TuneOptions {
  CompileOptions compile;  // how a step runs without tuning
  SessionOptions session;
  std::vector<int> threads;  // per op; tried in addition to those of `compile`
  double seconds = 1;        // each measurement goes on for at least so long
  std::function<void(const std::string& line)> progress;
};

struct TuneReport {
  // A whole step with something changed, against the best one so far.
  struct Trial {
    std::string what;
    double best_ms = 0, ms = 0;
    bool taken = false;
  };
  struct Candidate {
    std::string choice;   // empty: the op's own
    double ms = 0;        // of one node, in a step; < 0: it could not be had
    std::string problem;  // why it could not
  };
  struct Kernel {
    std::string key, node;  // of the first node that it is for
    int nodes = 0;
    std::vector<Candidate> candidates;  // the op's own comes first
    size_t chosen = 0;
  };

  std::vector<Trial> trials;
  std::vector<Kernel> kernels;
  double before_ms = 0, after_ms = 0;  // of a step, when both ran in turn
  bool faster = false;                 // if false, nothing is changed
  Tuning tuning;
};

absl::StatusOr<TuneReport> Tune(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const TuneOptions& options);

}  // namespace snug::core
