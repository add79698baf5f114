#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/base/text/suggest.h"
#include "engine/base/text/utf8.h"
#include "engine/train/data/csv_records.h"
#include "engine/train/data/table/number_text.h"
#include "engine/train/data/table/table.h"
#include "engine/train/data/table/table_fit.h"
#include "engine/train/data/table/table_layout.h"

namespace snug::core {
namespace {

std::string Stripped(absl::string_view text) { return std::string(absl::StripAsciiWhitespace(text)); }

// What other programs write where there is no number.
bool StandsForNothing(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  return lower == "nan" || lower == "na" || lower == "n/a" || lower == "null" || lower == "none";
}

// Gives each text a number, in the sequence in which they come.
class Codes {
 public:
  int32_t operator[](const std::string& text) {
    const auto [found, is_new] = codes_.try_emplace(text, static_cast<int32_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  std::vector<std::string> Take() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, int32_t> codes_;
  std::vector<std::string> texts_;
};

class TableReader {
 public:
  TableReader(const FileBytes& file, const CsvOptions& options, const TableFit* fit, TableLayout layout)
      : options_(options),
        fit_(fit),
        layout_(std::move(layout)),
        records_(file.path(), file.text(), options.separator) {
    table_.path = file.path();
    table_.header = layout_.header;
    table_.columns = layout_.columns;
    table_.has_label = layout_.has_label();
    table_.label = layout_.label_name();
    SetRoles();
  }

  absl::StatusOr<Table> Read() {
    SNUG_ASSIGN_OR_RETURN(std::vector<CsvField> record, records_.Next());
    if (table_.header) {
      SNUG_ASSIGN_OR_RETURN(record, records_.Next());
      if (record.empty()) {
        return records_.Error(layout_.first_line, 1, "expected rows of numbers after the header, found none");
      }
    }
    while (!record.empty()) {
      SNUG_RETURN_IF_ERROR(ReadRow(record));
      SNUG_ASSIGN_OR_RETURN(record, records_.Next());
    }
    for (Codes& codes : codes_) table_.values.push_back(codes.Take());
    table_.classes = fit_ == nullptr ? classes_.Take() : fit_->classes;
    return std::move(table_);
  }

 private:
  // What a field of a row is for.
  struct Role {
    size_t column = 0;  // of table_.columns; that many for the label
    size_t place = 0;   // among the numbers, or among the categories, of a row
  };

  void SetRoles() {
    roles_.assign(layout_.names.size(), Role{.column = table_.columns.size()});
    for (size_t c = 0; c < table_.columns.size(); ++c) {
      const bool category = table_.columns[c].category;
      roles_[layout_.sources[c]] = {.column = c,
                                    .place = category ? table_.categories_of_row++ : table_.numbers_of_row++};
    }
    codes_.resize(table_.categories_of_row);
  }

  absl::Status ReadRow(const std::vector<CsvField>& record) {
    if (record.size() != layout_.names.size()) {
      return records_.Error(record[0].line, record[0].column,
                            absl::StrCat("expected ", layout_.names.size(), " fields as in line ", layout_.first_line,
                                         ", found ", record.size()));
    }
    const size_t first_number = table_.numbers.size(), first_code = table_.codes.size();
    table_.numbers.resize(first_number + table_.numbers_of_row);
    table_.codes.resize(first_code + table_.categories_of_row);
    for (size_t i = 0; i < record.size(); ++i) {
      const Role role = roles_[i];
      if (i == layout_.label) {
        SNUG_RETURN_IF_ERROR(ReadLabel(record[i]));
      } else if (table_.columns[role.column].category) {
        SNUG_ASSIGN_OR_RETURN(table_.codes[first_code + role.place], Category(record[i], i));
      } else {
        SNUG_ASSIGN_OR_RETURN(table_.numbers[first_number + role.place], Feature(record[i], i));
      }
    }
    if (!layout_.has_label()) NoLabel();
    table_.lines.push_back(record[0].line);
    ++table_.rows;
    return absl::OkStatus();
  }

  absl::Status FieldError(const CsvField& field, size_t column, absl::string_view message) const {
    return records_.Error(field.line, field.column,
                          absl::StrCat("column ", Shown(layout_.names[column]), ": ", message));
  }

  // A text in the first line may be a name.
  std::string HeaderHint(const CsvField& field) const {
    if (fit_ == nullptr || fit_->header || field.line != layout_.first_line || IsNumberText(field.text)) return "";
    return "; the training's table had no header, and neither must this one have one";
  }

  // Whether a field is empty and has a rule for that.
  absl::StatusOr<bool> Lacks(const CsvField& field, size_t column, absl::string_view expected) const {
    if (!absl::StripAsciiWhitespace(field.text).empty()) return false;
    if (table_.columns[roles_[column].column].missing.kind != MissingRule::Kind::kRefuse) return true;
    return FieldError(field, column,
                      absl::StrCat("expected ", expected,
                                   ", found nothing: leave the row out, or let `missing` say what it becomes"));
  }

  absl::StatusOr<double> Feature(const CsvField& field, size_t column) const {
    SNUG_ASSIGN_OR_RETURN(const bool lacks, Lacks(field, column, "a number"));
    if (lacks) return std::numeric_limits<double>::quiet_NaN();
    return Number(field, column,
                  StandsForNothing(field.text) ? "; `missing` is for empty fields: leave this one empty"
                                               : "; `category` takes columns of texts");
  }

  absl::StatusOr<double> Number(const CsvField& field, size_t column, absl::string_view advice) const {
    double value = 0;
    if (!ParseNumber(field.text, &value)) {
      return FieldError(field, column,
                        absl::StrCat("expected a number, found ", Shown(field.text), advice, HeaderHint(field)));
    }
    if (!std::isfinite(static_cast<float>(value))) {
      return FieldError(field, column, absl::StrCat("expected a finite float32 number, found ", Shown(field.text)));
    }
    return value;
  }

  absl::StatusOr<int32_t> Category(const CsvField& field, size_t column) {
    SNUG_ASSIGN_OR_RETURN(const bool lacks, Lacks(field, column, "a value"));
    if (lacks) return -1;
    SNUG_ASSIGN_OR_RETURN(const std::string text, Text(field, column));
    return codes_[roles_[column].place][text];
  }

  absl::StatusOr<std::string> Text(const CsvField& field, size_t column) const {
    std::string text = Stripped(field.text);
    if (!IsUtf8(text)) return FieldError(field, column, "expected UTF-8, found bytes that are none");
    return text;
  }

  void NoLabel() {
    if (options_.regression) {
      table_.targets.push_back(0);
    } else {
      table_.labels.push_back(kIgnoredLabel);
    }
  }

  absl::Status ReadLabel(const CsvField& field) {
    if (absl::StripAsciiWhitespace(field.text).empty()) {
      return FieldError(field, layout_.label, "expected a label, found nothing: leave the row out");
    }
    if (options_.regression) {
      SNUG_ASSIGN_OR_RETURN(const double value,
                            Number(field, layout_.label, "; for classes the network's input of labels is INT32"));
      table_.targets.push_back(static_cast<float>(value));
      return absl::OkStatus();
    }
    double number = 0;
    if (ParseNumber(field.text, &number) && number == kIgnoredLabel) {  // says nothing of what labels are
      table_.labels.push_back(kIgnoredLabel);
      return absl::OkStatus();
    }
    if (!label_line_.has_value()) {
      label_line_ = field.line;
      texts_ = fit_ != nullptr ? !fit_->classes.empty() : !IsNumberText(field.text);
    }
    SNUG_ASSIGN_OR_RETURN(const int32_t label, texts_ ? TextLabel(field) : Class(field));
    table_.labels.push_back(label);
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> TextLabel(const CsvField& field) {
    SNUG_ASSIGN_OR_RETURN(const std::string text, Text(field, layout_.label));
    if (fit_ == nullptr) {
      if (!IsNumberText(text)) return classes_[text];
      return FieldError(field, layout_.label,
                        absl::StrCat("expected a text as in line ", *label_line_, ", found ", Shown(text),
                                     ": labels are all texts, or all classes from 0 on"));
    }
    const auto found = std::lower_bound(fit_->classes.begin(), fit_->classes.end(), text);
    if (found != fit_->classes.end() && *found == text) return static_cast<int32_t>(found - fit_->classes.begin());
    Suggester suggester(text);
    for (const std::string& known : fit_->classes) suggester.Consider(known);
    return FieldError(field, layout_.label,
                      absl::StrCat("expected a label of the training's table (", ListNames(fit_->classes), "), found ",
                                   Shown(text), suggester.Question(), HeaderHint(field)));
  }

  absl::StatusOr<int32_t> Class(const CsvField& field) const {
    const int64_t limit = options_.classes > 0 ? options_.classes : std::numeric_limits<int32_t>::max();
    double value = 0;
    const bool number = ParseNumber(field.text, &value);
    if (number && value == std::floor(value) && value >= 0 && value < static_cast<double>(limit)) {
      return static_cast<int32_t>(value);
    }
    return FieldError(field, layout_.label,
                      absl::StrCat("expected a class from 0 to ", limit - 1, ", or ", kIgnoredLabel, ", found ",
                                   Shown(field.text), HeaderHint(field)));
  }

  const CsvOptions& options_;
  const TableFit* const fit_;
  const TableLayout layout_;
  CsvRecords records_;
  std::vector<Role> roles_;   // by column of the file
  std::vector<Codes> codes_;  // by category
  Codes classes_;
  std::optional<int64_t> label_line_;  // the line of the first label, which decides what labels are
  bool texts_ = false;
  Table table_;
};

template <typename Show>
std::string List(absl::Span<const std::string> names, size_t most, Show show) {
  const auto append = [&](std::string* out, const std::string& name) { out->append(show(name)); };
  const std::string shown = absl::StrJoin(names.subspan(0, most), ", ", append);
  return names.size() <= most ? shown : absl::StrCat(shown, " and ", names.size() - most, " more");
}

}  // namespace

absl::StatusOr<Table> ReadTable(const FileBytes& file, const CsvOptions& options, const TableFit* fit) {
  SNUG_ASSIGN_OR_RETURN(TableLayout layout, FindLayout(file, options, fit));
  return TableReader(file, options, fit, std::move(layout)).Read();
}

std::string ListNames(absl::Span<const std::string> names, size_t most) {
  return List(names, most, [](const std::string& name) { return Printable(name, 80); });
}

std::string ListQuoted(absl::Span<const std::string> names, size_t most) {
  return List(names, most, [](const std::string& name) { return Shown(name); });
}

}  // namespace snug::core
