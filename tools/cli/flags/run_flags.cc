#include "tools/cli/flags/run_flags.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

#include "engine/base/status.h"
#include "tools/cli/command.h"

namespace snug::core::cli {
namespace {

// A stuck kernel cannot be stopped from outside, and may hold whatever a proper exit would need, such as locks and
// buffers. So the watchdog ends the process at once.
absl::StatusOr<WatchdogOptions> WatchdogOf(const RunFlags& flags) {
  if (flags.watchdog < 0 || (flags.watchdog == 0 && flags.watchdog_abort)) {
    return absl::InvalidArgumentError(absl::StrCat("--watchdog: expected seconds",
                                                   flags.watchdog_abort ? " for --watchdog-abort" : "", ", found ",
                                                   flags.watchdog));
  }
  WatchdogOptions options{.seconds = flags.watchdog};
  if (flags.watchdog_abort) {
    options.report = [](const std::string& report) {
      std::fputs(report.c_str(), stderr);
      std::fputs("watchdog: the program ends here (--watchdog-abort)\n", stderr);
      std::_Exit(kStuck);
    };
  }
  return options;
}

// Says each line only once, because a command may make several sessions with the same fallbacks.
Fallbacks::Report SayOnce() {
  return [said = std::make_shared<std::set<std::string>>()](const std::string& line) {
    if (said->insert(line).second) std::fprintf(stderr, "%s\n", line.c_str());
  };
}

}  // namespace

void RunFlags::AddTo(Flags& flags) {
  flags.Add(
      "engine", &engine,
      "replay (the waits worked out beforehand; default), serial (one op after the other) or dynamic (through the "
      "dependency engine); --check-access and --memory=dynamic take serial");
  flags.Add(
      "cuda-graph", "on|off",
      "on a GPU: a step is recorded once and launched as one CUDA graph (default), or asked for op by op",
      [this](const std::string& value) -> absl::Status {
        cuda_graph = value;
        if (value == "on" || value == "off") return absl::OkStatus();
        return absl::InvalidArgumentError(absl::StrCat("--cuda-graph: expected on or off, found \"", value, "\""));
      });
  flags.Add("strict-kernels", &strict_kernels,
            "a node that a library's kernel is expected to serve, and does not, is an error; default: our own kernel "
            "serves, more slowly, and standard error says so");
  flags.Add("watchdog", &watchdog,
            "say on standard error what each stream runs or waits for when no op has finished for so many seconds, and "
            "again after twice as many; default 0: off");
  flags.Add("watchdog-abort", &watchdog_abort, "the watchdog's first report ends the program, with exit code 5");
  flags.Add("check-access", &check_access,
            "debugging, slow: an op that touches bytes outside of what it declares is named; serial, with one thread");
}

absl::StatusOr<SessionOptions> RunFlags::Options(bool threads_given, CompileOptions* compile) const {
  SessionOptions options;
  options.check_access = check_access;
  options.fallbacks = SayOnce();
  options.strict_kernels = strict_kernels;
  options.cuda_graph = cuda_graph == "on";
  if (!engine.empty()) {
    SNUG_ASSIGN_OR_RETURN(options.engine, ParseExecutor(engine));
  } else if (check_access) {
    options.engine = ExecutorKind::kSerial;
  }
  if (check_access && !threads_given) compile->threads = 1;
  SNUG_ASSIGN_OR_RETURN(options.watchdog, WatchdogOf(*this));
  return options;
}

void AddDeviceFlag(Flags& flags, std::string* text) {
  flags.Add("device", text,
            "where steps run: cpu (default), or cuda[:N], the N-th GPU; `snug doctor` says what is there");
}

void SayWhatVaries(const Compiled& compiled) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names = NodesThatVary(compiled.graph, compiled.kernels);
  if (names.empty()) return;
  const size_t more = names.size() - std::min(names.size(), kMostNamed);
  names.resize(names.size() - more);
  std::fprintf(stderr, "may have other bits each time: %s%s\n", absl::StrJoin(names, ", ").c_str(),
               more > 0 ? absl::StrCat(" and ", more, " more").c_str() : "");
}

}  // namespace snug::core::cli
