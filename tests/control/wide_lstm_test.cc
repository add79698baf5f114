// What a step of training a wide and long LSTM takes, as it was published of MXNet: 4 layers of 1024, 1000 steps, a
// batch of 64.
#include <absl/strings/str_cat.h>
#include <absl/strings/substitute.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/control/control_run.h"
#include "tests/control/lstm_cell.h"

namespace snug::core::test {
namespace {

// One loop of steps, each of which has the cells of all four layers and the error of its step: inputs and targets are
// the only sequences.
std::string Steps(int rounds, int batch, int width) {
  std::string text = absl::Substitute(R"(
    batch: $0
    input { name: "x" no_batch: true shape { dim: [$2, $0, $1] } }
    input { name: "target" no_batch: true shape { dim: [$2, $0, $1] } }
    input { name: "zeros" shape { dim: $1 } }
    layer { name: "none" input: "zeros" reduce_mean {} }
    objective: "steps"
    optimizer { learning_rate: 0.01 sgd { momentum: 0.9 } }
    )",
                                      batch, width, rounds);
  text += LstmCell(width);
  std::string body = R"(block { name: "step" input: ["x", "target", "total")", layers, outputs, carries, inputs,
              below = "$x";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&body, ", \"h", i, "\", \"c", i, "\"");
    absl::StrAppend(&inputs, ", \"zeros\", \"zeros\"");
    absl::StrAppend(&layers, "layer { name: \"cell", i, "\" input: [\"", below, "\", \"$h", i, "\", \"$c", i,
                    "\"] cell {} }\n");
    absl::StrAppend(&outputs, " output: \"cell", i, ":0\" output: \"cell", i, ":1\"");
    absl::StrAppend(&carries, " carry { input: \"h", i, "\" output: \"cell", i, ":0\" } carry { input: \"c", i,
                    "\" output: \"cell", i, ":1\" }");
    below = absl::StrCat("cell", i, ":0");
  }
  absl::StrAppend(&text, body, "]\n", layers, "layer { name: \"error\" input: \"", below,
                  R"(" input: "$target" mean_squared_error {} }
    layer { name: "total_next" input: "$total" input: "error" add {} }
    output: "total_next")",
                  outputs, R"( }
    layer { name: "steps" input: ["x", "target", "none")",
                  inputs, R"(] loop { body: "step" scan { input: "x" axis: 0 } scan { input: "target" axis: 0 }
      carry { input: "total" output: "total_next" })",
                  carries, " } }\n");
  return text;
}

int64_t PlannedBytes(const std::string& text, const CompileOptions& options) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(text, "test");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return 0;
  const absl::StatusOr<Compiled> compiled =
      Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? compiled->planned_bytes() : 0;
}

TEST(WideLstm, TakesLessThanWhatWasPublished) {
  const std::string text = Steps(1000, 64, 1024);
  constexpr int64_t kSequences = 2 * int64_t{262144000}, kWeightsAndMomentum = 268697600;
  const int64_t kept = PlannedBytes(text, {});
  EXPECT_GT(kept, kSequences + kWeightsAndMomentum);
  EXPECT_LE(kept, int64_t{14751} * 1000 * 1000);
  const int64_t anew = PlannedBytes(text, {.recompute_rounds = -1});
  EXPECT_GT(anew, kSequences + kWeightsAndMomentum);
  EXPECT_LE(anew, int64_t{1748} * 1000 * 1000);
}

// What does not follow from the number of rounds: everything but sequences and stashes.
TEST(WideLstm, WhereRoundsAreComputedAnewTwiceAsManyTakeLittleMoreThanTheirSequences) {
  const int64_t once = PlannedBytes(Steps(1000, 64, 1024), {.recompute_rounds = 25});
  const int64_t twice = PlannedBytes(Steps(2000, 64, 1024), {.recompute_rounds = 25});
  constexpr int64_t kSequences = 2 * int64_t{262144000}, kStates = 8 * 40 * int64_t{64 * 1024 * 4};
  EXPECT_NEAR(static_cast<double>(twice - once), static_cast<double>(kSequences + kStates), 1e6);
}

}  // namespace
}  // namespace snug::core::test
