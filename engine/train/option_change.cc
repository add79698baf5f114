#include "engine/train/option_change.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/train/checkpoint/json_reader.h"

namespace snug::core {
namespace {

constexpr size_t kMostChanges = 10000;            // many more than anybody types
constexpr int64_t kMostSteps = int64_t{1} << 53;  // as large as JavaScript counts

absl::Status ReadChange(checkpoint::JsonReader& json, OptionChange* change) {
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) return absl::OkStatus();
    if (key == "step") {
      SNUG_ASSIGN_OR_RETURN(change->step, json.Integer());
      if (change->step > kMostSteps) return json.Error("expected a number of steps up to 2^53");
    } else if (key == "name" || key == "before" || key == "after") {
      std::string* const to = key == "name" ? &change->name : key == "before" ? &change->before : &change->after;
      SNUG_ASSIGN_OR_RETURN(*to, json.String());
    } else {
      SNUG_RETURN_IF_ERROR(json.Skip());
    }
  }
}

}  // namespace

std::string OptionChange::ToString() const { return absl::StrCat(name, " ", before, " -> ", after); }

void WriteChanges(const std::vector<OptionChange>& changes, Json& json) {
  json.Array();
  for (const OptionChange& one : changes) {
    json.Object().Key("step").Number(one.step).Key("name").String(one.name);
    json.Key("before").String(one.before).Key("after").String(one.after).End();
  }
  json.End();
}

absl::StatusOr<std::vector<OptionChange>> ReadChanges(checkpoint::JsonReader& json) {
  std::vector<OptionChange> changes;
  SNUG_RETURN_IF_ERROR(json.BeginArray());
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
    if (!more) return changes;
    if (changes.size() == kMostChanges) return json.Error(absl::StrCat("expected at most ", kMostChanges, " changes"));
    SNUG_RETURN_IF_ERROR(ReadChange(json, &changes.emplace_back()));
  }
}

}  // namespace snug::core
