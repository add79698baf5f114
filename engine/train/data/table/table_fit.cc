#include "engine/train/data/table/table_fit.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/train/checkpoint/json_reader.h"

namespace snug::core {
namespace {

absl::Status NoMean(const Table& table, const TableColumn& column) {
  return absl::InvalidArgumentError(
      absl::StrCat(table.path, ": column ", Shown(column.name),
                   ": missing: there is no mean, since the field is empty in every training row"));
}

// Learns from the column that is the `place`-th of numbers.
absl::Status LearnNumbers(const Table& table, absl::Span<const int64_t> rows, size_t place, bool normalise,
                          TableFit::Column* fit) {
  const auto value = [&](int64_t row) {
    return table.numbers[static_cast<size_t>(row) * table.numbers_of_row + place];
  };
  double sum = 0;
  int64_t present = 0;
  for (const int64_t row : rows) {
    if (std::isnan(value(row))) continue;
    sum += value(row);
    ++present;
  }
  const MissingRule& missing = fit->column.missing;
  fit->fill = missing.number;
  if (missing.kind == MissingRule::Kind::kMean) {
    if (present == 0) return NoMean(table, fit->column);
    fit->fill = sum / static_cast<double>(present);
  }
  if (!normalise) return absl::OkStatus();
  // Of the numbers as they are fed: with what stands in for empty fields.
  const auto n = static_cast<double>(rows.size());
  fit->mean = (sum + fit->fill * (n - static_cast<double>(present))) / n;
  double squares = 0;
  for (const int64_t row : rows) {
    const double off = (std::isnan(value(row)) ? fit->fill : value(row)) - fit->mean;
    squares += off * off;
  }
  fit->deviation = std::sqrt(squares / n);
  // A column that has one value is not divided. The sum above may have been rounded, so that it seems to vary a little.
  fit->constant = fit->deviation <= 1e-12 * std::abs(fit->mean);
  if (fit->constant) fit->deviation = 1;
  return absl::OkStatus();
}

// Learns from the column that is the `place`-th of categories.
absl::Status LearnCategory(const Table& table, absl::Span<const int64_t> rows, size_t place, TableFit::Column* fit) {
  const std::vector<std::string>& known = table.values[place];
  std::vector<int64_t> counts(known.size(), 0);
  int64_t present = 0;
  for (const int64_t row : rows) {
    const int32_t code = table.codes[static_cast<size_t>(row) * table.categories_of_row + place];
    if (code < 0) continue;
    ++counts[static_cast<size_t>(code)];
    ++present;
  }
  std::map<std::string, int64_t> sorted;
  for (size_t i = 0; i < known.size(); ++i) {
    if (counts[i] > 0) sorted[known[i]] = counts[i];
  }
  if (sorted.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(table.path, ": column ", Shown(fit->column.name),
                                                   ": category: no training row has a value in it"));
  }
  const MissingRule& missing = fit->column.missing;
  for (const auto& [value, count] : sorted) {
    fit->values.push_back(value);
    if (missing.kind == MissingRule::Kind::kNumber) fit->fills.push_back(missing.number);
    if (missing.kind == MissingRule::Kind::kMean) {
      fit->fills.push_back(static_cast<double>(count) / static_cast<double>(present));
    }
  }
  return absl::OkStatus();
}

void WriteTexts(absl::string_view key, const std::vector<std::string>& texts, Json* json) {
  json->Key(key).Array();
  for (const std::string& text : texts) json->String(text);
  json->End();
}

// Reads what ToJson has written.
class FitReader {
 public:
  explicit FitReader(absl::string_view text) : json_(text) {}

  absl::StatusOr<TableFit> Read() {
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      SNUG_RETURN_IF_ERROR(ReadMember(key));
    }
    SNUG_RETURN_IF_ERROR(json_.End());
    if (fit_.columns.empty()) return json_.Error("expected columns, found none");
    return std::move(fit_);
  }

 private:
  absl::Status ReadMember(const std::string& key) {
    if (key == "header") return ReadFlag(&fit_.header);
    if (key == "normalised") return ReadFlag(&fit_.normalised);
    if (key == "label") return ReadText(&fit_.label);
    if (key == "classes") return ReadSorted(&fit_.classes);
    if (key != "columns") return json_.Skip();  // of a later version
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return absl::OkStatus();
      SNUG_RETURN_IF_ERROR(ReadColumn());
    }
  }

  absl::Status ReadColumn() {
    TableFit::Column& fit = fit_.columns.emplace_back();
    SNUG_RETURN_IF_ERROR(json_.BeginObject());
    std::string key;
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextKey(&key));
      if (!more) break;
      SNUG_RETURN_IF_ERROR(ReadMemberOfColumn(key, &fit));
    }
    const bool refuses = fit.column.missing.kind == MissingRule::Kind::kRefuse;
    if (fit.column.category && (fit.values.empty() || fit.fills.size() != (refuses ? 0 : fit.values.size()))) {
      return json_.Error("expected a category's values, and a number in place of an empty field for each");
    }
    return fit.deviation > 0 ? absl::OkStatus() : json_.Error("expected a deviation above 0");
  }

  absl::Status ReadMemberOfColumn(const std::string& key, TableFit::Column* fit) {
    if (key == "name") return ReadText(&fit->column.name);
    if (key == "category") return ReadFlag(&fit->column.category);
    if (key == "fill") return ReadNumber(&fit->fill);
    if (key == "mean") return ReadNumber(&fit->mean);
    if (key == "deviation") return ReadNumber(&fit->deviation);
    if (key == "values") return ReadSorted(&fit->values);
    if (key == "missing") {
      std::string rule;
      SNUG_RETURN_IF_ERROR(ReadText(&rule));
      if (MissingRule::Parse(rule, &fit->column.missing)) return absl::OkStatus();
      return json_.Error("expected mean, refuse or a number");
    }
    if (key != "fills") return json_.Skip();
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return absl::OkStatus();
      SNUG_RETURN_IF_ERROR(ReadNumber(&fit->fills.emplace_back()));
    }
  }

  absl::Status ReadFlag(bool* flag) {
    const char next = json_.Peek();
    if (next != 't' && next != 'f') return json_.Expected("true or false");
    *flag = next == 't';
    return json_.Skip();
  }

  absl::Status ReadText(std::string* text) {
    SNUG_ASSIGN_OR_RETURN(*text, json_.String());
    return absl::OkStatus();
  }

  absl::Status ReadNumber(double* number) {
    SNUG_ASSIGN_OR_RETURN(*number, json_.Number());
    return std::isfinite(static_cast<float>(*number)) ? absl::OkStatus() : json_.Error("expected a float32 number");
  }

  absl::Status ReadSorted(std::vector<std::string>* texts) {
    SNUG_RETURN_IF_ERROR(json_.BeginArray());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const bool more, json_.NextElement());
      if (!more) return absl::OkStatus();
      SNUG_ASSIGN_OR_RETURN(std::string text, json_.String());
      if (!texts->empty() && texts->back() >= text) return json_.Error("expected texts that are sorted");
      texts->push_back(std::move(text));
    }
  }

  checkpoint::JsonReader json_;
  TableFit fit_;
};

}  // namespace

int64_t TableFit::CountFeatures() const {
  int64_t count = 0;
  for (const Column& one : columns) count += one.column.category ? static_cast<int64_t>(one.values.size()) : 1;
  return count;
}

std::vector<std::string> TableFit::FeatureNames() const {
  std::vector<std::string> names;
  for (const Column& one : columns) {
    if (!one.column.category) names.push_back(one.column.name);
    for (const std::string& value : one.values) names.push_back(absl::StrCat(one.column.name, "=", value));
  }
  return names;
}

std::string TableFit::ToJson() const {
  Json json;
  json.Object().Key("header").Bool(header).Key("normalised").Bool(normalised).Key("label").String(label);
  WriteTexts("classes", classes, &json);
  json.Key("columns").Array();
  for (const Column& one : columns) {
    json.Object().Key("name").String(one.column.name).Key("missing").String(one.column.missing.ToString());
    if (one.column.category) {
      json.Key("category").Bool(true);
      WriteTexts("values", one.values, &json);
      json.Key("fills").Array();
      for (const double fill : one.fills) json.Number(fill);
      json.End();
    } else {
      json.Key("fill").Number(one.fill).Key("mean").Number(one.mean).Key("deviation").Number(one.deviation);
    }
    json.End();
  }
  json.End().End();
  return json.text();
}

absl::StatusOr<TableFit> TableFit::FromJson(absl::string_view text) { return FitReader(text).Read(); }

absl::StatusOr<TableFit> LearnTable(const Table& table, absl::Span<const int64_t> rows, bool normalise) {
  TableFit fit{.header = table.header, .normalised = normalise, .label = table.label, .classes = table.classes};
  std::sort(fit.classes.begin(), fit.classes.end());
  size_t numbers = 0, categories = 0;
  for (const TableColumn& column : table.columns) {
    TableFit::Column one{.column = column};
    SNUG_RETURN_IF_ERROR(column.category ? LearnCategory(table, rows, categories++, &one)
                                         : LearnNumbers(table, rows, numbers++, normalise, &one));
    fit.columns.push_back(std::move(one));
  }
  return fit;
}

}  // namespace snug::core
