#include <absl/strings/str_cat.h>

#include <string>
#include <vector>

#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

// Finds which tasks can be reached from each, by a depth-first search from every one of them.
class Reachable {
 public:
  explicit Reachable(const PartialProblem& problem) : next_(static_cast<size_t>(problem.tasks)) {
    for (const auto& [a, b] : problem.edges) next_[static_cast<size_t>(a)].push_back(static_cast<size_t>(b));
    reached_.assign(next_.size(), std::vector<bool>(next_.size(), false));
    for (size_t from = 0; from < next_.size(); ++from) {
      std::vector<size_t> open = {from};
      while (!open.empty()) {
        const size_t task = open.back();
        open.pop_back();
        for (const size_t n : next_[task]) {
          if (reached_[from][n]) continue;
          reached_[from][n] = true;
          open.push_back(n);
        }
      }
    }
  }

  bool Cyclic() const {
    for (size_t task = 0; task < next_.size(); ++task) {
      if (reached_[task][task]) return true;
    }
    return false;
  }

  // Tells whether every use of one buffer is over before any use of the other begins.
  bool Apart(const PartialBuffer& a, const PartialBuffer& b) const { return AllReach(a, b) || AllReach(b, a); }

 private:
  bool AllReach(const PartialBuffer& a, const PartialBuffer& b) const {
    for (const int32_t tail : a.tails) {
      for (const int32_t head : b.heads) {
        if (!reached_[static_cast<size_t>(tail)][static_cast<size_t>(head)]) return false;
      }
    }
    return true;
  }

  std::vector<std::vector<size_t>> next_;
  std::vector<std::vector<bool>> reached_;
};

std::string Describe(const PartialProblem& problem, const Plan& plan, size_t i) {
  return absl::StrCat("\"", problem.buffers[i].name, "\" (", problem.buffers[i].size_bytes, " bytes at ",
                      plan.offsets[i], ")");
}

absl::Status CheckPlace(const PartialProblem& problem, const Plan& plan, size_t i) {
  const PartialBuffer& b = problem.buffers[i];
  const auto wrong = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", Describe(problem, plan, i), ": ", what));
  };
  if (plan.offsets[i] < 0 || plan.offsets[i] > plan.arena_bytes - b.size_bytes) {
    return wrong(absl::StrCat("does not lie inside the arena of ", plan.arena_bytes, " bytes"));
  }
  if (b.view_of >= 0) {
    const int64_t base = plan.offsets[static_cast<size_t>(b.view_of)];
    return plan.offsets[i] == base + b.view_offset ? absl::OkStatus()
                                                   : wrong("is not where the buffer that it views is");
  }
  if (plan.offsets[i] % b.alignment != 0) return wrong(absl::StrCat("expected a multiple of ", b.alignment));
  if (b.companion >= 0 && plan.offsets[i] != plan.offsets[static_cast<size_t>(b.companion)]) {
    return wrong("does not lie where its companion does");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPartial(const PartialProblem& problem, const Plan& plan) {
  const size_t n = problem.buffers.size();
  if (plan.offsets.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", plan.offsets.size(), " offsets, expected ", n, ", one for each buffer"));
  }
  if (absl::Status status = CheckPartialProblem(problem); !status.ok()) return status;
  const Reachable reachable(problem);
  if (reachable.Cyclic()) return absl::InvalidArgumentError("the tasks wait for each other in a cycle");
  for (size_t i = 0; i < n; ++i) {
    if (absl::Status status = CheckPlace(problem, plan, i); !status.ok()) return status;
    const PartialBuffer& a = problem.buffers[i];
    for (size_t j = 0; j < i; ++j) {
      const PartialBuffer& b = problem.buffers[j];
      const bool overlap = a.size_bytes > 0 && b.size_bytes > 0 && plan.offsets[i] < plan.offsets[j] + b.size_bytes &&
                           plan.offsets[j] < plan.offsets[i] + a.size_bytes;
      if (!overlap) continue;
      // A view shares its base's bytes, and two views of one base may cover the same bytes.
      const int32_t base_a = a.view_of >= 0 ? a.view_of : static_cast<int32_t>(i);
      const int32_t base_b = b.view_of >= 0 ? b.view_of : static_cast<int32_t>(j);
      if (base_a == base_b || (a.kind == b.kind && reachable.Apart(a, b))) continue;
      return absl::InvalidArgumentError(absl::StrCat("buffers ", Describe(problem, plan, i), " and ",
                                                     Describe(problem, plan, j),
                                                     " overlap, and a schedule may use them at once"));
    }
  }
  return absl::OkStatus();
}

}  // namespace snug::core::memory
