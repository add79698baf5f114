#include "tests/run/differential_case.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/session.h"
#include "proto/text_loader.h"

namespace snug::core::test {
namespace {

constexpr int kSteps = 3;

using Fields = std::vector<absl::string_view>;

absl::StatusOr<DifferentialCase::Tensor> ParseTensor(int64_t seed, const Fields& fields) {
  SNUG_ASSIGN_OR_RETURN(GoldenTensor golden, ParseGoldenTensor(absl::MakeConstSpan(fields).subspan(1)));
  std::string name = golden.name;
  golden.name = absl::StrCat(seed, ":", name);
  return DifferentialCase::Tensor{std::move(name), std::move(golden)};
}

absl::StatusOr<std::vector<double>> ParseNumbers(const Fields& fields, size_t begin, size_t count) {
  if (fields.size() != begin + count) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", begin + count, " fields, found ", fields.size()));
  }
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleAtod(fields[begin + i], &numbers[i])) {
      return absl::InvalidArgumentError(absl::StrCat("expected a number, found \"", fields[begin + i], "\""));
    }
  }
  return numbers;
}

// A line outside a network.
absl::Status ParseLine(const Fields& fields, std::vector<DifferentialCase>* cases) {
  if (fields[0] == "case") {
    cases->emplace_back();
    if (fields.size() == 2 && absl::SimpleAtoi(fields[1], &cases->back().seed)) return absl::OkStatus();
    return absl::InvalidArgumentError("expected a seed");
  }
  if (cases->empty()) return absl::InvalidArgumentError("expected a case");
  DifferentialCase& test = cases->back();
  if (fields[0] == "parameter" || fields[0] == "feed") {
    SNUG_ASSIGN_OR_RETURN(DifferentialCase::Tensor tensor, ParseTensor(test.seed, fields));
    (fields[0] == "feed" ? test.feeds : test.parameters).push_back(std::move(tensor));
    return absl::OkStatus();
  }
  if (fields[0] == "curve") {
    SNUG_ASSIGN_OR_RETURN(test.curves[std::string(fields.at(1))], ParseNumbers(fields, 2, kSteps));
    return absl::OkStatus();
  }
  if (fields[0] == "after") {
    SNUG_ASSIGN_OR_RETURN(const std::vector<double> numbers, ParseNumbers(fields, 2, 2));
    test.digests[std::string(fields.at(1))] = {.sum = numbers[0], .product = numbers[1]};
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown keyword \"", fields[0], "\""));
}

}  // namespace

absl::StatusOr<std::vector<DifferentialCase>> ParseDifferentialCases(const std::string& text) {
  std::vector<DifferentialCase> cases;
  int number = 0;
  bool in_network = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const Fields fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (in_network) {
      in_network = line != "end";
      if (in_network) absl::StrAppend(&cases.back().network, line, "\n");
    } else if (line == "network" && !cases.empty()) {
      in_network = true;
    } else if (!fields.empty() && fields[0][0] != '#') {
      SNUG_RETURN_IF_ERROR(Annotate(ParseLine(fields, &cases), absl::StrCat(number)));
    }
  }
  return cases;
}

absl::StatusOr<DifferentialRun> Train(const DifferentialCase& test, CompileOptions options) {
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkText(test.network, absl::StrCat("case ", test.seed)));
  options.precision = DType::kFloat64;
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(compiled), {}));
  for (const DifferentialCase::Tensor& tensor : test.parameters) {
    SNUG_RETURN_IF_ERROR(session->SetVariable(tensor.name, tensor.golden.Values()));
  }
  DifferentialRun run;
  for (int step = 0; step < kSteps; ++step) {
    for (const DifferentialCase::Tensor& tensor : test.feeds) {
      // What nothing reads is no input of the program any more.
      if (!session->Input(tensor.name).ok()) continue;
      GoldenTensor golden = tensor.golden;
      absl::StrAppend(&golden.name, ":", step);
      SNUG_RETURN_IF_ERROR(session->Feed(tensor.name, golden.Values()));
    }
    SNUG_RETURN_IF_ERROR(session->Run());
    for (const auto* names : {&loaded.network.objective(), &loaded.network.output()}) {
      for (const std::string& name : *names) {
        SNUG_ASSIGN_OR_RETURN(run.curves[name].emplace_back(), session->FetchScalar(name));
      }
    }
  }
  for (const Variable& variable : session->compiled().graph.variables()) {
    if (variable.role != VariableRole::kParameter && variable.role != VariableRole::kStatistic) continue;
    SNUG_ASSIGN_OR_RETURN(run.tensors[variable.name], session->GetVariable(variable.name));
  }
  return run;
}

DifferentialCase::Digest DigestOf(const DifferentialCase& test, const std::string& name,
                                  const std::vector<double>& values) {
  const GoldenTensor factors{.name = absl::StrCat(test.seed, ":", name, ":factors"),
                             .kind = GoldenTensor::Kind::kUniform,
                             .number = 1,
                             .shape = {static_cast<int64_t>(values.size())}};
  const std::vector<double> factor = factors.Values();
  DifferentialCase::Digest digest;
  for (size_t i = 0; i < values.size(); ++i) {
    digest.sum += values[i];
    digest.product += values[i] * factor[i];
  }
  return digest;
}

}  // namespace snug::core::test
