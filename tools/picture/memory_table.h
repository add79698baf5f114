// What many networks need by strategy, beside what PyTorch would: the table, what its rows say together, and its
// pictures, a self-contained page with a chart for each network and an SVG of what is saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace snug::core::cli {

struct PlannedBytes {
  std::string strategy;
  int64_t bytes = 0;
  int64_t lower_bound = 0;
  bool proven = false;
  double seconds = 0;  // that planning took
};

struct EagerBytes {
  int64_t order = 0;     // most that PyTorch's tensors have at once
  int64_t reserved = 0;  // what its allocator takes for them
};

struct MemoryTableRow {
  std::string network;
  int64_t batch = 0;  // 0: not known, for a graph of tasks
  std::string mode;   // "forward", "training"; "graph" for a graph of tasks
  std::vector<PlannedBytes> planned;
  std::optional<EagerBytes> pytorch;
  std::string pytorch_missing;  // why there is none

  const PlannedBytes* Find(const std::string& strategy) const;  // null: it was not asked for
  // The share of what PyTorch reserves that the strategy does without; nothing where either is missing.
  std::optional<double> SavedAgainstPyTorch(const std::string& strategy) const;
};

// What the rows of one mode and batch say together.
struct MemorySummary {
  std::string mode;
  int64_t batch = 0;
  int64_t networks = 0;  // with figures of both
  double saved = 0;      // the mean share that `best` saves of what PyTorch reserves
  double order = 0;      // the mean share that the peak of PyTorch's order is below what it reserves
  std::string least_saved_by;
  double least_saved = 0;
};
std::vector<MemorySummary> Summarize(const std::vector<MemoryTableRow>& rows);

// The mean share of PyTorch's memory that the paper OLLA says its eleven networks save in training; nothing for batches
// that it did not try.
std::optional<double> PublishedByOlla(int64_t batch);

struct MemoryTable {
  std::string about;  // where and how it was made, a line
  std::vector<MemoryTableRow> rows;
};

std::string MemoryTablePage(const MemoryTable& table);
// A bar for each network and batch in training: the share of what PyTorch reserves that `best` saves.
std::string SavingsSvg(const MemoryTable& table);

}  // namespace snug::core::cli
