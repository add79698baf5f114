#include "memory/partial_problem.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

absl::Status CheckView(const PartialProblem& problem, const PartialBuffer& view) {
  const bool known = static_cast<size_t>(view.view_of) < problem.buffers.size();
  if (!known) return absl::InvalidArgumentError(absl::StrCat("there is no buffer ", view.view_of, ", which it views"));
  const PartialBuffer& base = problem.buffers[static_cast<size_t>(view.view_of)];
  if (base.view_of >= 0) return absl::InvalidArgumentError(absl::StrCat("\"", base.name, "\" is a view itself"));
  if (view.view_offset < 0 || view.view_offset + view.size_bytes > base.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("bytes ", view.view_offset, " to ",
                                                   view.view_offset + view.size_bytes, " do not lie in \"", base.name,
                                                   "\" of ", base.size_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckBuffer(const PartialProblem& problem, size_t i) {
  const PartialBuffer& b = problem.buffers[i];
  const auto wrong = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (b.size_bytes < 0) return wrong("expected a size >= 0, found ", b.size_bytes);
  if (b.alignment < 1) return wrong("expected an alignment >= 1, found ", b.alignment);
  if (b.heads.empty() || b.tails.empty()) return wrong("expected tasks that use it first and last");
  for (const std::vector<int32_t>* uses : {&b.heads, &b.tails}) {
    for (const int32_t task : *uses) {
      if (task < 0 || task >= problem.tasks) return wrong("there is no task ", task, ", which uses it");
    }
  }
  if (b.view_of >= 0) return CheckView(problem, b);
  if (b.companion < 0) return absl::OkStatus();
  const auto other = static_cast<size_t>(b.companion);
  if (other >= problem.buffers.size() || other == i || problem.buffers[other].companion != static_cast<int32_t>(i) ||
      problem.buffers[other].kind != b.kind || problem.buffers[other].view_of >= 0) {
    return wrong("expected its companion ", b.companion, " to be another buffer of its kind, with it as companion");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPartialProblem(const PartialProblem& problem) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    SNUG_RETURN_IF_ERROR(
        Annotate(CheckBuffer(problem, i), absl::StrCat("buffer ", i, " \"", problem.buffers[i].name, "\"")));
  }
  return absl::OkStatus();
}

PartialProblem WithoutViews(const PartialProblem& problem) {
  PartialProblem resolved = problem;
  for (PartialBuffer& view : resolved.buffers) {
    if (view.view_of < 0) continue;
    PartialBuffer& base = resolved.buffers[static_cast<size_t>(view.view_of)];
    base.heads.insert(base.heads.end(), view.heads.begin(), view.heads.end());
    base.tails.insert(base.tails.end(), view.tails.begin(), view.tails.end());
    view.size_bytes = 0;
    view.view_of = -1;
  }
  return resolved;
}

void PlaceViews(const PartialProblem& problem, Plan& plan) {
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const PartialBuffer& view = problem.buffers[i];
    if (view.view_of >= 0) plan.offsets[i] = plan.offsets[static_cast<size_t>(view.view_of)] + view.view_offset;
  }
}

absl::StatusOr<SerialForm> ToSerial(const PartialProblem& problem) {
  SNUG_RETURN_IF_ERROR(CheckPartialProblem(problem));
  SNUG_ASSIGN_OR_RETURN(const PartialOrder order, PartialOrder::Create(problem.tasks, problem.edges));
  if (order.chains() > 1) return absl::FailedPreconditionError("the tasks are not in one sequence");
  std::vector<int32_t> position(static_cast<size_t>(problem.tasks));
  for (size_t at = 0; at < position.size(); ++at) {
    position[static_cast<size_t>(order.sequence()[at])] = static_cast<int32_t>(at);
  }
  const auto at = [&](int32_t task) { return position[static_cast<size_t>(task)]; };
  const PartialProblem resolved = WithoutViews(problem);
  SerialForm serial;
  for (size_t i = 0; i < resolved.buffers.size(); ++i) {
    const PartialBuffer& b = resolved.buffers[i];
    if (b.kind != resolved.buffers[0].kind) {
      return absl::FailedPreconditionError("buffers of different kinds have no serial form");
    }
    // The serial problem has only one first use, so the earliest counts.
    Buffer buffer{.name = b.name, .size_bytes = b.size_bytes, .alignment = b.alignment};
    buffer.first =
        at(*std::min_element(b.heads.begin(), b.heads.end(), [&](int32_t x, int32_t y) { return at(x) < at(y); }));
    buffer.last =
        at(*std::max_element(b.tails.begin(), b.tails.end(), [&](int32_t x, int32_t y) { return at(x) < at(y); }));
    if (b.companion < 0 || static_cast<size_t>(b.companion) > i) {
      serial.buffer_of.push_back(static_cast<int32_t>(serial.problem.buffers.size()));
      serial.problem.buffers.push_back(std::move(buffer));
      continue;
    }
    serial.buffer_of.push_back(serial.buffer_of[static_cast<size_t>(b.companion)]);
    Buffer& shared = serial.problem.buffers[static_cast<size_t>(serial.buffer_of[i])];
    shared.size_bytes = std::max(shared.size_bytes, buffer.size_bytes);
    shared.alignment = std::lcm(shared.alignment, buffer.alignment);
    const Span between{std::min(shared.last, buffer.last) + 1, std::max(shared.first, buffer.first) - 1};
    if (between.first <= between.last) shared.gaps.push_back(between);
    shared.first = std::min(shared.first, buffer.first);
    shared.last = std::max(shared.last, buffer.last);
  }
  return serial;
}

Plan SerialForm::PlanOf(const PartialProblem& partial, const Plan& serial) const {
  Plan plan{.arena_bytes = serial.arena_bytes};
  for (const int32_t buffer : buffer_of) plan.offsets.push_back(serial.offsets[static_cast<size_t>(buffer)]);
  PlaceViews(partial, plan);
  return plan;
}

}  // namespace snug::core::memory
