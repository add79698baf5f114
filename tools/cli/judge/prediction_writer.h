// Writes what a network says of each sample, a batch at a time, in one of several formats. What goes to a file appears
// there when all of it is there.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "engine/run/session/value_view.h"
#include "tools/cli/judge/class_names.h"

namespace snug::core::cli {

// What a row of class scores says.
struct ToldClass {
  int64_t best = -1;  // -1: the scores are no numbers
  double probability = 0;
};

struct PredictedSample {
  int64_t number = 0;
  std::string file;               // empty: the data have no names of samples
  std::vector<ValueView> values;  // one for each of PredictionTable::values, of this sample alone
  std::vector<ToldClass> told;    // one for each row of scores; empty where classes are not told
};

// What every sample has.
struct PredictionTable {
  struct Value {
    std::string name;
    ValueType type;  // of one sample
  };
  std::string checkpoint;
  int64_t samples = 0;
  std::vector<Value> values;
  bool files = false;     // whether samples have names
  int64_t told_rows = 0;  // rows of scores in a sample whose class is told; 0: none
  ClassNames names;
  std::vector<std::string> read;  // files that must not be overwritten
};

class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;

  virtual void Write(const PredictedSample& sample) = 0;
  // Must be called after each batch: fails when what was written did not arrive.
  virtual absl::Status EndBatch() = 0;
  virtual absl::Status Finish() = 0;
  // Where it all is, for the user; empty: on standard output.
  virtual std::string place() const = 0;
};

enum class PredictionFormat { kCsv, kNpy, kJsonLines, kDocument };

// `output` is a file, or empty for standard output. Of several values each has an npy file of its own: `out.npy` stands
// for out.NAME.npy.
absl::StatusOr<std::unique_ptr<PredictionWriter>> MakePredictionWriter(PredictionFormat format, PredictionTable table,
                                                                       const std::string& output);

}  // namespace snug::core::cli
