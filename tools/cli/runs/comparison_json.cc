#include <set>
#include <string>

#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "tools/cli/runs/comparison.h"
#include "tools/cli/runs/run_events.h"
#include "tools/picture/run_pages.h"

namespace snug::core::cli {
namespace {

using runs::RunFollower;

void WriteExtreme(const std::optional<runs::ThinCurve::Extreme>& extreme, const char* key, Json& json) {
  if (!extreme.has_value()) return;
  json.Key(key).Number(extreme->value).Key(key == std::string("least") ? "least_at" : "most_at").Number(extreme->step);
}

// {"training": {"loss": {"last": .., "least": .., "least_at": .., "better": "least"}, ...}, "evaluation": ...}
void WriteResults(const RunFollower& run, Json& json) {
  const runs::RunRecord record = run.record().value_or(runs::RunRecord());
  for (const RunFollower::Kind kind : {RunFollower::Kind::kTraining, RunFollower::Kind::kEvaluation}) {
    json.Key(KindName(kind)).Object();
    for (const RunFollower::Curve& curve : run.curves()) {
      if (curve.kind != kind) continue;
      const std::optional<double> end = EndOf(curve.points);
      json.Key(curve.metric).Object().Key("last").Number(*curve.points.last());
      if (kind == RunFollower::Kind::kTraining && end.has_value()) json.Key("mean_at_end").Number(*end);
      WriteExtreme(curve.points.least(), "least", json);
      WriteExtreme(curve.points.most(), "most", json);
      json.Key("better").String(Name(record.BetterOf(curve.metric)));
      json.End();
    }
    json.End();
  }
}

void WriteOptions(const Comparison& comparison, const char* key, Json& json) {
  json.Key(key).Array();
  for (const Comparison::Option& option : comparison.options()) {
    json.Object().Key("name").String(option.name).Key("values").Array();
    for (const auto& value : option.values) value.has_value() ? json.String(*value) : json.Null();
    json.End().End();
  }
  json.End();
}

const char* PanelOf(const RunFollower::Curve& curve) {
  switch (curve.kind) {
    case RunFollower::Kind::kLearningRate:
      return "learning rate";
    case RunFollower::Kind::kSamplesPerSecond:
      return "samples a second";
    case RunFollower::Kind::kWaited:
      return "waited for data, %";
    default:
      return curve.metric.c_str();
  }
}

}  // namespace

std::string Comparison::ToJson(const std::string& page) const {
  Json json;
  json.Object().Key("runs").Array();
  for (const ComparedRun& one : runs_) {
    const RunFollower& run = *one.run;
    json.Object().Key("name").String(one.name).Key("folder").String(Printable(run.folder().path()));
    json.Key("state").String(runs::Name(run.state())).Key("step").Number(run.step());
    json.Key("seconds").Number(run.training_seconds()).Key("unreadable_lines").Number(run.unreadable_lines());
    if (const auto& record = run.record(); record.has_value()) {
      json.Key("network").String(record->network).Key("steps").Number(record->steps);
      json.Key("batch").Number(record->batch);
      json.Key("state_bytes").Number(record->state_bytes).Key("step_bytes").Number(record->step_bytes);
    }
    json.Key("changes");
    WriteChanges(ChangesOf(run), json);
    WriteResults(run, json);
    json.End();
  }
  json.End();
  WriteOptions(*this, "options_that_differ", json);
  json.Key("page").String(page).End();
  return json.text();
}

std::string Comparison::ToPage() const {
  Json json;
  json.Object().Key("columns").Array();
  for (const Column& column : columns_) {
    json.Object().Key("title").String(column.title).Key("number").Bool(column.number).End();
  }
  json.End().Key("runs").Array();
  for (size_t i = 0; i < runs_.size(); ++i) {
    const RunFollower& run = *runs_[i].run;
    const int64_t batch = run.record().has_value() ? run.record()->batch : 1;
    json.Object().Key("name").String(runs_[i].name).Key("folder").String(Printable(run.folder().path()));
    json.Key("changes");
    WriteChanges(ChangesOf(run), json);
    json.Key("batch").Number(batch).Key("cells").Array();
    for (const Cell& cell : rows_[i]) json.Object().Key("text").String(cell.text).Key("best").Bool(cell.best).End();
    json.End().Key("curves").Array();
    for (const RunFollower::Curve& curve : run.curves()) {
      json.Object().Key("panel").String(PanelOf(curve)).Key("kind").String(KindName(curve.kind)).Key("points");
      WritePoints(curve.points, 0, json);
      json.End();
    }
    json.End().End();
  }
  json.End();
  WriteOptions(*this, "options", json);
  json.Key("best").String(Printable(WhatIsBest(/*for_page=*/true))).Key("falls").Array();
  std::set<std::string> falls;
  for (const Column& column : columns_) {
    if (!column.metric.empty() && column.better == Better::kLess) falls.insert(column.metric);
  }
  for (const std::string& metric : falls) json.String(metric);
  json.End().End();
  return ComparePage(json.text());
}

}  // namespace snug::core::cli
