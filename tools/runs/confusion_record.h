// What the last evaluation of a training took for what (confusion.json of the run folder): rows of each class, and how
// often one was taken for another. Of many classes it has only those that are confused most, so that it stays small.
// Like run.json it says the same of the same training.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/run_folder.h"

namespace snug::core::runs {

struct ConfusionRecord {
  static constexpr size_t kMostClasses = 100;
  static constexpr int64_t kNone = -1;  // the prediction of a row whose scores are no numbers

  struct Class {
    int64_t number = 0;
    std::string name;
    int64_t rows = 0, predicted = 0, right = 0;  // rows with this label, rows taken for it, and both

    int64_t wrong() const { return rows + predicted - 2 * right; }
    bool operator==(const Class&) const = default;
  };
  struct Cell {
    int64_t label = 0, predicted = 0, count = 0;

    bool operator==(const Cell&) const = default;
  };

  int64_t step = 0;            // how many steps were done before the evaluation
  std::string missing;         // why classes are not told apart; nothing else is known then
  std::string scores, labels;  // the values that were judged
  // Over all classes: rows, those that were right, those that their label leaves out, those taken for none.
  int64_t rows = 0, right = 0, ignored = 0, unpredicted = 0;
  int64_t classes = 0, occurring = 0;  // how many there are, and how many of them have rows or were taken for
  std::vector<Class> each;             // some of those that occur, ascending
  std::vector<Cell> confusions;        // of these, the most frequent first; none is of a class with itself

  // Leaves the classes that are confused most, if there are more than kMostClasses, and what is between them.
  void KeepMostConfused();

  std::string ToJson() const;
  // What it does not know is passed over. The error says what was expected, and where.
  static absl::StatusOr<ConfusionRecord> Parse(absl::string_view json);

  absl::Status WriteTo(const RunFolder& folder) const;
  // NotFound where there is no such file.
  static absl::StatusOr<ConfusionRecord> ReadFrom(const RunFolder& folder);
};

}  // namespace snug::core::runs
