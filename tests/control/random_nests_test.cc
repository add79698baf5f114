// Random nests of loops and branches beside an interpreter that runs them round by round: values bit for bit, gradients
// beside its central differences. Every memory strategy is compared with the one that shares nothing, and loops that
// stay nodes, on every engine, with the straight lines of their rounds.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/control/rolled_loop.h"
#include "tests/control/control_run.h"
#include "tests/control/random_nest.h"
#include "tests/testing/control_evaluator.h"

namespace snug::core::test {
namespace {

class Nest {
 public:
  // `turn` says which engine runs its rolled loops.
  Nest(uint64_t seed, int turn) : nest_(MakeRandomNest(seed)), random_(seed), turn_(turn) {}

  // Returns what is wrong, or nothing. Counts into `slopes` how many gradients were compared.
  std::string Check(const std::vector<std::string>& strategies, int* slopes) {
    const absl::StatusOr<Graph> graph = GraphAfter(nest_.text, "10_graph", AsWritten(InDouble()));
    if (!graph.ok()) return std::string(graph.status().message());
    graph_ = *graph;
    for (const ValueId id : graph_.inputs()) wanted_.push_back(graph_.value(id).name);
    for (const Variable& variable : graph_.variables()) {
      if (variable.role == VariableRole::kParameter) wanted_.push_back(variable.name);
    }
    std::erase_if(wanted_,
                  [&](const std::string& name) { return !IsFloating(graph_.type(graph_.FindValue(name)).dtype); });
    const std::vector<Numbers> truth = Run("none");
    if (truth.empty()) return "does not run";
    int turn = turn_;
    for (const std::string& strategy : strategies) {
      if (!SameBits(Run(strategy), truth)) return "other bits under " + strategy;
      // Without a plan, two of the engines run.
      const bool planned = strategy != kDynamicMemory;
      const ExecutorKind engine = planned && turn % 3 == 0 ? ExecutorKind::kReplay
                                  : turn % 3 == 1          ? ExecutorKind::kDynamic
                                                           : ExecutorKind::kSerial;
      ++turn;
      const int streams = engine == ExecutorKind::kSerial ? 1 : 2;
      if (!SameBits(Run(strategy, LoopRule::kRolled, engine, streams), truth)) {
        return absl::StrCat("other bits with rolled loops under ", strategy, ", engine ", ExecutorName(engine));
      }
    }
    std::string wrong = CheckValues(truth);
    if (wrong.empty()) wrong = CheckAnew(truth);
    return wrong.empty() ? CheckSlopes(truth, slopes) : wrong;
  }

  const std::string& text() const { return nest_.text; }

 private:
  static bool Same(const Numbers& a, const Numbers& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    }
    return true;
  }

  // Gradients that compute rounds anew, a few at a time: values have the same bits, and gradients are the same but for
  // how sums over rounds are associated; rolled or not makes no difference.
  std::string CheckAnew(const std::vector<Numbers>& truth) {
    chunk_ = static_cast<int64_t>(random_() % 4) + 1;
    const std::vector<Numbers> straight = Run("none");
    const bool same = SameBits(Run("none", LoopRule::kRolled), straight);
    const int64_t chunk = std::exchange(chunk_, 0);
    if (!same) return absl::StrCat("other bits with rolled loops in chunks of ", chunk);
    for (size_t i = 0; i < truth.size(); ++i) {
      const bool value = i < graph_.outputs.size();
      if (value ? Same(straight[i], truth[i]) : nest_.may_spoil || Near(straight[i], truth[i])) continue;
      return absl::StrCat("another ", value ? "value" : "gradient", ", number ", i, ", with chunks of ", chunk);
    }
    return "";
  }

  static bool Near(const Numbers& a, const Numbers& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool near = std::abs(a[i] - b[i]) <= 1e-9 * (1 + std::abs(b[i]));
      if (!near && std::isfinite(a[i]) != std::isfinite(b[i])) return false;
      if (!near && std::isfinite(a[i])) return false;
    }
    return true;
  }

  // Signs of zeros too.
  static bool SameBits(const std::vector<Numbers>& a, const std::vector<Numbers>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!Same(a[i], b[i])) return false;
      for (size_t k = 0; k < a[i].size(); ++k) {
        if (a[i][k] == 0 && std::signbit(a[i][k]) != std::signbit(b[i][k])) return false;
      }
    }
    return true;
  }

  // The outputs, and then the gradients of what is wanted, where there are any.
  std::vector<Numbers> Run(const std::string& strategy, LoopRule loops = LoopRule::kUnrolled,
                           std::optional<ExecutorKind> engine = std::nullopt, int streams = 1) {
    CompileOptions options = AsWritten(InDouble());
    options.loops = loops;
    options.memory.strategy = strategy;
    options.memory.planner = PlannerFor(strategy);
    options.memory.streams = streams;
    options.recompute_rounds = chunk_;
    if (with_path_.empty()) FindPaths(options);
    options.gradients = with_path_;
    auto session = MakeUnfed(nest_.text, options, engine);
    if (!session.ok()) {
      ADD_FAILURE() << session.status().message();
      return {};
    }
    ExpectWithinBounds((*session)->compiled());
    for (const auto& [name, values] : nest_.feeds) {
      if (!(*session)->Input(name).ok()) continue;  // nothing reads it
      EXPECT_TRUE((*session)->Feed(name, values).ok()) << name;
    }
    if (parameters_.empty()) {
      for (const Variable& variable : graph_.variables()) {
        if (variable.role != VariableRole::kScalar)
          parameters_[variable.name] = *(*session)->GetVariable(variable.name);
      }
    }
    const absl::Status run = (*session)->Run();
    EXPECT_TRUE(run.ok()) << run.message();
    std::vector<Numbers> found;
    for (const Output& output : graph_.outputs) found.push_back(*(*session)->Fetch(output.name));
    for (const std::string& name : with_path_) found.push_back(*(*session)->Fetch(absl::StrCat("d(", name, ")")));
    return found;
  }

  // No plan takes less than its lower bound, nor do those of bodies.
  static void ExpectWithinBounds(const Compiled& compiled) {
    const MemoryPlan& plan = compiled.executable.memory;
    if (!plan.dynamic.has_value()) {
      EXPECT_GE(plan.total_bytes(), plan.lower_bound());
      EXPECT_GE(plan.lower_bound(), plan.state_plan.arena_bytes);
      if (plan.proven()) {
        EXPECT_EQ(plan.total_bytes(), plan.lower_bound());
      }
    }
    for (const NodeId id : compiled.graph.ProgramOrder()) {
      const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
      if (loop != nullptr) ExpectWithinBounds(loop->body());
    }
  }

  // A gradient of what no objective depends on is refused, so those are left out.
  void FindPaths(const CompileOptions& options) {
    for (const std::string& name : wanted_) {
      CompileOptions one = options;
      one.gradients = {name};
      if (GraphAfter(nest_.text, "30_backward", one).ok()) with_path_.push_back(name);
    }
  }

  std::map<ValueId, Tensor> Feeds(const std::string& moved = "", const Numbers& direction = {}, double step = 0) {
    std::map<ValueId, Tensor> feeds;
    const auto add = [&](const std::string& name, Numbers values) {
      for (size_t i = 0; name == moved && i < values.size(); ++i) values[i] += step * direction[i];
      const ValueId id = graph_.FindValue(name);
      feeds[id] = Tensor::FromDoubles(graph_.type(id), values);
    };
    for (const auto& [name, values] : nest_.feeds) add(name, values);
    for (const auto& [name, values] : parameters_) add(name, values);
    return feeds;
  }

  std::vector<Numbers> Interpret(const std::map<ValueId, Tensor>& feeds) {
    const absl::StatusOr<std::vector<Tensor>> values = EvaluateControl(OpRegistry::Builtin(), graph_, feeds);
    EXPECT_TRUE(values.ok()) << values.status().message();
    std::vector<Numbers> found;
    for (const Output& output : graph_.outputs) {
      found.push_back(values.ok() ? (*values)[static_cast<size_t>(output.value.index)].ToDoubles() : Numbers());
    }
    return found;
  }

  static std::string Precise(const Numbers& numbers) {
    return absl::StrJoin(numbers, " ", [](std::string* out, double x) { absl::StrAppendFormat(out, "%.17g", x); });
  }

  std::string CheckValues(const std::vector<Numbers>& truth) {
    const std::vector<Numbers> expected = Interpret(Feeds());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (Same(truth[i], expected[i])) continue;
      return absl::StrCat("output ", graph_.outputs[i].name, ": expected ", Precise(expected[i]), ", found ",
                          Precise(truth[i]));
    }
    return "";
  }

  // Along one random direction for each of what is wanted. Where a loop ends in another round a little further on, the
  // loss has a step and no slope: such directions are left out.
  std::string CheckSlopes(const std::vector<Numbers>& truth, int* slopes) {
    constexpr double kStep = 1e-5;
    const double here = truth[0][0];
    if (!std::isfinite(here)) return "";
    for (size_t w = 0; w < with_path_.size(); ++w) {
      const Numbers& gradient = truth[graph_.outputs.size() + w];
      Numbers direction(gradient.size());
      double expected = 0;
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] = static_cast<double>(random_() % 1000) / 500 - 1;
        expected += direction[i] * gradient[i];
      }
      if (std::isnan(expected) && nest_.may_spoil) continue;
      const double up = Interpret(Feeds(with_path_[w], direction, kStep))[0][0];
      const double down = Interpret(Feeds(with_path_[w], direction, -kStep))[0][0];
      if (!(std::abs(up + down - 2 * here) < 1e-6 * (1 + std::abs(here)))) continue;
      const double found = (up - down) / (2 * kStep);
      ++*slopes;
      if (std::abs(found - expected) <= 1e-6 * (1 + std::abs(found))) continue;
      return absl::StrCat("d(", with_path_[w], ") along a direction: expected ", found, ", found ", expected);
    }
    return "";
  }

  const RandomNest nest_;
  std::mt19937_64 random_;
  int64_t chunk_ = 0;  // with which it runs
  const int turn_;
  Graph graph_;
  std::vector<std::string> wanted_, with_path_;
  std::map<std::string, Numbers> parameters_;
};

// Some nests of many, which are numbered from 0 on. What is done with a nest depends on its number alone.
struct Nests {
  uint64_t first_seed;  // of the nest with number 0
  int begin, end;
};

// Two strategies for each nest. They take turns, and so do the engines: in 3 x strategies nests, each strategy has run
// on each engine.
void CheckNests(const Nests& nests) {
  const std::vector<std::string> all = StrategiesAndDynamic();
  int slopes = 0;
  for (int i = nests.begin; i < nests.end; ++i) {
    const uint64_t seed = nests.first_seed + static_cast<uint64_t>(i);
    const size_t turn = static_cast<size_t>(i);
    Nest nest(seed, static_cast<int>(turn + turn / all.size()));
    const std::string wrong = nest.Check({all[turn % all.size()], all[(turn + all.size() / 2) % all.size()]}, &slopes);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << nest.text();
  }
  // Most are smooth in most directions; a few alone may not be.
  if (nests.end - nests.begin >= 100) {
    EXPECT_GT(slopes, nests.end - nests.begin);
  }
}

// The numbers from 0 to `count` of the part that SNUG_CAMPAIGN_PART names: "2/5" is the second of five. Without it,
// all.
std::optional<Nests> CampaignPart(uint64_t first_seed, int count) {
  const char* text = std::getenv("SNUG_CAMPAIGN_PART");
  if (text == nullptr) return Nests{first_seed, 0, count};
  const std::vector<std::string> numbers = absl::StrSplit(text, '/');
  int part = 0, parts = 0;
  const bool read = numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &part) && absl::SimpleAtoi(numbers[1], &parts);
  if (!read || part < 1 || part > parts || parts > count) return std::nullopt;
  return Nests{first_seed, count / parts * (part - 1) + std::min(part - 1, count % parts),
               count / parts * part + std::min(part, count % parts)};
}

TEST(RandomNests, EqualAnInterpreter) { CheckNests({.first_seed = 1, .begin = 0, .end = 100}); }

TEST(RandomNests, EqualAnInterpreterCampaign) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "set SNUG_CAMPAIGN";
  const std::optional<Nests> nests = CampaignPart(1'000, 10'000);
  ASSERT_TRUE(nests.has_value()) << "SNUG_CAMPAIGN_PART: expected PART/PARTS, such as 2/5";
  CheckNests(*nests);
}

}  // namespace
}  // namespace snug::core::test
