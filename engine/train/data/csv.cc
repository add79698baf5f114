#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "engine/train/data/csv_records.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

struct Table {
  std::vector<std::string> columns;  // the names, from the header or "0", "1", ...
  size_t label = 0;                  // the label's column
  std::vector<float> features;       // rows x (columns - 1)
  std::vector<float> targets;        // the label of each row, for regression
  std::vector<int32_t> classes;      // the label of each row, for classes
  int64_t rows = 0;
};

class CsvDataset final : public Dataset {
 public:
  CsvDataset(Table table, const DataField& label)
      : Dataset({{.name = "features", .type = {.shape = {static_cast<int64_t>(table.columns.size()) - 1}}}, label},
                table.rows),
        table_(std::move(table)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const size_t n = table_.columns.size() - 1;
    const auto row = static_cast<size_t>(sample);
    std::memcpy(fields[0], &table_.features[row * n], n * sizeof(float));
    if (table_.classes.empty()) {
      std::memcpy(fields[1], &table_.targets[row], sizeof(float));
    } else {
      std::memcpy(fields[1], &table_.classes[row], sizeof(int32_t));
    }
    return absl::OkStatus();
  }

 private:
  Table table_;
};

bool IsNumber(absl::string_view text) {
  double value = 0;
  return absl::SimpleAtod(text, &value);
}

class TableReader {
 public:
  TableReader(const FileBytes& file, const CsvOptions& options)
      : options_(options), records_(file.path(), file.text(), options.separator) {}

  absl::StatusOr<Table> Read() {
    SNUG_ASSIGN_OR_RETURN(std::vector<CsvField> record, records_.Next());
    if (record.empty()) return records_.Error(1, 1, "expected rows of numbers, found an empty file");
    SNUG_RETURN_IF_ERROR(ReadColumns(record));
    if (has_header_) {
      SNUG_ASSIGN_OR_RETURN(record, records_.Next());
      if (record.empty())
        return records_.Error(first_line_, 1, "expected rows of numbers after the header, found none");
    }
    while (!record.empty()) {
      SNUG_RETURN_IF_ERROR(ReadRow(record));
      SNUG_ASSIGN_OR_RETURN(record, records_.Next());
    }
    return std::move(table_);
  }

 private:
  absl::Status ReadColumns(const std::vector<CsvField>& first) {
    first_line_ = first[0].line;
    if (first.size() < 2) {
      return records_.Error(first_line_, 1,
                            absl::StrCat("expected at least two columns, features and a label, separated by \"",
                                         std::string(1, options_.separator), "\", found one"));
    }
    has_header_ = options_.header.value_or(
        std::any_of(first.begin(), first.end(), [](const CsvField& field) { return !IsNumber(field.text); }));
    for (size_t i = 0; i < first.size(); ++i) {
      table_.columns.push_back(has_header_ ? std::string(absl::StripAsciiWhitespace(first[i].text)) : absl::StrCat(i));
    }
    return FindLabel();
  }

  absl::Status FindLabel() {
    const auto n = static_cast<int64_t>(table_.columns.size());
    if (options_.label.empty()) {
      table_.label = table_.columns.size() - 1;
      return absl::OkStatus();
    }
    Suggester suggester(options_.label);
    for (size_t i = 0; has_header_ && i < table_.columns.size(); ++i) {
      suggester.Consider(table_.columns[i]);
      if (table_.columns[i] != options_.label) continue;
      table_.label = i;
      return absl::OkStatus();
    }
    int64_t number = 0;
    if (absl::SimpleAtoi(options_.label, &number)) {
      if (number >= -n && number < n) {
        table_.label = static_cast<size_t>(number < 0 ? number + n : number);
        return absl::OkStatus();
      }
      return records_.Error(
          first_line_, 1,
          absl::StrCat("label column ", number, ": expected ", -n, " to ", n - 1, ", the file has ", n, " columns"));
    }
    return records_.Error(
        first_line_, 1,
        absl::StrCat("no column is called \"", options_.label, "\"",
                     has_header_ ? suggester.Question() : ": the file has no header, give its number"));
  }

  absl::Status ReadRow(const std::vector<CsvField>& record) {
    if (record.size() != table_.columns.size()) {
      return records_.Error(record[0].line, record[0].column,
                            absl::StrCat("expected ", table_.columns.size(), " fields as in line ", first_line_,
                                         ", found ", record.size()));
    }
    for (size_t i = 0; i < record.size(); ++i) {
      SNUG_ASSIGN_OR_RETURN(const float value, Number(record[i], i));
      if (i != table_.label) {
        table_.features.push_back(value);
      } else if (options_.regression) {
        table_.targets.push_back(value);
      } else {
        SNUG_ASSIGN_OR_RETURN(const int32_t label, Class(record[i]));
        table_.classes.push_back(label);
      }
    }
    ++table_.rows;
    return absl::OkStatus();
  }

  absl::Status FieldError(const CsvField& field, size_t column, absl::string_view message) const {
    return records_.Error(field.line, field.column, absl::StrCat("column \"", table_.columns[column], "\": ", message));
  }

  absl::StatusOr<float> Number(const CsvField& field, size_t column) const {
    if (absl::StripAsciiWhitespace(field.text).empty()) {
      return FieldError(field, column,
                        "expected a number, found nothing: fill in what is missing, or leave the row out");
    }
    double value = 0;
    if (!absl::SimpleAtod(field.text, &value)) {
      return FieldError(field, column, absl::StrCat("expected a number, found \"", field.text, "\""));
    }
    if (!std::isfinite(static_cast<float>(value))) {
      return FieldError(field, column, absl::StrCat("expected a finite float32 number, found \"", field.text, "\""));
    }
    return static_cast<float>(value);
  }

  absl::StatusOr<int32_t> Class(const CsvField& field) const {
    const int64_t limit = options_.classes > 0 ? options_.classes : std::numeric_limits<int32_t>::max();
    double value = 0;
    const bool number = absl::SimpleAtod(field.text, &value);
    if (number && value == std::floor(value) && value >= 0 && value < static_cast<double>(limit)) {
      return static_cast<int32_t>(value);
    }
    return FieldError(field, table_.label,
                      absl::StrCat("expected a class from 0 to ", limit - 1, ", found \"", field.text, "\""));
  }

  const CsvOptions& options_;
  CsvRecords records_;
  bool has_header_ = false;
  int64_t first_line_ = 1;
  Table table_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenCsv(const std::string& path, const CsvOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  SNUG_ASSIGN_OR_RETURN(Table table, TableReader(*file, options).Read());
  DataField label = {.name = "label"};
  if (!options.regression) {
    label.type.dtype = DType::kInt32;
    label.padding = kIgnoredLabel;
    label.max_value = options.classes > 0 ? options.classes
                                          : *std::max_element(table.classes.begin(), table.classes.end()) + int64_t{1};
  }
  return std::make_shared<const CsvDataset>(std::move(table), label);
}

}  // namespace snug::core
