// `snug compare RUN_FOLDER...` puts several trainings beside each other: a table in the terminal, and a page with their
// curves over each other.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/output_file.h"
#include "engine/base/text/printable.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/runs/comparison.h"

namespace snug::core::cli {
namespace {

// "runs/mlp/" and "runs/mlp/metrics.jsonl" are both "runs/mlp".
std::string FolderOf(std::string path) {
  const std::filesystem::path given(path);
  if (given.filename() == "metrics.jsonl") path = given.has_parent_path() ? given.parent_path().string() : ".";
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Reads a run. NotFound where nothing is there that could have been trained; other errors are those of a file.
absl::StatusOr<std::unique_ptr<const runs::RunFollower>> ReadRun(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": there is no such folder"));
  }
  auto run = std::make_unique<runs::RunFollower>(RunFolder(path));
  run->PollToTheEnd();
  if (!run->problem().empty() && S_ISDIR(found.st_mode)) return absl::UnavailableError(run->problem());
  if (run->lines() == 0) {
    return absl::NotFoundError(absl::StrCat(path, run->unreadable_lines() > 0
                                                      ? ": no line of its metrics.jsonl can be read"
                                                      : ": no training has left metrics here"));
  }
  return run;
}

// What a folder is called: "runs/mlp/." is "mlp", and so is "." within it.
std::string LastNameOf(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed).lexically_normal();
  const std::filesystem::path folder = whole.has_filename() ? whole : whole.parent_path();
  return failed || !folder.has_filename() ? path : folder.filename().string();
}

void NameThem(std::vector<ComparedRun>* runs) {
  std::map<std::string, int> count;
  for (const ComparedRun& one : *runs) ++count[LastNameOf(one.run->folder().path())];
  for (ComparedRun& one : *runs) {
    const std::string last = LastNameOf(one.run->folder().path());
    one.name = Printable(count[last] == 1 ? last : one.run->folder().path());
  }
}

}  // namespace

absl::StatusOr<int> RunCompare(const Arguments& arguments) {
  std::string html = "compare.html";
  bool json = false;
  Flags flags("snug compare RUN_FOLDER... [flags]",
              "Compares trainings by what they left (runs/*): a table of what each reached, the options in which they\n"
              "differ, and a page of its own with their curves over each other.");
  flags.Add("html", &html, "file for the page; default compare.html");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const Arguments paths, flags.Parse(arguments));
  if (paths.empty()) {
    return absl::InvalidArgumentError("expected run folders, as in `snug compare runs/*`, found none");
  }
  std::vector<ComparedRun> compared;
  for (const std::string& given : paths) {
    const std::string path = FolderOf(given);
    absl::StatusOr<std::unique_ptr<const runs::RunFollower>> run = ReadRun(path);
    if (absl::IsNotFound(run.status())) {  // a pattern as runs/* finds whatever is there
      std::fprintf(stderr, "warning: %s; it is left out\n", Printable(run.status().message()).c_str());
      continue;
    }
    SNUG_RETURN_IF_ERROR(run.status());
    if ((*run)->unreadable_lines() > 0) {
      const int64_t lines = (*run)->unreadable_lines();
      absl::FPrintF(stderr, "warning: %s: %d %s\n", Printable((*run)->folder().metrics()), lines,
                    lines == 1 ? "line cannot be read and is left out" : "lines cannot be read and are left out");
    }
    if (!(*run)->record_problem().empty()) {
      absl::FPrintF(stderr, "warning: %s: the options, the memory and the end of this training are not known\n",
                    Printable((*run)->record_problem()));
    }
    compared.push_back({.name = "", .run = *std::move(run)});
  }
  for (const ComparedRun& one : compared) {
    const RunFolder& folder = one.run->folder();
    SNUG_RETURN_IF_ERROR(CheckNotRead("html", html, {folder.metrics(), folder.record(), folder.confusion()}));
  }
  if (compared.empty()) return absl::InvalidArgumentError("none of these is a folder that a training has left");
  NameThem(&compared);
  const Comparison comparison(std::move(compared));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(html));
  file->Write(comparison.ToPage());
  SNUG_RETURN_IF_ERROR(file->Finish());
  if (json) {
    std::puts(comparison.ToJson(html).c_str());
  } else {
    absl::PrintF("%s\nthe page is in %s\n", comparison.ToText(), html);
  }
  return 0;
}

}  // namespace snug::core::cli
