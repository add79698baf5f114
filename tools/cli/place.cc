// `snug place FILE`: offsets for the buffers of a file, in the smallest arena.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "engine/base/status.h"
#include "memory/formats/csv.h"
#include "memory/formats/text_file.h"
#include "memory/lower_bound.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tools/cli/command.h"
#include "tools/cli/flags.h"
#include "tools/cli/json.h"

namespace snug::cli {
namespace {

using memory::Placement;
using memory::Problem;

constexpr int kOverCapacity = 3;

struct Request {
  std::string file, strategy, write;
  memory::PlannerOptions options;
};

struct Outcome {
  Placement placement;
  absl::Status verified;
  double fragmentation = 0;  // what the arena has beyond the largest load
};

absl::StatusOr<Problem> ReadProblem(const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, memory::ReadTextFile(path));
  return memory::ParseCsv(text, path);
}

// A reader of `path` never sees half a file.
absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".partial";
  SNUG_RETURN_IF_ERROR(memory::WriteTextFile(temporary, text));
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!error) return absl::OkStatus();
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", error.message()));
}

void PrintJson(const Request& request, const Problem& problem, const Outcome& outcome) {
  const memory::SearchReport& report = outcome.placement.report;
  Json out;
  out.Object().Key("file").String(request.file).Key("strategy").String(request.strategy);
  out.Key("buffers").Number(static_cast<int64_t>(problem.buffers.size()));
  if (request.options.capacity > 0) out.Key("capacity").Number(request.options.capacity);
  out.Key("total").Number(outcome.placement.plan.arena_bytes).Key("lower_bound").Number(report.lower_bound);
  out.Key("proven").Bool(report.proven).Key("verified").Bool(outcome.verified.ok());
  out.Key("fragmentation").Number(outcome.fragmentation);
  out.Key("seconds").Number(report.seconds).Key("work").Number(report.work);
  out.Key("reproducible").Bool(!report.clock_stopped).Key("curve").Array();
  for (const memory::CurvePoint& point : report.curve) {
    out.Object().Key("seconds").Number(point.seconds).Key("total").Number(point.total);
    out.Key("lower_bound").Number(point.lower_bound).End();
  }
  out.End().End();
  std::puts(out.text().c_str());
}

void PrintText(const Request& request, const Problem& problem, const Outcome& outcome) {
  const memory::SearchReport& report = outcome.placement.report;
  const int64_t total = outcome.placement.plan.arena_bytes;
  const double gap =
      total == 0 ? 0 : 100.0 * static_cast<double>(total - report.lower_bound) / static_cast<double>(total);
  absl::PrintF("%s: %d buffers, %s\n", request.file, problem.buffers.size(), request.strategy);
  absl::PrintF("total        %d\n", total);
  absl::PrintF("lower bound  %d (%s)\n", report.lower_bound,
               report.proven ? "the total is proven optimal" : absl::StrFormat("a gap of %.3f %%", gap));
  absl::PrintF("fragmentation  %.3f %%\n", 100 * outcome.fragmentation);
  absl::PrintF("verified     %s\n", outcome.verified.ok() ? "yes" : std::string(outcome.verified.message()));
  absl::PrintF("seconds      %.3f (work %d%s)\n", report.seconds, report.work,
               report.clock_stopped ? "; stopped by the clock: not reproducible" : "");
}

}  // namespace

absl::StatusOr<int> RunPlace(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (strategy.place != nullptr) names.emplace_back(strategy.name);
  }
  Request request{.strategy = std::string(memory::kDefaultStrategy)};
  int64_t threads = 0;
  bool json = false;
  Flags flags("snug place FILE [flags]",
              "Gives the buffers of a file (id,lower,upper,size lines; gzipped or not) offsets in the smallest arena, "
              "and verifies them.\nExit code 3: verified, but over --capacity.");
  flags.Add("memory", &request.strategy, absl::StrCat("strategy: ", absl::StrJoin(names, ", "), "; default: best"));
  flags.Add("capacity", &request.options.capacity, "bytes that are enough; default: as few as can be", 1);
  flags.Add("work-limit", &request.options.work_limit, "steps of search, the same on every machine; default: its own",
            1);
  flags.Add("time-limit", &request.options.time_limit, "seconds; the result is then not reproducible; default: none");
  flags.Add("threads", &threads, "threads of the search, which do not change its result; default: every processor", 1);
  flags.Add("write", &request.write, "file to write id,offset lines to");
  flags.Add("json", &json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(request.file, flags.ParseOne(arguments, "a file of buffers"));
  if (request.options.time_limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--time-limit: expected at least 0, found ", request.options.time_limit));
  }
  request.options.threads = static_cast<int>(threads == 0 ? DefaultThreads() : threads);
  SNUG_ASSIGN_OR_RETURN(const memory::Strategy* const strategy, memory::FindStrategy(request.strategy));
  SNUG_ASSIGN_OR_RETURN(const Problem problem, ReadProblem(request.file));

  Outcome outcome;
  SNUG_ASSIGN_OR_RETURN(outcome.placement, strategy->place(problem, request.options));
  outcome.verified = memory::Verify(problem, outcome.placement.plan);
  const int64_t total = outcome.placement.plan.arena_bytes;
  if (total > 0) {
    outcome.fragmentation = static_cast<double>(total - memory::LowerBound(problem)) / static_cast<double>(total);
  }
  if (json) {
    PrintJson(request, problem, outcome);
  } else {
    PrintText(request, problem, outcome);
  }
  if (!outcome.verified.ok()) return absl::InternalError(outcome.verified.message());
  if (!request.write.empty()) {
    SNUG_RETURN_IF_ERROR(WriteWhole(request.write, memory::OffsetsCsv(problem, outcome.placement.plan)));
  }
  return request.options.capacity > 0 && total > request.options.capacity ? kOverCapacity : 0;
}

}  // namespace snug::cli
