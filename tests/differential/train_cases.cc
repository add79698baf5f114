// What differential_test.py needs of the library, as a program:
//
//   train_cases CASES OUT [PASS...]
//
// trains every case of a file, and writes to a safetensors file what each has become: its parameters and statistics as
// SEED/NAME, and as SEED/curve/NAME what each objective and output was in the steps. Cases that fail are said on
// standard error, one line each, SEED first. PASS...: passes of the compiler that are left out.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/safetensors.h"
#include "tests/run/differential_case.h"

namespace snug::core::test {
namespace {

using checkpoint::TensorBytes;

TensorBytes AsTensor(std::string name, const std::vector<double>& values) {
  return {.name = std::move(name),
          .type = checkpoint::ElementType::kF64,
          .shape = {static_cast<int64_t>(values.size())},
          .bytes = {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(double)}};
}

absl::Status Main(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return absl::InvalidArgumentError("the arguments are at the top of train_cases.cc");
  std::ifstream file(arguments[0]);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  SNUG_ASSIGN_OR_RETURN(const std::vector<DifferentialCase> cases, ParseDifferentialCases(text));
  const CompileOptions options{.disabled_passes = {arguments.begin() + 2, arguments.end()}};
  std::vector<DifferentialRun> runs;
  runs.reserve(cases.size());
  std::vector<TensorBytes> tensors;
  for (const DifferentialCase& test : cases) {
    absl::StatusOr<DifferentialRun> run = Train(test, options);
    if (!run.ok()) {
      const std::string message = absl::StrReplaceAll(run.status().message(), {{"\n", "; "}});
      std::fprintf(stderr, "%s\n", absl::StrCat(test.seed, " ", message).c_str());
      continue;
    }
    runs.push_back(*std::move(run));
    for (const auto& [name, values] : runs.back().tensors) {
      tensors.push_back(AsTensor(absl::StrCat(test.seed, "/", name), values));
    }
    for (const auto& [name, values] : runs.back().curves) {
      tensors.push_back(AsTensor(absl::StrCat(test.seed, "/curve/", name), values));
    }
  }
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::WritableFile> out, files.Create(arguments[1]));
  SNUG_RETURN_IF_ERROR(WriteSafetensors(tensors, {}, *out));
  return out->Close();
}

}  // namespace
}  // namespace snug::core::test

int main(int argc, char** argv) {
  const absl::Status status = snug::core::test::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
