// Counts which class each row was taken for, and what follows from that.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace snug::core {

class Confusion {
 public:
  static constexpr int64_t kNone = -1;  // the prediction of a row whose scores are no numbers

  explicit Confusion(int64_t classes) : classes_(static_cast<size_t>(classes)) {}

  void Add(int64_t label, int64_t predicted);

  // The counts of one class. Shares of nothing are NaN.
  struct Class {
    int64_t samples = 0;    // rows with this label
    int64_t predicted = 0;  // rows that were taken for it
    int64_t right = 0;      // both

    double precision() const;  // of the rows that were taken for it, how many are of it
    double recall() const;     // of the rows that are of it, how many were taken for it
    double f1() const;         // the harmonic mean of both
    bool occurs() const { return samples > 0 || predicted > 0; }
  };
  const std::vector<Class>& classes() const { return classes_; }

  struct Cell {
    int64_t label = 0, predicted = 0, count = 0;
  };
  // Rows that were taken for another class or for none, the most frequent pairs first.
  std::vector<Cell> Confused() const;
  int64_t Count(int64_t label, int64_t predicted) const;

  int64_t rows() const { return rows_; }
  int64_t unpredicted() const { return unpredicted_; }  // rows with the prediction kNone, which are wrong
  double accuracy() const;

  // Means over the classes that have rows. One that nothing was taken for has no precision, and counts 0.
  struct Means {
    double precision = 0, recall = 0, f1 = 0;
  };
  Means means() const;

 private:
  int64_t Key(int64_t label, int64_t predicted) const {
    return label * (static_cast<int64_t>(classes_.size()) + 1) + predicted + 1;
  }

  std::vector<Class> classes_;
  std::unordered_map<int64_t, int64_t> confused_;  // by Key()
  int64_t rows_ = 0, right_ = 0, unpredicted_ = 0;
};

}  // namespace snug::core
