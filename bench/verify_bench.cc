// What it costs to believe no plan: the checks of a finished plan beside the compile that they are a part of.
//   verify_bench [--streams=N] MODEL...
// For each network, in training at batch 1 unless its file says otherwise and under the default strategy, it prints the
// time of one whole compile, and the best and the median of nine checks: milliseconds of CPU time of all threads.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/schedule/stages.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

template <class Body>
double Milliseconds(const Body& body) {
  timespec begin, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  body();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 + static_cast<double>(end.tv_nsec - begin.tv_nsec) * 1e-6;
}

void Report(const char* model, int streams) {
  const absl::StatusOr<LoadedNetwork> loaded =
      LoadNetworkFile(absl::StrCat(SNUG_SOURCE_DIR "/models/", model, ".pbtxt"));
  SNUG_CHECK_OK(loaded.status());
  Compiled compiled;
  const double compile = Milliseconds([&] {
    CompileOptions options{.threads = 1, .memory = {.streams = streams}};
    compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options).value();
  });
  std::vector<double> checks;
  for (int round = 0; round < 9; ++round) {
    checks.push_back(Milliseconds([&] {
      SNUG_CHECK_OK(VerifySchedule(compiled.tasks, compiled.executable));
      SNUG_CHECK_OK(VerifyExecutable(compiled));
    }));
  }
  std::sort(checks.begin(), checks.end());
  std::printf("%-14s %d streams  %5zu Steps  compile %9.1f ms   checks best %7.2f ms, median %7.2f ms (%.2f %%)\n",
              model, streams, compiled.executable.steps.size(), compile, checks.front(), checks[4],
              100 * checks[4] / compile);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  int streams = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--streams=", 10) == 0) {
      streams = std::atoi(argv[i] + 10);
    } else {
      snug::core::Report(argv[i], streams);
    }
  }
  return 0;
}
