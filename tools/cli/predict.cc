// `snug predict NET --checkpoint=... --fetch=NAME` prints what trained parameters say of each sample, as a table.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "tools/cli/command.h"
#include "tools/cli/inference.h"

namespace snug::core::cli {
namespace {

struct Table {
  int64_t columns = 0;
  std::vector<double> values;  // row after row

  int64_t rows() const { return columns == 0 ? 0 : static_cast<int64_t>(values.size()) / columns; }
};

// Appends the rows of one batch.
absl::Status AppendRows(Program& program, const std::string& name, int64_t valid, Table* table) {
  SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Output(name));
  const int64_t batch = program.compiled().batch;
  if (view.type->shape.rank() == 0 || view.type->shape[0] != batch) {
    return absl::InvalidArgumentError(absl::StrCat("--fetch=", name, ": ", view.type->ToString(),
                                                   " has no row for each sample; `snug eval` prints such means"));
  }
  const std::vector<double> values = LoadNumbers(view);
  table->columns = static_cast<int64_t>(values.size()) / batch;
  table->values.insert(table->values.end(), values.begin(), values.begin() + valid * table->columns);
  return absl::OkStatus();
}

std::string Csv(const std::string& name, const Table& table) {
  std::string text = "sample";
  for (int64_t c = 0; c < table.columns; ++c) {
    absl::StrAppend(&text, ",", name, table.columns > 1 ? absl::StrCat("[", c, "]") : "");
  }
  for (size_t i = 0; i < table.values.size(); ++i) {
    const auto [row, column] = std::div(static_cast<int64_t>(i), table.columns);
    if (column == 0) absl::StrAppend(&text, "\n", row);
    absl::StrAppendFormat(&text, ",%.9g", table.values[i]);
  }
  return text + "\n";
}

std::string JsonOf(const std::string& checkpoint, const std::string& name, const Table& table) {
  Json json;
  json.Object().Key("checkpoint").String(checkpoint).Key("fetch").String(name).Key("rows").Array();
  for (int64_t row = 0; row < table.rows(); ++row) {
    json.Array();
    for (int64_t c = 0; c < table.columns; ++c) json.Number(table.values[static_cast<size_t>(row * table.columns + c)]);
    json.End();
  }
  json.End().End();
  return json.text() + "\n";
}

}  // namespace

absl::StatusOr<int> RunPredict(const Arguments& arguments) {
  InferenceFlags f;
  std::string fetch, output;
  bool json = false;
  Flags flags("snug predict NET --checkpoint=PATH --fetch=NAME [flags]",
              "Runs trained parameters over data and writes a value of the network for each sample, as a table with\n"
              "commas: a row a sample, in the sequence of the data.");
  f.AddTo(flags);
  flags.Add("fetch", &fetch, "the value: a layer's name, as the last one before the loss");
  flags.Add("output", &output, "file for the table; default: standard output");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (fetch.empty()) return absl::InvalidArgumentError("--fetch: expected the name of a layer whose output is wanted");
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> inference, PrepareInference(file, f, {fetch}));
  Table table;
  SNUG_RETURN_IF_ERROR(
      inference->evaluator
          ->Run(f.batches, [&](Program& program, int64_t valid) { return AppendRows(program, fetch, valid, &table); })
          .status());
  const std::string text = json ? JsonOf(inference->checkpoint, fetch, table) : Csv(fetch, table);
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> out, OutputFile::Create(output));
  out->Write(text);
  SNUG_RETURN_IF_ERROR(out->Finish());
  std::fprintf(json ? stderr : stdout, "%lld rows in %s\n", static_cast<long long>(table.rows()), output.c_str());
  return 0;
}

}  // namespace snug::core::cli
