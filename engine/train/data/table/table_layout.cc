#include "engine/train/data/table/table_layout.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/base/text/suggest.h"
#include "engine/base/text/utf8.h"
#include "engine/train/data/csv_records.h"
#include "engine/train/data/table/number_text.h"
#include "engine/train/data/table/table_fit.h"

namespace snug::core {
namespace {

bool IsWholeNumber(absl::string_view text) {
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value);
}

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

// "age=mean" is for one column, "mean" for all the others.
struct AskedRule {
  std::string column;  // empty: of all others
  MissingRule rule;
};

absl::StatusOr<AskedRule> ParseAskedRule(const std::string& text) {
  AskedRule asked;
  if (MissingRule::Parse(text, &asked.rule)) return asked;
  const size_t equals = text.rfind('=');  // a column's name may have one
  if (equals != std::string::npos && equals > 0 && MissingRule::Parse(text.substr(equals + 1), &asked.rule)) {
    asked.column = text.substr(0, equals);
    return asked;
  }
  if (IsNumberText(equals == std::string::npos ? text : text.substr(equals + 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("csv: missing: expected a finite float32 number, found ", Shown(text)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("csv: missing: expected mean, a number or refuse, or one of them for a column, as age=mean; found ",
                   Shown(text)));
}

class LayoutFinder {
 public:
  LayoutFinder(const FileBytes& file, const CsvOptions& options, const TableFit* fit)
      : file_(file), options_(options), fit_(fit), records_(file.path(), file.text(), options.separator) {}

  absl::StatusOr<TableLayout> Find() {
    SNUG_ASSIGN_OR_RETURN(const std::vector<CsvField> first, records_.Next());
    if (first.empty()) return records_.Error(1, 1, "expected rows of numbers, found an empty file");
    layout_.first_line = first[0].line;
    const bool one_is_enough = options_.may_lack_labels && fit_ != nullptr && fit_->columns.size() == 1;
    if (first.size() < 2 && !one_is_enough) {
      return ColumnsError(absl::StrCat("expected at least two columns, features and a label, separated by \"",
                                       std::string(1, options_.separator), "\", found one"));
    }
    SNUG_ASSIGN_OR_RETURN(layout_.header, HasHeader(first));
    for (size_t i = 0; i < first.size(); ++i) {
      layout_.names.push_back(layout_.header ? std::string(absl::StripAsciiWhitespace(first[i].text))
                                             : absl::StrCat(i));
      if (layout_.header) places_.try_emplace(layout_.names.back(), i);
      if (IsUtf8(layout_.names.back())) continue;
      return records_.Error(first[i].line, first[i].column, "expected a name in UTF-8, found bytes that are none");
    }
    absl::Status fits = ResolveOptions();
    if (fits.ok() && fit_ != nullptr) fits = MatchFit();
    if (!fits.ok() && LacksHeader()) {
      return absl::Status(fits.code(),
                          absl::StrCat(fits.message(), "; the training's table had a header, and so must this one"));
    }
    SNUG_RETURN_IF_ERROR(fits);
    return std::move(layout_);
  }

 private:
  absl::Status ColumnsError(absl::string_view message) const { return records_.Error(layout_.first_line, 1, message); }

  // The first line is a header if one of its fields is a text; unless columns are named by their numbers, all its texts
  // are a label or categories, and one of them stands in another row too.
  absl::StatusOr<bool> HasHeader(const std::vector<CsvField>& first) {
    if (options_.header.has_value()) return *options_.header;
    if (fit_ != nullptr) return fit_->header;
    std::vector<std::string> asked = options_.categories;
    asked.push_back(options_.label.empty() ? "-1" : options_.label);
    std::vector<char> may_be_text(first.size(), 0);
    bool by_name = false;
    for (const std::string& column : asked) {
      if (!IsWholeNumber(column) || IsNameBeyond(column, first)) {
        by_name = true;
        continue;
      }
      const bool is_label = &column == &asked.back();
      SNUG_ASSIGN_OR_RETURN(const size_t found, FindByNumber(column, is_label ? "label" : "category", first.size()));
      may_be_text[found] = 1;
    }
    std::vector<size_t> texts;
    for (size_t i = 0; i < first.size(); ++i) {
      if (IsBlank(first[i].text) || IsNumberText(first[i].text)) continue;
      if (by_name || !may_be_text[i]) return true;
      texts.push_back(i);
    }
    if (texts.empty()) return false;
    CsvRecords rows(file_.path(), file_.text(), options_.separator);
    SNUG_RETURN_IF_ERROR(rows.Next().status());
    for (;;) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<CsvField> row, rows.Next());
      if (row.empty()) return true;
      for (const size_t i : texts) {
        if (i < row.size() && row[i].text == first[i].text) return false;
      }
    }
  }

  // Whether a number is no place of a column, and stands in the first line: "2020" is a column's name then.
  static bool IsNameBeyond(const std::string& asked, const std::vector<CsvField>& first) {
    const auto n = static_cast<int64_t>(first.size());
    int64_t number = 0;
    if (absl::SimpleAtoi(asked, &number) && number >= -n && number < n) return false;
    return std::any_of(first.begin(), first.end(),
                       [&](const CsvField& field) { return absl::StripAsciiWhitespace(field.text) == asked; });
  }

  // Whether the training's table had a header, and no column here has a name of it.
  bool LacksHeader() const {
    if (fit_ == nullptr || !fit_->header || places_.count(fit_->label) > 0) return false;
    return std::none_of(fit_->columns.begin(), fit_->columns.end(),
                        [&](const TableFit::Column& one) { return places_.count(one.column.name) > 0; });
  }

  absl::StatusOr<size_t> FindByNumber(const std::string& asked, absl::string_view what, size_t columns) const {
    const auto n = static_cast<int64_t>(columns);
    int64_t number = 0;
    SNUG_CHECK(absl::SimpleAtoi(asked, &number));
    if (number >= -n && number < n) return static_cast<size_t>(number < 0 ? number + n : number);
    return ColumnsError(
        absl::StrCat(what, " column ", number, ": expected ", -n, " to ", n - 1, ", the file has ", n, " columns"));
  }

  absl::StatusOr<size_t> FindColumn(const std::string& asked, absl::string_view what) const {
    const auto found = places_.find(asked);
    if (found != places_.end()) {
      const auto other =
          std::find(layout_.names.begin() + static_cast<int64_t>(found->second) + 1, layout_.names.end(), asked);
      if (other == layout_.names.end()) return found->second;
      return ColumnsError(absl::StrCat(what, ": two columns are called ", Shown(asked), ": give the number of one, ",
                                       found->second, " or ", other - layout_.names.begin()));
    }
    if (IsWholeNumber(asked)) return FindByNumber(asked, what, layout_.names.size());
    Suggester suggester(asked);
    for (const std::string& name : layout_.names) suggester.Consider(name);
    return ColumnsError(
        absl::StrCat("no column is called ", Shown(asked),
                     layout_.header ? suggester.Question() : ": the file has no header, give its number"));
  }

  absl::Status LacksLabel() const {
    return ColumnsError(absl::StrCat("label: expected column ", Shown(fit_->label),
                                     " as in the training's table, found none; where labels are not known, ",
                                     options_.regression ? "any number" : "-100",
                                     " stands for them, and `snug predict` needs no such column"));
  }

  // Whether the file has all columns of the training's table but the label's.
  bool LabelIsLeftOut() const {
    if (fit_ == nullptr || !options_.may_lack_labels) return false;
    return layout_.header ? places_.count(fit_->label) == 0 : layout_.names.size() == fit_->columns.size();
  }

  // Columns without names have their numbers in the training's table, where the label had one too.
  void LeaveLabelOut() {
    layout_.label = layout_.names.size();
    if (layout_.header) return;
    for (size_t i = 0; i < layout_.names.size(); ++i) {
      layout_.names[i] = fit_->columns[i].column.name;
      places_.try_emplace(layout_.names[i], i);
    }
  }

  // Finds out what the options say of each column.
  absl::Status ResolveOptions() {
    std::string label = options_.label;
    if (label.empty()) label = fit_ != nullptr && layout_.header ? fit_->label : "-1";
    if (LabelIsLeftOut()) {
      LeaveLabelOut();
    } else {
      if (fit_ != nullptr && layout_.header && label == fit_->label && places_.count(label) == 0) return LacksLabel();
      SNUG_ASSIGN_OR_RETURN(layout_.label, FindColumn(label, "label"));
    }
    std::vector<TableColumn> all;
    for (const std::string& name : layout_.names) all.push_back({.name = name});
    for (const std::string& asked : options_.categories) {
      SNUG_ASSIGN_OR_RETURN(const size_t column, FindColumn(asked, "category"));
      if (column == layout_.label)
        return ColumnsError(absl::StrCat("category: column ", Shown(asked), " is the label"));
      if (all[column].category)
        return ColumnsError(absl::StrCat("category: ", Shown(asked), " is column ", Shown(layout_.names[column]),
                                         ", which is named already"));
      all[column].category = true;
    }
    SNUG_RETURN_IF_ERROR(ResolveMissing(&all));
    for (size_t i = 0; i < all.size(); ++i) {
      if (i == layout_.label) continue;
      layout_.columns.push_back(all[i]);
      layout_.sources.push_back(i);
    }
    return absl::OkStatus();
  }

  absl::Status ResolveMissing(std::vector<TableColumn>* all) const {
    std::vector<std::optional<MissingRule>> own(all->size());
    std::optional<MissingRule> others;
    for (const std::string& text : options_.missing) {
      SNUG_ASSIGN_OR_RETURN(const AskedRule asked, ParseAskedRule(text));
      std::optional<MissingRule>* rule = &others;
      if (!asked.column.empty()) {
        SNUG_ASSIGN_OR_RETURN(const size_t column, FindColumn(asked.column, "missing"));
        if (column == layout_.label) {
          return ColumnsError(
              absl::StrCat("missing: column ", Shown(asked.column), " is the label, which no row may lack"));
        }
        rule = &own[column];
      }
      if (rule->has_value()) {
        return ColumnsError(absl::StrCat(
            "missing: expected one rule for ",
            asked.column.empty() ? "all columns" : absl::StrCat("column ", Shown(asked.column)), ", found two"));
      }
      *rule = asked.rule;
    }
    for (size_t i = 0; i < all->size(); ++i) (*all)[i].missing = own[i].value_or(others.value_or(MissingRule()));
    return absl::OkStatus();
  }

  // Puts the columns into the sequence of the fit, whose names they must have.
  absl::Status MatchFit() {
    if (options_.normalise != fit_->normalised) {
      return ColumnsError(absl::StrCat("normalise: the columns of the training's table were ",
                                       fit_->normalised ? "" : "not ", "normalised: expected the same here"));
    }
    std::unordered_map<std::string, std::deque<size_t>> places;  // by name: two columns may have one
    for (size_t i = 0; i < layout_.columns.size(); ++i) places[layout_.columns[i].name].push_back(i);
    std::vector<TableColumn> columns;
    std::vector<size_t> sources;
    std::vector<std::string> lacking, unexpected;
    for (const TableFit::Column& wanted : fit_->columns) {
      std::deque<size_t>& left = places[wanted.column.name];
      if (left.empty()) {
        lacking.push_back(wanted.column.name);
        continue;
      }
      const TableColumn& here = layout_.columns[left.front()];
      SNUG_RETURN_IF_ERROR(CheckSame(here, wanted.column));
      columns.push_back(here);
      sources.push_back(layout_.sources[left.front()]);
      left.pop_front();
    }
    for (const TableColumn& column : layout_.columns) {
      std::deque<size_t>& left = places[column.name];
      if (left.empty()) continue;
      unexpected.push_back(column.name);
      left.pop_front();
    }
    if (layout_.has_label() && layout_.label_name() != fit_->label) {
      return ColumnsError(absl::StrCat("the label of the training's table is in column ", Shown(fit_->label),
                                       ", here in ", Shown(layout_.label_name())));
    }
    if (!lacking.empty() || !unexpected.empty()) {
      return ColumnsError(
          absl::StrCat("expected the columns of the training's table",
                       lacking.empty() ? "" : absl::StrCat("; missing: ", ListQuoted(lacking)),
                       unexpected.empty() ? "" : absl::StrCat("; unexpected: ", ListQuoted(unexpected))));
    }
    layout_.columns = std::move(columns);
    layout_.sources = std::move(sources);
    return absl::OkStatus();
  }

  absl::Status CheckSame(const TableColumn& here, const TableColumn& wanted) const {
    const auto kind = [](const TableColumn& column) { return column.category ? "a category" : "of numbers"; };
    if (here.category != wanted.category) {
      return ColumnsError(absl::StrCat("column ", Shown(here.name), ": is ", kind(here), ", and ", kind(wanted),
                                       " in the training's table: expected the same `category` as there"));
    }
    if (here.missing == wanted.missing) return absl::OkStatus();
    return ColumnsError(absl::StrCat("column ", Shown(here.name), ": missing is ", here.missing.ToString(), ", and ",
                                     wanted.missing.ToString(), " in the training's table: expected the same"));
  }

  const FileBytes& file_;
  const CsvOptions& options_;
  const TableFit* const fit_;
  CsvRecords records_;
  TableLayout layout_;
  std::unordered_map<std::string, size_t> places_;  // of the names in a header; the first of two that are the same
};

}  // namespace

bool MissingRule::Parse(absl::string_view text, MissingRule* rule) {
  if (text == "refuse") {
    *rule = {};
    return true;
  }
  if (text == "mean") {
    *rule = {.kind = Kind::kMean};
    return true;
  }
  double number = 0;
  if (!ParseNumber(text, &number) || !std::isfinite(static_cast<float>(number))) return false;
  *rule = {.kind = Kind::kNumber, .number = number};
  return true;
}

std::string MissingRule::ToString() const {
  if (kind == Kind::kRefuse) return "refuse";
  if (kind == Kind::kMean) return "mean";
  std::array<char, 32> digits = {};  // the fewest that read back the same
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

absl::StatusOr<TableLayout> FindLayout(const FileBytes& file, const CsvOptions& options, const TableFit* fit) {
  return LayoutFinder(file, options, fit).Find();
}

}  // namespace snug::core
