// What running without a plan costs: training steps under dynamic memory (auto_growth unless named) and under the
// static plan, in turns in one process.
//   dynamic_memory_bench [MODEL...] [--rounds=R] [--seconds=S] [--threads=T] [--allocator=NAME] [--chunk-mb=N]
//   [--peaks]
// Prints Markdown: CPU seconds of a step and their ratio (the median over R rounds of the ratio of two neighbours, each
// of S seconds; who begins alternates), and the bytes taken beside each other. --peaks prints the bytes alone.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/session.h"
#include "proto/text_loader.h"

namespace snug::core {
namespace {

struct Settings {
  std::vector<std::string> models;
  int64_t rounds = 15, threads = 1;
  double seconds = 0.5;
  memory::AllocatorOptions allocator;
  bool peaks = false;
};

int64_t BatchOf(const std::string& model) {
  if (model == "mlp" || model == "lenet") return 64;
  if (model == "mlp_big") return 256;
  return model == "gpt_small" ? 4 : 8;
}

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::unique_ptr<Session> Make(const LoadedNetwork& network, const std::string& model, const std::string& strategy,
                              const Settings& settings) {
  CompileOptions options{.batch = BatchOf(model), .threads = static_cast<int>(settings.threads), .keep_inputs = true};
  options.memory.strategy = strategy;
  options.memory.dynamic.allocator = settings.allocator;
  Compiled compiled = Compile(network.network, network.source_map, OpRegistry::Builtin(), options).value();
  std::unique_ptr<Session> session = Session::Create(std::move(compiled), {.engine = ExecutorKind::kSerial}).value();
  SNUG_CHECK_OK(FeedRandom(*session, OpRegistry::Builtin(), 1));
  for (int i = 0; i < 3; ++i) SNUG_CHECK_OK(session->Run());
  return session;
}

double SecondsPerStep(Session& session, int64_t steps) {
  const double begin = CpuSeconds();
  for (int64_t i = 0; i < steps; ++i) SNUG_CHECK_OK(session.Run());
  return (CpuSeconds() - begin) / static_cast<double>(steps);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) * 1e-6; }

void Measure(const std::string& model, const Settings& settings) {
  const LoadedNetwork network = LoadNetworkFile(absl::StrCat(SNUG_SOURCE_DIR "/models/", model, ".pbtxt")).value();
  const std::unique_ptr<Session> planned = Make(network, model, "best", settings);
  const std::unique_ptr<Session> dynamic = Make(network, model, "dynamic", settings);
  std::printf("| %s | %lld |", model.c_str(), static_cast<long long>(BatchOf(model)));
  if (!settings.peaks) {
    std::vector<double> of_planned, of_dynamic, ratios;
    const auto steps = std::max<int64_t>(1, static_cast<int64_t>(settings.seconds / SecondsPerStep(*planned, 3)));
    for (int64_t round = 0; round < settings.rounds; ++round) {
      const bool dynamic_first = round % 2 == 1;
      if (dynamic_first) of_dynamic.push_back(SecondsPerStep(*dynamic, steps));
      of_planned.push_back(SecondsPerStep(*planned, steps));
      if (!dynamic_first) of_dynamic.push_back(SecondsPerStep(*dynamic, steps));
      ratios.push_back(of_dynamic.back() / of_planned.back());
    }
    std::printf(" %.4g | %.4g | %.3f |", 1e3 * Median(of_planned), 1e3 * Median(of_dynamic), Median(ratios));
  }
  const int64_t plan_bytes = planned->state_bytes() + planned->step_bytes();
  const int64_t reserved = dynamic->state_bytes() + dynamic->step_bytes();
  const int64_t used = dynamic->state_bytes() + dynamic->dynamic_statistics().peak_used_bytes;
  std::printf(" %.2f | %.2f | %.2f | %.3f |\n", Megabytes(plan_bytes), Megabytes(used), Megabytes(reserved),
              static_cast<double>(reserved) / static_cast<double>(plan_bytes));
  std::fflush(stdout);
}

bool Parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    bool known = true;
    if (absl::ConsumePrefix(&argument, "--rounds=")) {
      known = absl::SimpleAtoi(argument, &settings->rounds) && settings->rounds > 0;
    } else if (absl::ConsumePrefix(&argument, "--threads=")) {
      known = absl::SimpleAtoi(argument, &settings->threads) && settings->threads > 0;
    } else if (absl::ConsumePrefix(&argument, "--seconds=")) {
      known = absl::SimpleAtod(argument, &settings->seconds) && settings->seconds > 0;
    } else if (absl::ConsumePrefix(&argument, "--allocator=")) {
      settings->allocator.allocator = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--chunk-mb=")) {
      known = absl::SimpleAtoi(argument, &settings->allocator.auto_growth_chunk_mb);
    } else if (argument == "--peaks") {
      settings->peaks = true;
    } else if (absl::ConsumePrefix(&argument, "--")) {
      known = false;
    } else {
      settings->models.emplace_back(argument);
    }
    if (!known) {
      std::fprintf(stderr, "dynamic_memory_bench: what is %s?\n", argv[i]);
      return false;
    }
  }
  if (settings->models.empty()) settings->models = {"mlp", "lenet", "resnet18"};
  return true;
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  snug::core::Settings settings;
  if (!snug::core::Parse(argc, argv, &settings)) return 2;
  const char* const times = settings.peaks ? "" : " best, CPU ms | dynamic, CPU ms | ratio |";
  std::printf("| model | batch |%s best MB | dynamic in use MB | dynamic reserved MB | reserved / best |\n", times);
  std::printf("|---|---|%s---|---|---|---|\n", settings.peaks ? "" : "---|---|---|");
  for (const std::string& model : settings.models) snug::core::Measure(model, settings);
}
