// Finds out by measuring how the steps of a network are fastest on this machine: threads per op, passes that are better
// left out, and for each node the kernel of those that its op offers.
//
// Kernels are timed where they work, in real steps: in the n-th round every node runs the n-th of its candidates, and
// is charged for the reorders and casts that the candidate wants. Threads, passes and the final choice are judged by
// whole steps, two programs in turn. Nothing is taken that was not measured to be faster than what it replaces, and
// nothing that does not compute the same to rounding: candidates are what a library would not run by itself.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session.h"

namespace snug {

struct TuneOptions {
  CompileOptions compile;  // what a step is without tuning
  SessionOptions session;
  std::vector<int> threads;  // per op, to be tried beside those of `compile`
  double seconds = 1;        // that each measurement goes on for, at least
  std::function<void(const std::string& line)> progress;
};

struct TuneReport {
  // A whole step with something changed, beside the best one so far.
  struct Trial {
    std::string what;
    double best_ms = 0, ms = 0;
    bool taken = false;
  };
  struct Candidate {
    std::string choice;   // empty: the op's own
    double ms = 0;        // of one node, in a step; < 0: not to be had
    std::string problem;  // why
  };
  struct Kernel {
    std::string key, node;  // the first of those it is for
    int nodes = 0;
    std::vector<Candidate> candidates;  // the op's own first
    size_t chosen = 0;
  };

  std::vector<Trial> trials;
  std::vector<Kernel> kernels;
  double before_ms = 0, after_ms = 0;  // of a step, in turn
  bool faster = false;                 // otherwise nothing is changed
  Tuning tuning;
};

absl::StatusOr<TuneReport> Tune(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                                const TuneOptions& options);

}  // namespace snug
