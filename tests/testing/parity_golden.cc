#include "tests/testing/parity_golden.h"

#include <absl/status/status.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <fstream>
#include <iterator>

#include "engine/base/random.h"
#include "engine/base/status.h"

namespace snug::core::test {
namespace {

using Fields = std::vector<absl::string_view>;

uint64_t Fnv1a(absl::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

absl::StatusOr<double> ParseNumber(absl::string_view field) {
  double number = 0;
  if (!absl::SimpleAtod(field, &number)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a number, found \"", field, "\""));
  }
  return number;
}

absl::StatusOr<std::vector<double>> ParseNumbers(absl::Span<const absl::string_view> fields) {
  std::vector<double> numbers;
  for (const absl::string_view field : fields) {
    SNUG_ASSIGN_OR_RETURN(const double number, ParseNumber(field));
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<GoldenChange> ParseChange(absl::Span<const absl::string_view> fields) {
  if (fields.size() < 3) return absl::InvalidArgumentError("expected a layer, an option and numbers");
  GoldenChange change = {.layer = std::string(fields[0]), .option = std::string(fields[1])};
  for (const absl::string_view field : fields.subspan(2)) {
    if (!absl::SimpleAtoi(field, &change.numbers.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("expected a whole number, found \"", field, "\""));
    }
  }
  return change;
}

absl::Status ParseLine(const Fields& fields, ParityGolden* golden) {
  const absl::string_view keyword = fields[0];
  const auto rest = absl::MakeConstSpan(fields).subspan(1);
  if (rest.empty()) return absl::InvalidArgumentError("expected fields after the keyword");
  if (keyword == "batch" || keyword == "learning_rate" || keyword == "momentum" || keyword == "beta1") {
    SNUG_ASSIGN_OR_RETURN(const double number, ParseNumber(rest[0]));
    if (keyword == "batch") golden->batch = static_cast<int64_t>(number);
    if (keyword == "learning_rate") golden->learning_rate = number;
    if (keyword == "momentum") golden->momentum = number;
    if (keyword == "beta1") golden->beta1 = number;
    return absl::OkStatus();
  }
  if (keyword == "set") {
    SNUG_ASSIGN_OR_RETURN(golden->changes.emplace_back(), ParseChange(rest));
    return absl::OkStatus();
  }
  if (keyword == "input" || keyword == "parameter") {
    SNUG_ASSIGN_OR_RETURN(GoldenTensor tensor, ParseGoldenTensor(rest));
    (keyword == "input" ? golden->inputs : golden->parameters).push_back(std::move(tensor));
    return absl::OkStatus();
  }
  const std::vector<absl::string_view> run = absl::StrSplit(keyword, absl::MaxSplits(':', 1));
  if (keyword != "double" && (run[0] != "float" || run.size() != 2)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown keyword \"", keyword, "\""));
  }
  GoldenCurve& curve = keyword == "double" ? golden->in_double : golden->in_float[std::string(run[1])];
  if (rest[0] != "loss" && rest[0] != "grad_norm") {
    return absl::InvalidArgumentError(absl::StrCat("expected loss or grad_norm, found \"", rest[0], "\""));
  }
  SNUG_ASSIGN_OR_RETURN((rest[0] == "loss" ? curve.losses : curve.gradient_norms), ParseNumbers(rest.subspan(1)));
  return absl::OkStatus();
}

}  // namespace

std::vector<double> GoldenTensor::Values() const {
  std::vector<double> values(static_cast<size_t>(shape.num_elements()));
  const uint64_t key = Fnv1a(name);
  for (size_t i = 0; i < values.size(); ++i) {
    switch (kind) {
      case Kind::kUniform:
        values[i] = static_cast<double>(static_cast<int64_t>(MixKeys(key, i) >> 40) - (1 << 23)) * 0x1p-23 * number;
        break;
      case Kind::kConstant:
        values[i] = number;
        break;
      case Kind::kClass:
        values[i] = static_cast<double>((MixKeys(key, i) >> 33) % static_cast<uint64_t>(number));
        break;
    }
  }
  return values;
}

absl::StatusOr<GoldenTensor> ParseGoldenTensor(absl::Span<const absl::string_view> fields) {
  if (fields.size() < 3) return absl::InvalidArgumentError("expected a name, a kind, a number and dimensions");
  GoldenTensor tensor;
  tensor.name = std::string(fields[0]);
  if (fields[1] == "uniform") {
    tensor.kind = GoldenTensor::Kind::kUniform;
  } else if (fields[1] == "constant") {
    tensor.kind = GoldenTensor::Kind::kConstant;
  } else if (fields[1] == "class") {
    tensor.kind = GoldenTensor::Kind::kClass;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("expected uniform, constant or class, found \"", fields[1], "\""));
  }
  SNUG_ASSIGN_OR_RETURN(tensor.number, ParseNumber(fields[2]));
  std::vector<int64_t> dims;
  for (const absl::string_view field : fields.subspan(3)) {
    dims.push_back(0);
    if (!absl::SimpleAtoi(field, &dims.back())) {
      return absl::InvalidArgumentError(absl::StrCat("expected a dimension, found \"", field, "\""));
    }
  }
  SNUG_ASSIGN_OR_RETURN(tensor.shape, MakeShape(dims));
  return tensor;
}

absl::StatusOr<ParityGolden> ParseParityGolden(const std::string& text) {
  ParityGolden golden;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const Fields fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.empty() || fields[0][0] == '#') continue;
    SNUG_RETURN_IF_ERROR(Annotate(ParseLine(fields, &golden), absl::StrCat(number)));
  }
  return golden;
}

absl::StatusOr<ParityGolden> ReadParityGolden(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  absl::StatusOr<ParityGolden> golden = ParseParityGolden(text);
  if (!golden.ok()) return Annotate(golden.status(), path);
  return golden;
}

}  // namespace snug::core::test
