// The memory table as text, Markdown and JSON.
#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

#include "engine/base/text/json.h"
#include "tools/cli/bench/memory.h"

namespace snug::core::cli {
namespace {

std::string Mb(int64_t bytes) { return absl::StrFormat("%.2f", static_cast<double>(bytes) * 1e-6); }

std::string Percent(std::optional<double> share) {
  return share.has_value() ? absl::StrFormat("%.1f", 100 * *share) : "-";
}

std::string Batch(const MemoryTableRow& row) { return row.batch > 0 ? absl::StrCat(row.batch) : "-"; }

bool IsLean(const PlannedBytes& plan) {
  return absl::c_any_of(LeanColumns(), [&](const LeanColumn& column) { return plan.strategy == column.name; });
}

// The strategy whose bound, proof and time are shown: best, or the last one.
const PlannedBytes& Shown(const MemoryTableRow& row) {
  const PlannedBytes* shown = row.Find("best");
  for (size_t i = row.planned.size(); i-- > 0 && shown == nullptr;) {
    if (!IsLean(row.planned[i])) shown = &row.planned[i];
  }
  return *shown;
}

// The cells of a row, after network, mode and batch.
std::vector<std::string> Cells(const MemoryTableRow& row) {
  std::vector<std::string> cells;
  for (const PlannedBytes& plan : row.planned) cells.push_back(absl::StrCat(Mb(plan.bytes), plan.proven ? "*" : " "));
  const PlannedBytes& shown = Shown(row);
  cells.push_back(Mb(shown.lower_bound));
  cells.push_back(absl::StrFormat("%.3f", shown.seconds));
  cells.push_back(row.pytorch.has_value() ? Mb(row.pytorch->order) : "-");
  cells.push_back(row.pytorch.has_value() ? Mb(row.pytorch->reserved) : "-");
  cells.push_back(Percent(row.SavedAgainstPyTorch(shown.strategy)));
  for (const LeanColumn& column : LeanColumns()) {
    if (row.Find(column.name) != nullptr) cells.push_back(Percent(row.SavedAgainstPyTorch(column.name)));
  }
  return cells;
}

std::vector<std::string> Heads(const std::vector<MemoryTableRow>& rows) {
  std::vector<std::string> heads;
  for (const PlannedBytes& plan : rows.front().planned) heads.push_back(plan.strategy + " ");
  heads.insert(heads.end(), {"bound", "plan s", "its order", "PyTorch", "saved %"});
  for (const LeanColumn& column : LeanColumns()) {
    if (rows.front().Find(column.name) != nullptr) heads.push_back(absl::StrCat(column.name, " %"));
  }
  return heads;
}

std::string SummaryLine(const MemorySummary& s) {
  std::string line = absl::StrFormat("%s%s: best takes %.1f %% less than PyTorch reserves, mean over %d network%s",
                                     s.mode, s.batch > 0 ? absl::StrCat(", batch ", s.batch) : "", 100 * s.saved,
                                     s.networks, s.networks == 1 ? "" : "s");
  if (s.networks > 1) absl::StrAppendFormat(&line, "; least %.1f %%, %s", 100 * s.least_saved, s.least_saved_by);
  absl::StrAppendFormat(&line, "; %.1f %% of what it reserves lies idle at its order's peak", 100 * s.order);
  const std::optional<double> olla = s.mode == "training" ? PublishedByOlla(s.batch) : std::nullopt;
  if (olla.has_value()) absl::StrAppendFormat(&line, ". OLLA's paper, its eleven networks: %.1f %%", 100 * *olla);
  return line;
}

// Lines of what the columns of `lean` save, if there are any.
std::vector<std::string> LeanLines(const std::vector<MemoryTableRow>& rows, const MemorySummary& s) {
  std::vector<std::string> lines;
  for (const LeanColumn& column : LeanColumns()) {
    double saved = 0;
    int networks = 0;
    for (const MemoryTableRow& row : rows) {
      if (row.mode != s.mode || row.batch != s.batch || row.Find(column.name) == nullptr) continue;
      const std::optional<double> share = row.SavedAgainstPyTorch(column.name);
      if (!share.has_value()) continue;
      saved += *share;
      ++networks;
    }
    if (networks == 0) continue;
    lines.push_back(absl::StrFormat("%s, batch %d, %s: %.1f %% (%s)", s.mode, s.batch, column.name,
                                    100 * saved / networks, column.what));
  }
  return lines;
}

// Every network without PyTorch's figures, once, with the reason.
std::vector<std::string> Missing(const std::vector<MemoryTableRow>& rows) {
  std::vector<std::string> lines;
  for (const MemoryTableRow& row : rows) {
    if (row.pytorch_missing.empty()) continue;
    const std::string line = absl::StrCat(row.network, ": ", row.pytorch_missing);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string MemoryTableText(const std::vector<MemoryTableRow>& rows) {
  size_t name_width = 7;
  for (const MemoryTableRow& row : rows) name_width = std::max(name_width, row.network.size());
  const std::vector<std::string> heads = Heads(rows);
  std::vector<size_t> widths;
  for (const std::string& head : heads) widths.push_back(head.size());
  for (const MemoryTableRow& row : rows) {
    const std::vector<std::string> cells = Cells(row);
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = absl::StrCat(
      "MB = 10^6 bytes of a step, Variables included; * proven least (best: over all orders); bound, plan s, saved %: "
      "of ",
      Shown(rows.front()).strategy,
      ";\nits order, PyTorch: most that its tensors have at once, and what its caching allocator reserves "
      "(simulated)\n\n");
  const auto add_line = [&](const std::string& name, const std::string& mode, const std::string& batch,
                            const std::vector<std::string>& cells) {
    absl::StrAppendFormat(&text, "%-*s %-8s %5s", static_cast<int>(name_width), name, mode, batch);
    for (size_t i = 0; i < cells.size(); ++i) {
      absl::StrAppendFormat(&text, "  %*s", static_cast<int>(widths[i]), cells[i]);
    }
    text += '\n';
  };
  add_line("network", "mode", "batch", heads);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool again = i > 0 && rows[i].network == rows[i - 1].network;
    add_line(again ? "" : rows[i].network, rows[i].mode, Batch(rows[i]), Cells(rows[i]));
  }
  text += '\n';
  for (const MemorySummary& summary : Summarize(rows)) {
    absl::StrAppend(&text, SummaryLine(summary), "\n");
    for (const std::string& line : LeanLines(rows, summary)) absl::StrAppend(&text, line, "\n");
  }
  for (const std::string& line : Missing(rows)) absl::StrAppend(&text, "without PyTorch: ", line, "\n");
  return text;
}

std::string MemoryTableMarkdown(const std::vector<MemoryTableRow>& rows) {
  std::string text = "| network | mode | batch |";
  std::string rule = "|---|---|---|";
  for (const std::string& head : Heads(rows)) {
    absl::StrAppend(&text, " ", head, head.back() == ' ' ? "|" : " |");
    rule += "---|";
  }
  absl::StrAppend(&text, "\n", rule, "\n");
  for (const MemoryTableRow& row : rows) {
    absl::StrAppend(&text, "| ", row.network, " | ", row.mode, " | ", Batch(row), " |");
    for (const std::string& cell : Cells(row)) absl::StrAppend(&text, " ", cell, cell.back() == ' ' ? "|" : " |");
    text += '\n';
  }
  text += '\n';
  for (const MemorySummary& summary : Summarize(rows)) {
    absl::StrAppend(&text, "- ", SummaryLine(summary), "\n");
    for (const std::string& line : LeanLines(rows, summary)) absl::StrAppend(&text, "- ", line, "\n");
  }
  for (const std::string& line : Missing(rows)) absl::StrAppend(&text, "- Without PyTorch: ", line, "\n");
  return text;
}

std::string MemoryTableJson(const std::vector<MemoryTableRow>& rows) {
  Json json;
  json.Object().Key("rows").Array();
  for (const MemoryTableRow& row : rows) {
    json.Object().Key("network").String(row.network).Key("mode").String(row.mode).Key("batch");
    if (row.batch > 0) {
      json.Number(row.batch);
    } else {
      json.Null();
    }
    json.Key("strategies").Array();
    for (const PlannedBytes& plan : row.planned) {
      json.Object().Key("strategy").String(plan.strategy).Key("bytes").Number(plan.bytes);
      json.Key("lower_bound").Number(plan.lower_bound).Key("proven").Bool(plan.proven);
      json.Key("seconds").Number(plan.seconds).End();
    }
    json.End().Key("pytorch");
    if (row.pytorch.has_value()) {
      json.Object().Key("order").Number(row.pytorch->order).Key("reserved").Number(row.pytorch->reserved).End();
    } else {
      json.Null().Key("pytorch_missing").String(row.pytorch_missing);
    }
    json.End();
  }
  json.End().Key("summary").Array();
  for (const MemorySummary& s : Summarize(rows)) {
    json.Object().Key("mode").String(s.mode).Key("batch").Number(s.batch).Key("networks").Number(s.networks);
    json.Key("saved").Number(s.saved).Key("idle").Number(s.order).Key("least_saved").Number(s.least_saved);
    json.Key("least_saved_by").String(s.least_saved_by).End();
  }
  json.End().End();
  return json.text() + "\n";
}

}  // namespace snug::core::cli
