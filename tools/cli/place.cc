// `snug place FILE` finds offsets for the buffers in a file, in a small arena.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/partial_plan.h"
#include "memory/problem.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/flags/planner_flags.h"

namespace snug::core::cli {
namespace {

using memory::Placement;
using memory::Problem;

constexpr int kOverCapacity = 3;

struct PlaceRequest {
  std::string file, strategy, write;
  memory::PlannerOptions options;
};

struct PlaceOutcome {
  std::vector<std::string> names;  // the buffers' names
  Placement placement;
  absl::Status verified;
  int64_t needed = 0;  // the largest load, or the bytes of the largest set of buffers that interfere
  double fragmentation() const {
    const int64_t total = placement.plan.arena_bytes;
    return total == 0 ? 0 : static_cast<double>(total - needed) / static_cast<double>(total);
  }
};

absl::StatusOr<PlaceOutcome> PlaceLifetimes(const PlaceRequest& request, const memory::Strategy& strategy,
                                            const Problem& problem) {
  PlaceOutcome outcome;
  for (const memory::Buffer& buffer : problem.buffers) outcome.names.push_back(buffer.name);
  const auto start = std::chrono::steady_clock::now();
  SNUG_ASSIGN_OR_RETURN(outcome.placement, strategy.place(problem, request.options));
  outcome.placement.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.verified = memory::Verify(problem, outcome.placement.plan);
  outcome.needed = memory::LowerBound(problem);
  return outcome;
}

// Places buffers that are used under a partial order.
absl::StatusOr<PlaceOutcome> PlaceUses(const PlaceRequest& request, const memory::Strategy& strategy,
                                       const memory::PartialProblem& problem) {
  PlaceOutcome outcome;
  for (const memory::PartialBuffer& buffer : problem.buffers) outcome.names.push_back(buffer.name);
  const auto start = std::chrono::steady_clock::now();
  SNUG_ASSIGN_OR_RETURN(outcome.placement, memory::PlaceUses(problem, strategy, request.options));
  outcome.placement.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.verified = memory::VerifyPartial(problem, outcome.placement.plan);
  const absl::StatusOr<memory::SerialForm> serial = memory::ToSerial(problem);
  outcome.needed = serial.ok() ? memory::LowerBound(serial->problem) : outcome.placement.report.lower_bound;
  return outcome;
}

absl::StatusOr<PlaceOutcome> PlaceFile(const PlaceRequest& request, const memory::Strategy& strategy) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, memory::ReadTextFile(request.file));
  if (memory::IsNnc(text)) {
    SNUG_ASSIGN_OR_RETURN(const memory::NncFile file, memory::ParseNnc(text, request.file));
    return PlaceUses(request, strategy, file.problem);
  }
  SNUG_ASSIGN_OR_RETURN(const Problem problem, memory::ParseCsv(text, request.file));
  return PlaceLifetimes(request, strategy, problem);
}

void PrintJson(const PlaceRequest& request, const PlaceOutcome& outcome) {
  const memory::SearchReport& report = outcome.placement.report;
  Json out;
  out.Object().Key("file").String(request.file).Key("strategy").String(request.strategy);
  out.Key("buffers").Number(static_cast<int64_t>(outcome.names.size()));
  if (request.options.capacity > 0) out.Key("capacity").Number(request.options.capacity);
  out.Key("total").Number(outcome.placement.plan.arena_bytes).Key("lower_bound").Number(report.lower_bound);
  out.Key("proven").Bool(report.proven).Key("verified").Bool(outcome.verified.ok());
  out.Key("fragmentation").Number(outcome.fragmentation());
  out.Key("seconds").Number(report.seconds).Key("work").Number(report.work);
  out.Key("reproducible").Bool(!report.clock_stopped).Key("notes").Array();
  for (const std::string& note : report.notes) out.String(note);
  out.End().Key("curve").Array();
  for (const memory::CurvePoint& point : report.curve) {
    out.Object().Key("seconds").Number(point.seconds).Key("total").Number(point.total);
    out.Key("lower_bound").Number(point.lower_bound).End();
  }
  out.End().End();
  std::puts(out.text().c_str());
}

void PrintText(const PlaceRequest& request, const PlaceOutcome& outcome) {
  const memory::SearchReport& report = outcome.placement.report;
  const int64_t total = outcome.placement.plan.arena_bytes;
  const double gap =
      total == 0 ? 0 : 100.0 * static_cast<double>(total - report.lower_bound) / static_cast<double>(total);
  absl::PrintF("%s: %d buffers, %s\n", request.file, outcome.names.size(), request.strategy);
  const int64_t over = request.options.capacity > 0 ? total - request.options.capacity : 0;
  absl::PrintF("total        %d%s\n", total, over > 0 ? absl::StrFormat(" (%d over --capacity)", over) : "");
  absl::PrintF("lower bound  %d (%s)\n", report.lower_bound,
               report.proven ? "the total is proven optimal" : absl::StrFormat("a gap of %.3f %%", gap));
  absl::PrintF("fragmentation  %.3f %%\n", 100 * outcome.fragmentation());
  absl::PrintF("verified     %s\n", outcome.verified.ok() ? "yes" : std::string(outcome.verified.message()));
  absl::PrintF("seconds      %.3f (work %d%s)\n", report.seconds, report.work,
               report.clock_stopped ? "; stopped by the clock: not reproducible" : "");
  for (const std::string& note : report.notes) absl::PrintF("search       %s\n", note);
}

}  // namespace

absl::StatusOr<int> RunPlace(const Arguments& arguments) {
  std::vector<std::string> names;
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (strategy.place != nullptr) names.emplace_back(strategy.name);
  }
  PlaceRequest request{.strategy = std::string(memory::kDefaultStrategy)};
  PlannerFlags planner;
  int64_t capacity = 0;
  bool json = false;
  Flags flags(
      "snug place FILE [flags]",
      "Gives the buffers of a file (id,lower,upper,size lines, or NNC's tensors and their uses; gzipped or not) "
      "offsets in the smallest arena, and verifies them.\nExit code 3: verified, but over --capacity.");
  flags.Add("memory", &request.strategy, absl::StrCat("strategy: ", absl::StrJoin(names, ", "), "; default: best"));
  flags.Add("capacity", &capacity, "bytes that are enough; default: as few as can be", 1);
  planner.AddTo(flags);
  planner.AddThreadsTo(flags);
  flags.Add("write", &request.write, "file to write id,offset lines to");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(request.file, flags.ParseOne(arguments, "a file of buffers"));
  SNUG_RETURN_IF_ERROR(CheckNotRead("write", request.write, {request.file}));
  SNUG_ASSIGN_OR_RETURN(const memory::Strategy* const strategy, memory::FindStrategy(request.strategy));
  SNUG_ASSIGN_OR_RETURN(request.options, planner.Options({{.strategy = request.strategy, .orders = false}}));
  request.options.capacity = capacity;
  SNUG_ASSIGN_OR_RETURN(const PlaceOutcome outcome, PlaceFile(request, *strategy));
  if (!outcome.verified.ok()) return absl::InternalError(outcome.verified.message());
  if (!request.write.empty()) {
    SNUG_RETURN_IF_ERROR(
        memory::WriteTextFile(request.write, memory::OffsetsCsv(outcome.names, outcome.placement.plan)));
  }
  if (json) {
    PrintJson(request, outcome);
  } else {
    PrintText(request, outcome);
  }
  const int64_t total = outcome.placement.plan.arena_bytes;
  return request.options.capacity > 0 && total > request.options.capacity ? kOverCapacity : 0;
}

}  // namespace snug::core::cli
