#include "tools/cli/judge/confusion_summary.h"

#include <string>

#include "engine/base/text/printable.h"
#include "engine/train/judgement/confusion.h"
#include "tools/cli/judge/class_names.h"

namespace snug::core::cli {

std::optional<runs::ConfusionRecord> SummaryOf(const Trainer& trainer, const Trainer::EvaluationReport& report) {
  runs::ConfusionRecord record{.step = report.step};
  if (!report.not_judged.empty()) {
    record.missing = Printable(report.not_judged);
    return record;
  }
  if (!report.judgement.has_value()) return std::nullopt;
  const Judgement& judgement = *report.judgement;
  const Confusion& confusion = judgement.confusion;
  record.scores = judgement.scores;
  record.labels = judgement.labels;
  record.rows = confusion.rows();
  record.ignored = judgement.ignored;
  record.unpredicted = confusion.unpredicted();
  record.classes = static_cast<int64_t>(confusion.classes().size());
  constexpr size_t kLongestName = 200;  // a table's labels may be whole texts
  const ClassNames names = NamesOfClasses(*trainer.evaluator(), *trainer.judge().class_scores());
  for (int64_t c = 0; c < record.classes; ++c) {
    const Confusion::Class& one = confusion.classes()[static_cast<size_t>(c)];
    record.right += one.right;
    if (!one.occurs()) continue;
    record.each.push_back({.number = c,
                           .name = Printable(names.Of(c), kLongestName),
                           .rows = one.samples,
                           .predicted = one.predicted,
                           .right = one.right});
  }
  record.occurring = static_cast<int64_t>(record.each.size());
  for (const Confusion::Cell& cell : confusion.Confused()) {
    const int64_t predicted = cell.predicted == Confusion::kNone ? runs::ConfusionRecord::kNone : cell.predicted;
    record.confusions.push_back({.label = cell.label, .predicted = predicted, .count = cell.count});
  }
  record.KeepMostConfused();
  return record;
}

}  // namespace snug::core::cli
