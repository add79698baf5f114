// Tables whose gradients are lists of rows: the same training as with whole gradients where that is promised, PyTorch's
// where rows are left alone, and refused where it cannot be. Networks run node after node here; how they run in
// earnest: tests/run/less_memory/sparse_tables_test.cc.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/hash.h"
#include "engine/compile/pipeline.h"
#include "proto/network.pb.h"
#include "proto/options.h"
#include "proto/text_loader.h"
#include "tests/testing/graph_evaluator.h"
#include "tests/testing/source_path.h"
#include "tests/testing/tables_network.h"

namespace snug::core {
namespace {

using test::EvaluateGraph;
using test::TablesNetwork;
using test::TablesOptimizer;
using test::Tensor;
using testing::HasSubstr;
using testing::StartsWith;

// Many rows of the table come several times.
const std::string kTables = TablesNetwork(60);

struct TablesRun {
  std::map<std::string, std::vector<double>> variables;
  std::vector<TableGradient> tables;
  int whole = 0;  // values of the table's shape that a step makes
  double norm = 0;
};

// A wave of its own for each name and step.
void FillBy(const std::string& name, int step, int64_t below, Tensor* tensor) {
  const double phase = static_cast<double>(HashName(name) % 1000) + step;
  for (int64_t i = 0; i < tensor->type.num_elements(); ++i) {
    const double wave = std::sin(phase + 0.7 * static_cast<double>(i));
    tensor->Set(
        i, IsFloating(tensor->type.dtype) ? 0.5 * wave : std::floor((0.5 + 0.49 * wave) * static_cast<double>(below)));
  }
}

std::map<ValueId, Tensor> FirstVariables(const Graph& graph) {
  std::map<ValueId, Tensor> first;
  for (const Variable& variable : graph.variables()) {
    Tensor& tensor = first[variable.value] = Tensor(variable.type);
    if (variable.init.kind != Initializer::Kind::kConstant) {
      FillBy(variable.slot_of.valid() ? graph.variable(variable.slot_of).name : variable.name, 0, 0, &tensor);
    } else if (variable.type.dtype == DType::kInt64) {
      tensor.Set(0, 1);  // the seed; the step begins at 0
    } else {
      for (int64_t i = 0; i < tensor.type.num_elements(); ++i) tensor.Set(i, variable.init.value);
    }
  }
  return first;
}

// Steps by running node after node.
class Stepper {
 public:
  Stepper(const CompileOptions& options, const std::string& network) : options_(options) {
    const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(network, "test");
    EXPECT_TRUE(loaded.ok());
    options_.plain_kernels = true;
    absl::StatusOr<Compiled> compiled =
        CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options_);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok()) return;
    compiled_ = *std::move(compiled);
    variables_ = FirstVariables(graph());
  }

  const Graph& graph() const { return compiled_.graph; }
  const Compiled& compiled() const { return compiled_; }
  Tensor& Of(const std::string& variable) { return variables_[graph().variable(graph().FindVariable(variable)).value]; }

  // What `given` does not have is a wave.
  std::vector<Tensor> Step(int step, const std::map<std::string, std::vector<double>>& given = {}) {
    std::map<ValueId, Tensor> feeds = variables_;
    for (const ValueId input : graph().inputs()) {
      const Value& value = graph().value(input);
      const auto numbers = given.find(value.name);
      if (numbers != given.end()) {
        feeds[input] = Tensor::FromDoubles(value.type, numbers->second);
      } else {
        FillBy(value.name, step, value.max_value, &(feeds[input] = Tensor(value.type)));
      }
    }
    absl::StatusOr<std::vector<Tensor>> values =
        EvaluateGraph(OpRegistry::Builtin(), graph(), feeds, {.threads = options_.threads});
    EXPECT_TRUE(values.ok()) << values.status();
    if (!values.ok()) return {};
    for (auto& [id, tensor] : variables_) tensor = (*values)[static_cast<size_t>(id.index)];
    return *std::move(values);
  }

 private:
  CompileOptions options_;
  Compiled compiled_;
  std::map<ValueId, Tensor> variables_;
};

TablesRun TrainTables(const CompileOptions& options, const std::string& network = kTables, int steps = 3) {
  Stepper stepper(options, network);
  TablesRun run{.tables = stepper.compiled().tables};
  const Graph& graph = stepper.graph();
  for (int i = 0; i < steps; ++i) {
    const std::vector<Tensor> values = stepper.Step(i);
    for (const Output& output : graph.outputs) {
      if (output.name == "gradient_norm" && !values.empty()) {
        run.norm = values[static_cast<size_t>(output.value.index)].At(0);
      }
    }
  }
  for (const Variable& variable : graph.variables()) {
    run.variables[variable.name] = stepper.Of(variable.name).ToDoubles();
  }
  for (const NodeId id : graph.ProgramOrder()) {
    for (const ValueId output : graph.node(id).outputs) run.whole += graph.type(output).shape == Shape({4000, 33});
  }
  return run;
}

std::string Refused(const CompileOptions& options, const std::string& network = kTables) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(network, "test");
  EXPECT_TRUE(loaded.ok());
  const auto compiled = CompileGraph(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(compiled.status().message());
}

SparseTables Said(const std::vector<std::string>& patterns) { return {patterns, OptionPlaces::OnCommandLine()}; }

const TableGradient& Table(const TablesRun& run, const std::string& name) {
  for (const TableGradient& table : run.tables) {
    if (table.table == name) return table;
  }
  ADD_FAILURE() << name << " is no table";
  static const TableGradient kNone{};
  return kNone;
}

class SameBits : public testing::TestWithParam<const char*> {};

TEST_P(SameBits, AsOfWholeGradients) {
  for (const DType precision : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const proto::Optimizer optimizer = TablesOptimizer(GetParam());
    CompileOptions options{.batch = 6, .precision = precision, .threads = 2, .optimizer = &optimizer};
    options.gradient_norm = true;
    const TablesRun rows = TrainTables(options);
    EXPECT_TRUE(Table(rows, "table.weight").rows) << Table(rows, "table.weight").why;
    EXPECT_EQ(Table(rows, "table.weight").most_rows, 36);
    EXPECT_FALSE(Table(rows, "single.weight").rows) << "a list of 12 rows is larger than a table of one";
    options.sparse_tables = Said({"!*"});
    const TablesRun whole = TrainTables(options);
    EXPECT_FALSE(Table(whole, "table.weight").rows);
    EXPECT_EQ(rows.variables, whole.variables) << Name(precision);
    EXPECT_EQ(rows.norm, whole.norm) << Name(precision);
    EXPECT_GT(rows.norm, 0);
    EXPECT_EQ(rows.whole, 0) << Name(precision) << ": of a bfloat16 network, casts of the table too";
    EXPECT_GT(whole.whole, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SameBits,
                         testing::Values("sgd {}", "clip_norm: 0.01 sgd {}", "adagrad {}",
                                         "clip_norm: 0.01 adagrad { lr_decay: 0.1 }", "average { decay: 0.9 } sgd {}"),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

class LeftAlone : public testing::TestWithParam<const char*> {};

// In the first step a row that is looked up becomes what it becomes with a whole gradient; the others stay.
TEST_P(LeftAlone, RowsThatAreNotLookedUpStayAndOthersAreUpdatedAsInAWholeTable) {
  const proto::Optimizer optimizer = TablesOptimizer(GetParam());
  CompileOptions options{.batch = 6, .threads = 2, .optimizer = &optimizer};
  const TablesRun whole = TrainTables(options, kTables, 1);
  EXPECT_FALSE(Table(whole, "table.weight").rows);
  EXPECT_NE(Table(whole, "table.weight").why, "");
  options.sparse_tables = Said({"table.*"});
  const TablesRun before = TrainTables(options, kTables, 0);
  const TablesRun rows = TrainTables(options, kTables, 1);
  EXPECT_TRUE(Table(rows, "table.weight").rows);
  EXPECT_FALSE(Table(rows, "table.weight").exact);
  int stay = 0, changed = 0;
  for (int64_t row = 0; row < 4000; ++row) {
    const auto of = [row](const TablesRun& run) {
      const auto begin = run.variables.at("table.weight").begin() + row * 33;
      return std::vector<double>(begin, begin + 33);
    };
    if (of(rows) == of(before)) {
      ++stay;
    } else {
      ++changed;
      EXPECT_EQ(of(rows), of(whole)) << row;
    }
  }
  EXPECT_GT(changed, 10);
  EXPECT_LT(changed, 36) << "no row was looked up twice";
  EXPECT_GT(stay, 3900);
  EXPECT_EQ(rows.variables.at("out.weight"), whole.variables.at("out.weight"));
}

TEST_P(LeftAlone, WithTheSameBitsOnAnyThreadsAndInBFloat16) {
  for (const bool rounds : {false, true}) {
    const proto::Optimizer optimizer = TablesOptimizer(GetParam());
    CompileOptions options{
        .batch = 6, .threads = 1, .plain_kernels = true, .optimizer = &optimizer, .sparse_tables = Said({"*"})};
    if (rounds) {
      options.precision = DType::kBFloat16;
      options.stochastic_rounding = true;
    }
    const TablesRun one = TrainTables(options);
    for (const int threads : {2, 4}) {
      options.threads = threads;
      EXPECT_EQ(TrainTables(options).variables, one.variables) << threads;
    }
    for (const double value : one.variables.at("table.weight")) ASSERT_TRUE(std::isfinite(value));
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LeftAlone,
                         testing::Values("sgd { momentum: 0.9 nesterov: true }", "weight_decay: 0.1 sgd {}", "adam {}",
                                         "weight_decay: 0.1 adamw {}", "rmsprop {}", "rmsprop { momentum: 0.9 }",
                                         "weight_decay: 0.1 adagrad {}", "lion {}"),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

TEST(RowGradients, AreWholeWhereOthersReadThemAndSayWhy) {
  const proto::Optimizer sgd = TablesOptimizer("sgd {}");
  constexpr char kTied[] = R"(
    batch: 4
    input { name: "ids" dtype: INT32 max_value: 500 }
    layer { name: "table" input: "ids" embedding { entries: 500 width: 3 } }
    layer { name: "out" input: "table" dense { units: 500 bias: false } param { name: "weight" tie: "table.weight" } }
    layer { name: "loss" input: "out" input: "ids" softmax_cross_entropy {} }
    objective: "loss")";
  const TablesRun tied = TrainTables({.threads = 1, .optimizer = &sgd}, kTied);
  EXPECT_FALSE(Table(tied, "table.weight").rows);
  EXPECT_EQ(Table(tied, "table.weight").why, "layer \"out\" (dense) reads it too");
  const std::string refused = Refused({.optimizer = &sgd, .sparse_tables = Said({"table.weight"})}, kTied);
  EXPECT_THAT(refused, StartsWith("test:5:"));
  EXPECT_THAT(refused,
              HasSubstr("layer \"out\" (dense): --sparse-tables: the gradient of table.weight cannot be a list of "
                        "rows: layer \"out\" (dense) reads it too"));
  CompileOptions fetched{.batch = 2, .threads = 1, .optimizer = &sgd};
  fetched.gradients = {"table.weight"};
  EXPECT_EQ(Table(TrainTables(fetched), "table.weight").why, "it is fetched");
}

TEST(RowGradients, AreRefusedWhereTheyCannotBeListsOfRows) {
  const auto said = [](const std::string& optimizer, CompileOptions options) {
    const proto::Optimizer given = TablesOptimizer(optimizer);
    options.optimizer = &given;
    options.batch = 4;
    options.sparse_tables = Said({"table.weight"});
    return Refused(options);
  };
  EXPECT_EQ(said("lamb {}", {}),
            "--sparse-tables: the gradient of table.weight cannot be a list of rows: lamb needs the norm "
            "of the whole change");
  EXPECT_THAT(said("state: \"8bit\" adam {}", {}), HasSubstr("in blocks of 8-bit numbers, which are no rows"));
  EXPECT_THAT(said("sgd {}", {.micro_batches = {.count = 2}}), HasSubstr("it is added up over 2 micro-batches"));
  EXPECT_THAT(said("sgd {}", {.device = {Device::Kind::kCuda}}),
              HasSubstr("lists of rows have kernels for the CPU only"));
}

TEST(RowGradients, APatternHasToMatchOne) {
  const auto said = [](const std::string& pattern) { return Refused({.batch = 2, .sparse_tables = Said({pattern})}); };
  EXPECT_EQ(said("table.wieght"),
            "--sparse-tables: \"table.wieght\": expected the name of a trained table that embeddings look up, no "
            "parameter has such a name; did you mean \"table.weight\"?");
  EXPECT_THAT(said("out.weight"), HasSubstr("embeddings look up, no embedding looks up out.weight"));
  EXPECT_THAT(said("!tab"), HasSubstr("\"!tab\": expected the name of a trained table"));
}

TEST(RowGradients, WhatIsSaidOfThem) {
  EXPECT_EQ(TablesText({{.table = "a.weight", .rows = true, .entries = 100, .most_rows = 8},
                        {.table = "b.weight", .rows = true, .exact = false, .entries = 50, .most_rows = 8},
                        {.table = "c.weight", .entries = 20, .why = "momentum changes rows without a gradient too"}}),
            "table a.weight: its gradient is a list of at most 8 of 100 rows; the same bits as of the whole\n"
            "table b.weight: its gradient is a list of at most 8 of 50 rows; the other rows are left alone, as was "
            "asked for\n"
            "table c.weight: its gradient is whole, 20 rows: momentum changes rows without a gradient too\n");
}

// What PyTorch makes of sparse gradients (tests/golden/tables).
TEST(RowGradients, TrainAsInPyTorch) {
  std::ifstream file(test::SourcePath("tests/golden/tables/tables.golden"));
  ASSERT_TRUE(file.good());
  const std::map<std::string, std::string> optimizers = {
      {"sgd", "learning_rate: 0.1 sgd {}"},
      {"adagrad", "learning_rate: 0.1 adagrad {}"},
      {"adam", "learning_rate: 0.1 adam { beta1: 0.8 beta2: 0.9 epsilon: 1e-14 }"}};
  const std::vector<std::vector<double>> ids = {{3, 1, 3, 6}, {1, 1, 1, 1}, {0, 6, 2, 6}, {5, 4, 3, 3}};
  constexpr char kNetwork[] = R"(
    batch: 4
    input { name: "ids" dtype: INT32 max_value: 7 }
    input { name: "by" shape { dim: 3 } }
    layer { name: "table" input: "ids" embedding { entries: 7 width: 3 } }
    layer { name: "times" input: ["table", "by"] mul {} }
    layer { name: "loss"  input: "times" reduce_sum { axis: [0, 1] } }
    objective: "loss")";
  std::unique_ptr<Stepper> stepper;
  proto::Optimizer optimizer;
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    if (line[0] == '#') continue;
    ++lines;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const int step = std::stoi(words[1]);
    if (step == 0) {
      optimizer = proto::ParseOptions<proto::Optimizer>(optimizers.at(words[0]).c_str()).Get<proto::Optimizer>();
      stepper = std::make_unique<Stepper>(
          CompileOptions{
              .precision = DType::kFloat64, .optimizer = &optimizer, .sparse_tables = Said({"table.weight"})},
          kNetwork);
      ASSERT_TRUE(stepper->compiled().tables.at(0).rows);
      for (int64_t i = 0; i < 21; ++i) {
        stepper->Of("table.weight").Set(i, 0.5 * std::sin(0.7 * static_cast<double>(i)));
      }
    }
    std::vector<double> by(12);
    for (size_t i = 0; i < by.size(); ++i) by[i] = 0.5 * std::cos(step + 0.3 * static_cast<double>(i));
    stepper->Step(step, {{"ids", ids[static_cast<size_t>(step)]}, {"by", by}});
    const std::vector<double> table = stepper->Of("table.weight").ToDoubles();
    ASSERT_EQ(table.size() + 2, words.size());
    for (size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(table[i], std::stod(words[i + 2]), 1e-11) << line;
  }
  EXPECT_EQ(lines, 12);
}

}  // namespace
}  // namespace snug::core
