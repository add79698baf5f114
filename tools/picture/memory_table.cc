#include "tools/picture/memory_table.h"

#include <algorithm>

namespace snug::core::cli {

const PlannedBytes* MemoryTableRow::Find(const std::string& strategy) const {
  const auto it =
      std::find_if(planned.begin(), planned.end(), [&](const PlannedBytes& p) { return p.strategy == strategy; });
  return it == planned.end() ? nullptr : &*it;
}

std::optional<double> MemoryTableRow::SavedAgainstPyTorch(const std::string& strategy) const {
  const PlannedBytes* const plan = Find(strategy);
  if (plan == nullptr || !pytorch.has_value() || pytorch->reserved == 0) return std::nullopt;
  return 1 - static_cast<double>(plan->bytes) / static_cast<double>(pytorch->reserved);
}

std::vector<MemorySummary> Summarize(const std::vector<MemoryTableRow>& rows) {
  std::vector<MemorySummary> summaries;
  for (const MemoryTableRow& row : rows) {
    const std::optional<double> saved = row.SavedAgainstPyTorch("best");
    if (!saved.has_value()) continue;
    auto it = std::find_if(summaries.begin(), summaries.end(),
                           [&](const MemorySummary& s) { return s.mode == row.mode && s.batch == row.batch; });
    if (it == summaries.end()) it = summaries.insert(it, {.mode = row.mode, .batch = row.batch});
    if (it->networks == 0 || *saved < it->least_saved) {
      it->least_saved = *saved;
      it->least_saved_by = row.network;
    }
    ++it->networks;
    it->saved += *saved;
    it->order += 1 - static_cast<double>(row.pytorch->order) / static_cast<double>(row.pytorch->reserved);
  }
  for (MemorySummary& summary : summaries) {
    summary.saved /= static_cast<double>(summary.networks);
    summary.order /= static_cast<double>(summary.networks);
  }
  return summaries;
}

std::optional<double> PublishedByOlla(int64_t batch) {
  if (batch == 1) return 0.304;
  if (batch == 32) return 0.361;
  return std::nullopt;
}

}  // namespace snug::core::cli
