#include "memory/order/olla/orders.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"

namespace snug::core::memory {
namespace {

// Larger graphs are skipped: who precedes whom would take more memory than the plan saves.
constexpr int32_t kMostTasks = 20'000;

}  // namespace

OllaOrders::OllaOrders(const Tasks& tasks, const TaskOrder& start, const OllaOptions& olla,
                       std::function<void(int32_t program, const std::string& how_far)> note)
    : note_(std::move(note)) {
  const bool exact = !olla.early_updates;
  if (exact) Add(tasks, start, false, olla);
  const bool too_large = exact && programs_[0].program != nullptr && !programs_[0].program->LeftOut().empty();
  if (!exact || too_large) Add(tasks, start, true, olla);
}

void OllaOrders::Note(size_t program, const std::string& how_far) const {
  const Program& p = programs_[program];
  const std::string left_out = p.program == nullptr ? "" : p.program->LeftOut();
  const bool none = !left_out.empty() && p.program->Empty();
  note_(static_cast<int32_t>(program),
        absl::StrCat(p.what, ": ", none ? "" : how_far, none || left_out.empty() ? "" : "; ",
                     left_out.empty() ? "" : "left out: ", left_out));
}

void OllaOrders::Add(const Tasks& tasks, const TaskOrder& start, bool early_updates, const OllaOptions& olla) {
  Program& added = programs_.emplace_back();
  added.what = early_updates ? "the program of the order, updates early" : "the program of the order";
  if (tasks.size() > kMostTasks) {
    Note(programs_.size() - 1, absl::StrCat("left out: ", tasks.size(), " tasks, more than ", kMostTasks));
    return;
  }
  added.program = std::make_unique<OllaOrderProgram>(tasks, start, early_updates, olla);
  absl::StrAppend(&added.what, " (", added.program->Size(), ")");
  Note(programs_.size() - 1, "not begun");
}

absl::Status OllaOrders::Run(int round, const OllaOrderProgram::Host& host, IlpBudget* budget) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    OllaOrderProgram* const program = programs_[i].program.get();
    if (program == nullptr || budget->left() == 0 || (round > 0 && program->Finished(host.bound()))) continue;
    Note(i, "stopped before its end");
    SNUG_ASSIGN_OR_RETURN(const int64_t spent, program->Run(budget->Slice(round), budget->left(), host));
    budget->Spend(spent);
    if (program->Finished(host.bound())) Note(i, "solved to its end");
  }
  return absl::OkStatus();
}

bool OllaOrders::Finished(int64_t bound) const {
  for (const Program& p : programs_) {
    if (p.program != nullptr && !p.program->Finished(bound)) return false;
  }
  return true;
}

}  // namespace snug::core::memory
