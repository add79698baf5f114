#include <absl/strings/str_replace.h>

#include "engine/base/text/json.h"
#include "tools/picture/memory_table.h"

namespace snug::core::cli {
namespace {

constexpr char kMemoryPage[] =
#include "tools/picture/memory_page.inc"
    ;

void WriteRow(const MemoryTableRow& row, Json& json) {
  json.Object().Key("network").String(row.network).Key("batch").Number(row.batch).Key("mode").String(row.mode);
  json.Key("planned").Array();
  for (const PlannedBytes& plan : row.planned) {
    json.Array().String(plan.strategy).Number(plan.bytes).Number(plan.lower_bound).Bool(plan.proven);
    json.Number(plan.seconds).End();
  }
  json.End().Key("pytorch");
  if (row.pytorch.has_value()) {
    json.Array().Number(row.pytorch->order).Number(row.pytorch->reserved).End();
  } else {
    json.Null();
  }
  json.Key("missing").String(row.pytorch_missing).End();
}

}  // namespace

std::string MemoryTablePage(const MemoryTable& table) {
  Json json;
  json.Object().Key("about").String(table.about).Key("summary").Array();
  for (const MemorySummary& s : Summarize(table.rows)) {
    json.Object().Key("mode").String(s.mode).Key("batch").Number(s.batch).Key("networks").Number(s.networks);
    json.Key("saved").Number(s.saved).Key("least").Number(s.least_saved).Key("by").String(s.least_saved_by);
    const std::optional<double> published = s.mode == "training" ? PublishedByOlla(s.batch) : std::nullopt;
    json.Key("olla");
    if (published.has_value()) {
      json.Number(*published).End();
    } else {
      json.Null().End();
    }
  }
  json.End().Key("rows").Array();
  for (const MemoryTableRow& row : table.rows) WriteRow(row, json);
  json.End().End();
  // The data are inside a <script>, which a "</script>" in a name must not end.
  return absl::StrReplaceAll(kMemoryPage, {{"@DATA@", absl::StrReplaceAll(json.text(), {{"<", "\\u003c"}})}});
}

}  // namespace snug::core::cli
