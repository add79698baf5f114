// Training with tables whose gradients are lists of rows: the same bits under every strategy, on every engine and any
// number of threads, in less memory. What the lists are: tests/compile/row_gradients_test.cc.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proto/network.pb.h"
#include "proto/options.h"
#include "tests/run/train_util.h"
#include "tests/testing/tables_network.h"

namespace snug::core {
namespace {

using test::TablesNetwork;
using test::TablesOptimizer;
using testing::HasSubstr;

const std::string kTables = TablesNetwork(4000);

struct TableRun {
  std::map<std::string, std::vector<double>> variables;
  std::vector<std::string> ops;
  int64_t step_bytes = 0;
};

TableRun TrainWithTables(const CompileOptions& options, const std::string& network = kTables, int steps = 3,
                         const SessionOptions& how = {.seed = 1}) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(network, "test");
  EXPECT_TRUE(loaded.ok());
  absl::StatusOr<Compiled> compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return {};
  const auto made = Session::Create(*std::move(compiled), how);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return {};
  Session& session = **made;
  TableRun run{.step_bytes = session.step_bytes()};
  for (int i = 0; i < steps; ++i) {
    EXPECT_TRUE(FeedRandom(session, OpRegistry::Builtin(), static_cast<uint64_t>(i)).ok());
    EXPECT_TRUE(session.Run().ok());
  }
  const Graph& graph = session.compiled().graph;
  for (const Variable& variable : graph.variables()) run.variables[variable.name] = *session.GetVariable(variable.name);
  for (const NodeId id : graph.ProgramOrder()) run.ops.push_back(graph.node(id).op);
  return run;
}

class SparseTablesTest : public testing::TestWithParam<const char*> {};

TEST_P(SparseTablesTest, TheSameBitsInEveryWayToRun) {
  const proto::Optimizer optimizer = TablesOptimizer(GetParam());
  CompileOptions options{.batch = 6, .threads = 1, .plain_kernels = true, .optimizer = &optimizer};
  options.memory.strategy = "none";
  const TableRun truth = TrainWithTables(options);
  for (const char* const strategy : {"inplace", "share", "both", "nnc", "offset", "best", "dynamic"}) {
    for (const int threads : {1, 2, 4}) {
      options.memory.strategy = strategy;
      options.threads = threads;
      options.memory.streams = threads == 4 && std::string(strategy) == "both" ? 2 : 1;
      EXPECT_EQ(TrainWithTables(options).variables, truth.variables) << strategy << ", " << threads;
    }
  }
}

TEST_P(SparseTablesTest, TheSameBitsOnEveryEngine) {
  const proto::Optimizer optimizer = TablesOptimizer(GetParam());
  CompileOptions options{.batch = 6, .threads = 1, .optimizer = &optimizer};
  const TableRun truth = TrainWithTables(options);
  for (const SessionOptions& how : {SessionOptions{.seed = 1, .engine = ExecutorKind::kDynamic},
                                    SessionOptions{.seed = 1, .engine = ExecutorKind::kSerial, .poison = true},
                                    SessionOptions{.seed = 1, .engine = ExecutorKind::kSerial, .check_access = true}}) {
    EXPECT_EQ(TrainWithTables(options, kTables, 3, how).variables, truth.variables) << static_cast<int>(*how.engine);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SparseTablesTest, testing::Values("sgd {}", "clip_norm: 0.01 adagrad {}"),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

TEST(SparseTables, TheirGradientTakesNoMemory) {
  const proto::Optimizer sgd = TablesOptimizer("sgd {}");
  CompileOptions options{.batch = 6, .threads = 1, .optimizer = &sgd};
  const TableRun rows = TrainWithTables(options);
  options.sparse_tables = {{"!table.*"}, OptionPlaces()};
  const TableRun whole = TrainWithTables(options);
  EXPECT_GT(whole.step_bytes, 4000 * 33 * 4);
  EXPECT_LT(rows.step_bytes, 4000 * 33 * 4 / 2);
  EXPECT_THAT(rows.ops, testing::Contains("sgd_update_rows"));
  EXPECT_THAT(whole.ops, testing::Not(testing::Contains("sgd_update_rows")));
}

TEST(SparseTables, ABFloat16NetworkCastsTheRowsItLooksUpAlone) {
  const proto::Optimizer sgd = TablesOptimizer("sgd {}");
  const TableRun rows = TrainWithTables({.batch = 6, .precision = DType::kBFloat16, .threads = 1, .optimizer = &sgd});
  EXPECT_LT(rows.step_bytes, 4000 * 33 * 2 / 2);
}

TEST(SparseTables, AnIdOutOfRangeIsRefusedAsEverAndChangesNothing) {
  const proto::Optimizer sgd = TablesOptimizer("sgd {}");
  const auto session = MakeSession(kTables, {.batch = 1, .threads = 1, .optimizer = &sgd});
  ASSERT_TRUE(session.ok()) << session.status();
  const std::vector<double> before = *(*session)->GetVariable("table.weight");
  ASSERT_TRUE((*session)->Feed("words", {1, 2, 4000, 3, 3}).ok());
  EXPECT_THAT(std::string((*session)->Run().message()),
              HasSubstr("ids[0, 2]: expected an entry in [0, 4000), found 4000"));
  EXPECT_EQ(*(*session)->GetVariable("table.weight"), before);
}

}  // namespace
}  // namespace snug::core
