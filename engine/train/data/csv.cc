#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/sources.h"
#include "engine/train/data/table/table.h"
#include "engine/train/data/table/table_fit.h"

namespace snug::core {
namespace {

constexpr int32_t kEmpty = -1, kUnknown = -2;  // in place of the index of a category's value

DataField FeaturesOf(const TableFit& fit) {
  return {.name = "features", .type = {.shape = {fit.CountFeatures()}}, .made_of = ListNames(fit.FeatureNames())};
}

// A table as a network sees it. Numbers are worked out as they are read, so that a category with many values takes no
// more memory than one with two.
class TableDataset final : public Dataset {
 public:
  TableDataset(Table table, TableFit fit, const DataField& label)
      : Dataset({FeaturesOf(fit), label}, table.rows), table_(std::move(table)), fit_(std::move(fit)) {
    FindCategories();
  }

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    const auto row = static_cast<size_t>(sample);
    ReadFeatures(row, reinterpret_cast<float*>(fields[0]));
    if (table_.labels.empty()) {
      std::memcpy(fields[1], &table_.targets[row], sizeof(float));
    } else {
      std::memcpy(fields[1], &table_.labels[row], sizeof(int32_t));
    }
    return absl::OkStatus();
  }

  // Whether every row has finite numbers; those of another table than the training's may be too far from its mean.
  absl::Status Check() const {
    if (!fit_.normalised) return absl::OkStatus();
    std::vector<const TableFit::Column*> numbers;
    for (const TableFit::Column& one : fit_.columns) {
      if (!one.column.category) numbers.push_back(&one);
    }
    const double* number = table_.numbers.data();
    for (size_t row = 0; row < static_cast<size_t>(table_.rows); ++row) {
      for (const TableFit::Column* one : numbers) {
        const double value = Filled(*one, *number++);
        if (!std::isfinite(Fed(*one, value))) return TooLarge(row, *one, value);
      }
    }
    return absl::OkStatus();
  }

  // What should be known of empty fields, and of values that the fit does not have: a line for each column.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    size_t number = 0, category = 0;
    for (const TableFit::Column& one : fit_.columns) {
      const std::string place = absl::StrCat(table_.path, ": column ", Shown(one.column.name), ": ");
      const int64_t empty = one.column.category ? CountCodes(category, kEmpty) : CountEmpty(number);
      if (empty > 0)
        notes.push_back(
            absl::StrCat(place, empty, empty == 1 ? " empty field is " : " empty fields are ", FillText(one)));
      if (one.column.category) NoteUnknown(category, place, &notes);
      ++(one.column.category ? category : number);
    }
    return notes;
  }

 private:
  // Replaces the codes of the table by indexes of the fit's values.
  void FindCategories() {
    size_t category = 0;
    for (const TableFit::Column& one : fit_.columns) {
      if (!one.column.category) continue;
      std::vector<int32_t> indexes;
      for (const std::string& value : table_.values[category]) {
        const auto found = std::lower_bound(one.values.begin(), one.values.end(), value);
        const bool known = found != one.values.end() && *found == value;
        indexes.push_back(known ? static_cast<int32_t>(found - one.values.begin()) : kUnknown);
        if (!known) unknown_[category].names.push_back(value);
      }
      for (size_t at = category; at < table_.codes.size(); at += table_.categories_of_row) {
        int32_t& code = table_.codes[at];
        if (code >= 0) code = indexes[static_cast<size_t>(code)];
        if (code == kUnknown) ++unknown_[category].rows;
      }
      ++category;
    }
  }

  static double Filled(const TableFit::Column& one, double number) { return std::isnan(number) ? one.fill : number; }

  float Fed(const TableFit::Column& one, double value) const {
    return static_cast<float>(fit_.normalised ? (value - one.mean) / one.deviation : value);
  }

  void ReadFeatures(size_t row, float* out) const {
    const double* number = table_.numbers.data() + row * table_.numbers_of_row;
    const int32_t* code = table_.codes.data() + row * table_.categories_of_row;
    for (const TableFit::Column& one : fit_.columns) {
      if (!one.column.category) {
        *out++ = Fed(one, Filled(one, *number++));
        continue;
      }
      const size_t values = one.values.size();
      for (size_t i = 0; i < values; ++i) out[i] = *code == kEmpty ? static_cast<float>(one.fills[i]) : 0;
      if (*code >= 0) out[*code] = 1;
      out += values;
      ++code;
    }
  }

  absl::Status TooLarge(size_t row, const TableFit::Column& one, double value) const {
    return absl::InvalidArgumentError(
        absl::StrCat(table_.path, ":", table_.lines[row], ": column ", Shown(one.column.name), ": ", value,
                     " is too far from the mean of the training rows, ", one.mean, ", for their deviation of ",
                     one.deviation, ": normalised it is no float32 number"));
  }

  int64_t CountCodes(size_t category, int32_t code) const {
    int64_t count = 0;
    for (size_t at = category; at < table_.codes.size(); at += table_.categories_of_row) {
      count += table_.codes[at] == code ? 1 : 0;
    }
    return count;
  }

  int64_t CountEmpty(size_t number) const {
    int64_t count = 0;
    for (size_t at = number; at < table_.numbers.size(); at += table_.numbers_of_row) {
      count += std::isnan(table_.numbers[at]) ? 1 : 0;
    }
    return count;
  }

  static std::string FillText(const TableFit::Column& one) {
    const bool mean = one.column.missing.kind == MissingRule::Kind::kMean;
    if (!one.column.category) return absl::StrCat(one.fill, mean ? ", the mean of the training rows" : "");
    if (mean) return "the shares that each value has of the training rows";
    return absl::StrCat(one.column.missing.ToString(), " for each value");
  }

  void NoteUnknown(size_t category, const std::string& place, std::vector<std::string>* notes) const {
    const auto found = unknown_.find(category);
    if (found == unknown_.end()) return;
    notes->push_back(
        absl::StrCat(place, found->second.rows, found->second.rows == 1 ? " row has a value" : " rows have values",
                     " that no training row has (", ListQuoted(found->second.names, 5), "): 0 for each known value"));
  }

  struct Unknown {
    std::vector<std::string> names;
    int64_t rows = 0;
  };
  Table table_;
  const TableFit fit_;
  std::map<size_t, Unknown> unknown_;  // by category: what the fit does not know
};

DataField LabelFieldOf(const Table& table, const TableFit& fit, const CsvOptions& options) {
  DataField label = {.name = "label"};
  if (options.regression) return label;
  label.type.dtype = DType::kInt32;
  label.padding = kIgnoredLabel;
  if (!fit.classes.empty()) {
    label.max_value = static_cast<int64_t>(fit.classes.size());
    label.made_of = ListNames(fit.classes);
    label.classes = fit.classes;
  } else {
    label.max_value = options.classes > 0
                          ? options.classes
                          : std::max(0, *std::max_element(table.labels.begin(), table.labels.end())) + int64_t{1};
  }
  return label;
}

// "flowers.csv: 150 rows below a header, 5 numbers a sample (height, colour=blue, ...), 3 classes (...)"
std::string Summary(const Table& table, const TableFit& fit) {
  const int64_t features = fit.CountFeatures();
  return absl::StrCat(table.path, ": ", table.rows, table.rows == 1 ? " row " : " rows ",
                      table.header ? "below a header, " : "without a header, ", features,
                      features == 1 ? " number" : " numbers", " a sample (", ListNames(fit.FeatureNames(), 10), ")",
                      fit.classes.size() == 1 ? absl::StrCat(", 1 class: all labels are ", Shown(fit.classes[0]))
                      : fit.classes.empty()
                          ? ""
                          : absl::StrCat(", ", fit.classes.size(), " classes (", ListNames(fit.classes, 10), ")"));
}

void NoteConstants(const Table& table, const TableFit& fit, std::vector<std::string>* notes) {
  for (const TableFit::Column& one : fit.columns) {
    if (!one.constant) continue;
    notes->push_back(absl::StrCat(table.path, ": column ", Shown(one.column.name), " has one value, ", one.mean,
                                  ", in all training rows, so that its deviation is left as it is"));
  }
}

std::string LabelsAreNotKnown(const std::string& path, const TableFit& fit) {
  return absl::StrCat(path, ": has no column ", Shown(fit.label), ", so no labels are known");
}

absl::Status CheckParts(const std::string& path, int64_t rows) {
  if (rows > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": has one row, and a part of the rows is to be held back: --data-held-back=0 takes it whole"));
}

absl::StatusOr<TableFit> FitFor(const Table& table, const CsvOptions& options) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  if (options.test_file.empty() && options.held_back != 0) {
    SNUG_RETURN_IF_ERROR(CheckParts(table.path, table.rows));
    SNUG_ASSIGN_OR_RETURN(rows, TrainingSamples(table.rows, options.held_back, options.seed));
  }
  return LearnTable(table, rows, options.normalise);
}

absl::StatusOr<std::shared_ptr<const Dataset>> MakeDataset(Table table, const TableFit& fit, const CsvOptions& options,
                                                           std::vector<std::string>* notes) {
  const DataField label = LabelFieldOf(table, fit, options);
  auto dataset = std::make_shared<const TableDataset>(std::move(table), fit, label);
  SNUG_RETURN_IF_ERROR(dataset->Check());
  for (std::string& note : dataset->Notes()) notes->push_back(std::move(note));
  return dataset;
}

}  // namespace

absl::StatusOr<CsvData> OpenCsv(const std::string& path, const CsvOptions& options) {
  std::optional<TableFit> kept;
  if (!options.learnt.empty()) {
    absl::StatusOr<TableFit> read = TableFit::FromJson(options.learnt);
    if (!read.ok()) return Annotate(read.status(), "what the checkpoint keeps of the training's table");
    kept = *std::move(read);
  }
  SNUG_ASSIGN_OR_RETURN(std::shared_ptr<const FileBytes> file, FileBytes::Open(path));
  SNUG_ASSIGN_OR_RETURN(Table table, ReadTable(*file, options, kept.has_value() ? &*kept : nullptr));
  CsvData opened;
  if (!kept.has_value()) {
    SNUG_ASSIGN_OR_RETURN(kept, FitFor(table, options));
    NoteConstants(table, *kept, &opened.notes);
  }
  const TableFit& fit = *kept;
  opened.lacks_labels = !table.has_label;
  if (opened.lacks_labels) {
    opened.notes.push_back(LabelsAreNotKnown(path, fit));
  }
  opened.learnt = fit.ToJson();
  opened.classes = fit.classes;
  opened.notes.insert(opened.notes.begin(), Summary(table, fit));
  // Labels were numbered as they came; classes are sorted.
  for (int32_t& label : table.labels) {
    if (fit.classes.empty()) break;
    if (label == kIgnoredLabel) continue;
    const std::string& text = table.classes[static_cast<size_t>(label)];
    label = static_cast<int32_t>(std::lower_bound(fit.classes.begin(), fit.classes.end(), text) - fit.classes.begin());
  }
  SNUG_ASSIGN_OR_RETURN(opened.training, MakeDataset(std::move(table), fit, options, &opened.notes));
  if (!options.test_file.empty() && opened.lacks_labels) {
    opened.notes.push_back(absl::StrCat(options.test_file, ": is not read: all rows of ", path, " are predicted"));
  } else if (!options.test_file.empty()) {
    SNUG_ASSIGN_OR_RETURN(file, FileBytes::Open(options.test_file));
    // A class that the training's table does not have may be more than the network tells apart.
    CsvOptions bounded = options;
    if (!options.regression) bounded.classes = opened.training->fields()[1].max_value;
    SNUG_ASSIGN_OR_RETURN(Table test, ReadTable(*file, bounded, &fit));
    opened.test_lacks_labels = !test.has_label;
    if (opened.test_lacks_labels) opened.notes.push_back(LabelsAreNotKnown(options.test_file, fit));
    SNUG_ASSIGN_OR_RETURN(opened.evaluation, MakeDataset(std::move(test), fit, bounded, &opened.notes));
  } else if (options.held_back != 0 && !opened.lacks_labels) {
    SNUG_RETURN_IF_ERROR(CheckParts(path, opened.training->size()));
    SNUG_ASSIGN_OR_RETURN(PartedDataset parted, HoldBack(opened.training, options.held_back, options.seed));
    opened.training = std::move(parted.training);
    opened.evaluation = std::move(parted.held_back);
  }
  return opened;
}

}  // namespace snug::core
