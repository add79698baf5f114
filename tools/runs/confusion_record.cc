#include "tools/runs/confusion_record.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/base/text/utf8.h"
#include "engine/train/checkpoint/json_reader.h"
#include "tools/runs/small_file.h"

namespace snug::core::runs {
namespace {

using checkpoint::JsonReader;

// A hundred classes with names of 200 letters, and every pair of them, take a tenth of this.
constexpr int64_t kMostConfusionBytes = 4 << 20;
constexpr size_t kMostCells = ConfusionRecord::kMostClasses * ConfusionRecord::kMostClasses;
constexpr int64_t kLargestCount = int64_t{1} << 53;  // as large as JavaScript counts

absl::Status ReadCount(JsonReader& json, int64_t* to) {
  SNUG_ASSIGN_OR_RETURN(*to, json.Integer());
  return *to <= kLargestCount ? absl::OkStatus()
                              : json.Error(absl::StrCat("expected a number up to 2^53, found ", *to));
}

absl::Status ReadClass(JsonReader& json, ConfusionRecord::Class* to) {
  const std::pair<absl::string_view, int64_t*> counts[] = {
      {"class", &to->number}, {"rows", &to->rows}, {"predicted", &to->predicted}, {"right", &to->right}};
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) return absl::OkStatus();
    bool known = key == "name";
    if (known) {
      SNUG_ASSIGN_OR_RETURN(to->name, json.String());
    }
    for (const auto& [name, count] : counts) {
      if (name != key) continue;
      SNUG_RETURN_IF_ERROR(ReadCount(json, count));
      known = true;
    }
    if (!known) SNUG_RETURN_IF_ERROR(json.Skip());
  }
}

absl::Status ReadEach(JsonReader& json, std::vector<ConfusionRecord::Class>* each) {
  SNUG_RETURN_IF_ERROR(json.BeginArray());
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
    if (!more) return absl::OkStatus();
    if (each->size() == ConfusionRecord::kMostClasses) {
      return json.Error(absl::StrCat("expected at most ", ConfusionRecord::kMostClasses, " classes"));
    }
    SNUG_RETURN_IF_ERROR(ReadClass(json, &each->emplace_back()));
  }
}

// [label, predicted or null, count]
absl::Status ReadCell(JsonReader& json, ConfusionRecord::Cell* cell) {
  SNUG_RETURN_IF_ERROR(json.BeginArray());
  int64_t* const numbers[] = {&cell->label, &cell->predicted, &cell->count};
  for (int64_t* const number : numbers) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
    if (!more) return json.Error("expected a label, a prediction and a count");
    if (number == &cell->predicted && json.Peek() == 'n') {
      SNUG_RETURN_IF_ERROR(json.Skip());
      cell->predicted = ConfusionRecord::kNone;
      continue;
    }
    SNUG_RETURN_IF_ERROR(ReadCount(json, number));
  }
  SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
  return more ? json.Error("expected a label, a prediction and a count, found more") : absl::OkStatus();
}

absl::Status ReadConfusions(JsonReader& json, std::vector<ConfusionRecord::Cell>* cells) {
  SNUG_RETURN_IF_ERROR(json.BeginArray());
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextElement());
    if (!more) return absl::OkStatus();
    if (cells->size() == kMostCells) return json.Error(absl::StrCat("expected at most ", kMostCells, " confusions"));
    SNUG_RETURN_IF_ERROR(ReadCell(json, &cells->emplace_back()));
  }
}

// Whether the parts go together, so that whoever draws it need not ask.
absl::Status CheckConfusion(const ConfusionRecord& record) {
  std::map<int64_t, int64_t> rows, predicted;
  int64_t last = -1;
  for (const ConfusionRecord::Class& one : record.each) {
    if (one.number <= last || one.number >= record.classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("each: expected ascending classes below ", record.classes, ", found ", one.number));
    }
    if (one.right > std::min(one.rows, one.predicted)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "each: class ", one.number, ": expected no more rows that are right than rows, found ", one.right));
    }
    last = one.number;
    rows[one.number] = one.rows;
    predicted[one.number] = one.predicted;
  }
  for (const ConfusionRecord::Cell& cell : record.confusions) {
    const bool known =
        rows.contains(cell.label) && (cell.predicted == ConfusionRecord::kNone || rows.contains(cell.predicted));
    if (!known || cell.label == cell.predicted || cell.count == 0 || cell.count > rows[cell.label]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "confusions: expected a class of `each`, another and how many of its rows were taken for that, found [",
          cell.label, ", ", cell.predicted, ", ", cell.count, "]"));
    }
    if (cell.predicted != ConfusionRecord::kNone && cell.count > predicted[cell.predicted]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "confusions: expected no more rows than the ", predicted[cell.predicted], " that were taken for class ",
          cell.predicted, ", found [", cell.label, ", ", cell.predicted, ", ", cell.count, "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void ConfusionRecord::KeepMostConfused() {
  if (each.size() <= kMostClasses) return;
  std::stable_sort(each.begin(), each.end(), [](const Class& a, const Class& b) { return a.wrong() > b.wrong(); });
  each.resize(kMostClasses);
  std::sort(each.begin(), each.end(), [](const Class& a, const Class& b) { return a.number < b.number; });
  const auto kept = [this](int64_t number) {
    const auto at = std::lower_bound(each.begin(), each.end(), number,
                                     [](const Class& one, int64_t sought) { return one.number < sought; });
    return at != each.end() && at->number == number;
  };
  std::erase_if(confusions, [&](const Cell& cell) {
    return !kept(cell.label) || (cell.predicted != kNone && !kept(cell.predicted));
  });
}

std::string ConfusionRecord::ToJson() const {
  Json json;
  json.Object().Key("step").Number(step);
  if (!missing.empty()) {
    json.Key("missing").String(missing).End();
    return json.text() + "\n";
  }
  json.Key("scores").String(scores).Key("labels").String(labels).Key("rows").Number(rows).Key("right").Number(right);
  json.Key("ignored").Number(ignored).Key("unpredicted").Number(unpredicted);
  json.Key("classes").Number(classes).Key("occurring").Number(occurring).Key("each").Array();
  for (const Class& one : each) {
    json.Object().Key("class").Number(one.number).Key("name").String(one.name).Key("rows").Number(one.rows);
    json.Key("predicted").Number(one.predicted).Key("right").Number(one.right).End();
  }
  json.End().Key("confusions").Array();
  for (const Cell& cell : confusions) {
    json.Array().Number(cell.label);
    if (cell.predicted == kNone) {
      json.Null();
    } else {
      json.Number(cell.predicted);
    }
    json.Number(cell.count).End();
  }
  json.End().End();
  return json.text() + "\n";
}

absl::StatusOr<ConfusionRecord> ConfusionRecord::Parse(absl::string_view text) {
  if (!IsUtf8(text)) return absl::InvalidArgumentError("expected UTF-8, found bytes that are none");
  ConfusionRecord record;
  const std::pair<absl::string_view, std::string*> texts[] = {
      {"missing", &record.missing}, {"scores", &record.scores}, {"labels", &record.labels}};
  const std::pair<absl::string_view, int64_t*> counts[] = {{"step", &record.step},
                                                           {"rows", &record.rows},
                                                           {"right", &record.right},
                                                           {"ignored", &record.ignored},
                                                           {"unpredicted", &record.unpredicted},
                                                           {"classes", &record.classes},
                                                           {"occurring", &record.occurring}};
  JsonReader json(text);
  SNUG_RETURN_IF_ERROR(json.BeginObject());
  std::string key;
  for (;;) {
    SNUG_ASSIGN_OR_RETURN(const bool more, json.NextKey(&key));
    if (!more) break;
    bool known = key == "each" || key == "confusions";
    if (key == "each") SNUG_RETURN_IF_ERROR(ReadEach(json, &record.each));
    if (key == "confusions") SNUG_RETURN_IF_ERROR(ReadConfusions(json, &record.confusions));
    for (const auto& [name, to] : texts) {
      if (name != key) continue;
      SNUG_ASSIGN_OR_RETURN(*to, json.String());
      known = true;
    }
    for (const auto& [name, to] : counts) {
      if (name != key) continue;
      SNUG_RETURN_IF_ERROR(ReadCount(json, to));
      known = true;
    }
    if (!known) SNUG_RETURN_IF_ERROR(json.Skip());
  }
  SNUG_RETURN_IF_ERROR(json.End());
  SNUG_RETURN_IF_ERROR(CheckConfusion(record));
  return record;
}

absl::Status ConfusionRecord::WriteTo(const RunFolder& folder) const {
  OutputFile::RemoveLeftovers(folder.confusion());
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(folder.confusion()));
  file->Write(ToJson());
  return file->Finish();
}

absl::StatusOr<ConfusionRecord> ConfusionRecord::ReadFrom(const RunFolder& folder) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(folder.confusion(), kMostConfusionBytes));
  absl::StatusOr<ConfusionRecord> record = Parse(text);
  if (!record.ok()) return Annotate(record.status(), folder.confusion());
  return record;
}

}  // namespace snug::core::runs
