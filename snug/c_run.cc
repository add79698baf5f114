// Functions of snug/c.h about plans, stopping, and samples picked out of many.
#include "snug/internal/c_handles.h"
#include "snug/internal/convert.h"

using namespace snug::c_api;

namespace {

using snug::Result;
using snug::Status;

// Copies the rows that are asked for into the input, one behind the other.
Status FeedRows(snug::Program& program, const char* name, const void* numbers, int64_t row_count, snug::DType dtype,
                const int64_t* rows) {
  const Result<snug::Tensor> type = program.InputType(name);
  if (!type.ok()) return type.status();
  if (type->shape.empty() || type->shape[0] != program.batch()) {
    return Invalid(std::string("input \"") + name + "\": expected one that has a row for each sample");
  }
  const int64_t batch = program.batch();
  for (int64_t i = 0; i < batch; ++i) {
    if (rows[i] >= 0 && rows[i] < row_count) continue;
    return Invalid(std::string("input \"") + name + "\": expected rows 0 to " + std::to_string(row_count - 1) +
                   ", found " + std::to_string(rows[i]));
  }
  const Result<snug::Tensor> input = program.Input(name);
  if (!input.ok()) return input.status();
  const int64_t row = input->num_elements() / batch;
  const auto* const from = static_cast<const std::byte*>(numbers);
  auto* const to = static_cast<std::byte*>(input->data);
  for (int64_t i = 0; i < batch; ++i) {
    const snug::Numbers picked(from + rows[i] * row * snug::SizeOf(dtype), row, dtype);
    SNUG_EMBED_RETURN_IF_ERROR(snug::embed::ConvertElements(name, picked, snug::embed::ToEngine(input->dtype),
                                                            to + i * row * snug::SizeOf(input->dtype)));
  }
  return {};
}

}  // namespace

snug_error* snug_plan_report(const snug_network* network, const snug_options* options, char** json) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"network", network}, {"json", json}}); !given.ok()) return given;
    const Result<std::string> report = snug::Session::PlanReport(network->network, OptionsOf(options));
    if (!report.ok()) return report.status();
    *json = CopyOf(*report);
    return {};
  });
}

snug_error* snug_strategies(snug_names** quick, snug_names** slow) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"quick", quick}, {"slow", slow}}); !given.ok()) return given;
    snug_names* first = nullptr;
    if (Status status = GiveNames(snug::Session::Strategies(false), &first); !status.ok()) return status;
    if (Status status = GiveNames(snug::Session::Strategies(true), slow); !status.ok()) {
      snug_names_free(first);
      return status;
    }
    *quick = first;
    return {};
  });
}

snug_error* snug_feed_rows(snug_session* session, snug_program program, const char* name, const void* numbers,
                           int64_t row_count, snug_dtype dtype, const int64_t* rows) {
  return WithProgram(session, program, {{"name", name}, {"numbers", numbers}, {"rows", rows}},
                     [&](snug::Program& p) -> Status {
                       const Result<snug::DType> type = DTypeFrom(dtype);
                       return type.ok() ? FeedRows(p, name, numbers, row_count, *type, rows) : type.status();
                     });
}

void snug_stop(snug_session* session, int stop) {
  if (session != nullptr) session->session->Stop(stop != 0);
}

snug_error* snug_input_type(snug_session* session, snug_program program, const char* name, snug_tensor* tensor) {
  return WithProgram(session, program, {{"name", name}, {"tensor", tensor}},
                     [&](snug::Program& p) { return GiveTensor(p.InputType(name), tensor); });
}

snug_error* snug_output_type(snug_session* session, snug_program program, const char* name, snug_tensor* tensor) {
  return WithProgram(session, program, {{"name", name}, {"tensor", tensor}},
                     [&](snug::Program& p) { return GiveTensor(p.OutputType(name), tensor); });
}

snug_error* snug_parameters(snug_session* session, snug_names** names) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"names", names}}); !given.ok()) return given;
    const Result<std::vector<snug::Variable>> variables = session->session->variables();
    if (!variables.ok()) return variables.status();
    std::vector<std::string> found;
    for (const snug::Variable& variable : *variables) {
      if (variable.parameter) found.push_back(variable.name);
    }
    return GiveNames(std::move(found), names);
  });
}
