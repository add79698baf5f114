// Gradients of tables as lists of rows. Where embeddings alone read a parameter, most rows of its gradient are zero. It
// is then never made as an array of the parameter's shape, but as the rows that were looked up and the sums of what
// comes back to them, and an update changes these rows alone (ops/optim/update_rows.cc).
//
// That is done by itself where it gives the same bits as the whole gradient: by optimizers to which a gradient of zero
// means that nothing changes. With others it is another algorithm, as torch.optim.SparseAdam is, for which a table has
// to be named (SparseTables). What it becomes, and why, is told of every table (TableGradient).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/device.h"
#include "engine/graph/graph.h"
#include "ops/graph_builder.h"
#include "proto/option_places.h"

namespace snug::proto {
class Optimizer;
}

namespace snug::core {
class Json;

// What the user says about tables. Patterns (engine/base/text/glob.h) of names of parameters: those that one matches
// have lists of rows, or the compile fails and says why not; those that one behind a "!" matches have whole gradients.
struct SparseTables {
  std::vector<std::string> patterns;
  OptionPlaces places;
};

// What became of a trained parameter that an embedding reads.
struct TableGradient {
  std::string table;
  bool rows = false;  // whether its gradient is a list of rows
  bool exact = true;  // whether the update of these gives the bits of the whole gradient
  int64_t entries = 0;
  int64_t most_rows = 0;  // that a step changes: one for each integer that is looked up
  std::string why;        // if it is whole
};

// A line for each table, for people. Empty without tables.
std::string TablesText(const std::vector<TableGradient>& tables);
// Writes "tables": [...].
void WriteTables(const std::vector<TableGradient>& tables, Json& json);

// A list of rows: values of the graph.
struct RowList {
  ValueId numbers, rows;
};

struct RowGradientOptions {
  Device device;
  int64_t micro_batches = 1;
  SparseTables tables;
};

// Decides for all tables, adds nodes that make the lists in the place of those that made whole gradients, and lets
// embeddings look up a table itself where they looked up a cast of it. `gradients` is the result of AddBackward.
// Returns the lists by parameter; the gradients of these parameters do not exist any more.
absl::StatusOr<std::unordered_map<ValueId, RowList>> MakeRowGradients(
    GraphBuilder& builder, const proto::Optimizer& optimizer, const std::unordered_map<ValueId, ValueId>& gradients,
    const RowGradientOptions& options, std::vector<TableGradient>* tables);

}  // namespace snug::core
