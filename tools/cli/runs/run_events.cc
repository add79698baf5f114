#include "tools/cli/runs/run_events.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <sys/stat.h>

#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"

namespace snug::core::cli {
namespace {

// Another number for another file of that name; 0: there is none.
int64_t VersionOf(const std::string& path) {
  struct stat found;
  if (lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return 0;
  return static_cast<int64_t>(found.st_mtim.tv_sec) * 1000 + found.st_mtim.tv_nsec / 1'000'000;
}

}  // namespace

const char* KindName(runs::RunFollower::Kind kind) {
  switch (kind) {
    case runs::RunFollower::Kind::kTraining:
      return "training";
    case runs::RunFollower::Kind::kEvaluation:
      return "evaluation";
    case runs::RunFollower::Kind::kLearningRate:
      return "rate";
    case runs::RunFollower::Kind::kSamplesPerSecond:
      return "speed";
    case runs::RunFollower::Kind::kWaited:
      break;
  }
  return "waited";
}

void WritePoints(const runs::ThinCurve& curve, size_t from, Json& json) {
  json.Array();
  for (size_t i = from; i < curve.points().size(); ++i) {
    const runs::ThinCurve::Point& point = curve.points()[i];
    json.Array().Number(point.step).Number(point.seconds).Number(point.mean);
    if (point.finite > 1) json.Number(point.low).Number(point.high);
    json.End();
  }
  json.End();
}

// Everything but the curves, the options, which may be many, and the time since the last line, which changes always.
std::string RunEvents::State() const {
  Json json;
  json.Object().Key("folder").String(Printable(follower_.folder().path()));
  json.Key("state").String(runs::Name(follower_.state())).Key("unreadable").Number(follower_.unreadable_lines());
  json.Key("problem").String(Printable(follower_.problem()));
  json.Key("record_problem").String(Printable(follower_.record_problem()));
  json.Key("confusion_problem").String(Printable(follower_.confusion_problem()));
  json.Key("step").Number(follower_.step()).Key("epoch").Number(follower_.epoch());
  json.Key("rate").Number(follower_.rate()).Key("seconds").Number(follower_.training_seconds());
  json.Key("speed").Number(follower_.samples_per_second()).Key("left").Number(follower_.seconds_left());
  if (const std::optional<double> waited = follower_.waited_share(); waited.has_value()) {
    json.Key("waited").Number(*waited);
  }
  json.Key("memory").Number(VersionOf(follower_.folder().memory_picture()));
  const runs::RunRecord record = follower_.record().value_or(runs::RunRecord{});
  json.Key("network").String(record.network).Key("error").String(record.error);
  json.Key("steps").Number(record.steps).Key("batch").Number(record.batch);
  json.Key("state_bytes").Number(record.state_bytes).Key("step_bytes").Number(record.step_bytes);
  json.Key("changes");
  WriteChanges(record.changes, json);
  json.Key("falls").Array();
  for (const runs::RunFollower::Curve& curve : follower_.curves()) {
    const bool measured =
        curve.kind == runs::RunFollower::Kind::kTraining || curve.kind == runs::RunFollower::Kind::kEvaluation;
    if (measured && record.BetterOf(curve.metric) == Better::kLess) json.String(curve.metric);
  }
  json.End().End();
  return json.text();
}

std::string RunEvents::Next() {
  const bool reset = !begun_ || follower_.beginnings() != beginnings_;
  if (reset) sent_.clear();
  const std::vector<runs::RunFollower::Curve>& curves = follower_.curves();
  sent_.resize(curves.size());
  Json json;
  json.Array();
  bool news = reset;
  for (size_t i = 0; i < curves.size(); ++i) {
    const runs::ThinCurve& curve = curves[i].points;
    Sent& sent = sent_[i];
    if (curve.added() == sent.values) continue;
    // The last point that was sent may have been taken together with later ones by now.
    const size_t from = curve.merges() != sent.merges || sent.points == 0 ? 0 : sent.points - 1;
    json.Object().Key("id").Number(static_cast<int64_t>(i)).Key("kind").String(KindName(curves[i].kind));
    json.Key("metric").String(curves[i].metric).Key("from").Number(static_cast<int64_t>(from)).Key("points");
    WritePoints(curve, from, json);
    json.End();
    sent = {.values = curve.added(), .merges = curve.merges(), .points = curve.points().size()};
    news = true;
  }
  json.End();
  std::string state = State();
  const std::vector<std::pair<std::string, std::string>> options =
      follower_.record().has_value() ? follower_.record()->options : std::vector<std::pair<std::string, std::string>>();
  const bool other_options = reset || options != options_;
  const bool other_confusion = reset || follower_.confusions() != confusions_;
  news = news || other_options || other_confusion || state != state_;
  begun_ = true;
  beginnings_ = follower_.beginnings();
  if (!news) return "";
  state_ = std::move(state);
  Json more;
  more.Object().Key("reset").Bool(reset).Key("silent").Number(follower_.seconds_since_change());
  if (other_options) {
    more.Key("options").Array();
    for (const auto& [name, value] : options) more.Array().String(name).String(value).End();
    more.End();
    options_ = options;
  }
  more.End();
  std::string confusion;
  if (other_confusion) {
    const std::optional<runs::ConfusionRecord>& there = follower_.confusion();
    confusion =
        absl::StrCat(", \"confusion\": ", there.has_value() ? absl::StripSuffix(there->ToJson(), "\n") : "null");
    confusions_ = follower_.confusions();
  }
  // One object of all of these, and the curves.
  return absl::StrCat("data: ", absl::StripSuffix(state_, "}"), ", ", absl::StripSuffix(more.text().substr(1), "}"),
                      confusion, ", \"curves\": ", json.text(), "}\n\n");
}

}  // namespace snug::core::cli
