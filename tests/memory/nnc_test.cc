// NNC's rules on its own reference data, and on cases small enough to see through.
#include "memory/share/nnc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"
#include "memory/place/placers.h"
#include "memory/share/use_order.h"
#include "memory/strategies.h"
#include "memory/verifier.h"
#include "tests/memory/random_problems.h"
#include "tests/memory/shared_data.h"

namespace snug::core::memory {
namespace {

using testing::HasSubstr;

int64_t NncTotal(const PartialProblem& problem, NncRule rule) {
  const absl::StatusOr<Plan> plan = PlaceNncPartial(problem, rule);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return -1;
  const absl::Status status = VerifyPartial(problem, *plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return plan->arena_bytes;
}

absl::StatusOr<NncFile> ReadNnc(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  EXPECT_TRUE(IsNnc(*text));
  return ParseNnc(*text, path);
}

// The totals of results.tsv: graph, column -> bytes.
std::map<std::string, std::map<std::string, int64_t>> Results() {
  std::map<std::string, std::map<std::string, int64_t>> results;
  const absl::StatusOr<std::string> text = ReadTextFile(SharedData("nnc/results.tsv"));
  if (!text.ok()) return results;
  TextLines lines("results.tsv", *text);
  std::vector<std::string> columns;
  while (lines.Next('\t')) {
    if (columns.empty()) {
      for (const absl::string_view column : lines.fields()) columns.emplace_back(column);
      continue;
    }
    for (size_t i = 1; i < columns.size(); ++i) {
      results[std::string(lines.fields()[0])][columns[i]] = lines.Integer(i, "bytes", 0).value_or(-1);
    }
  }
  return results;
}

TEST(Nnc, EqualsTheReferenceOnItsGraphsOrIsSmaller) {
  const auto results = Results();
  if (results.empty()) GTEST_SKIP() << "no reference data at " << SharedData("nnc");
  ASSERT_EQ(results.size(), 13u);
  for (const auto& [name, expected] : results) {
    SCOPED_TRACE(name);
    const absl::StatusOr<NncFile> partial = ReadNnc(SharedData("nnc/graphs/" + name + ".txt.gz"));
    ASSERT_TRUE(partial.ok()) << partial.status().message();
    EXPECT_LE(NncTotal(partial->problem, NncRule::kLater), expected.at("nnc"));
    EXPECT_LE(NncTotal(partial->problem, NncRule::kSeed), expected.at("o18"));

    const absl::StatusOr<NncFile> chain = ReadNnc(SharedData("nnc/graphs_serial/" + name + ".txt.gz"));
    ASSERT_TRUE(chain.ok()) << chain.status().message();
    EXPECT_LE(NncTotal(chain->problem, NncRule::kLater), expected.at("s24"));
    const absl::StatusOr<SerialForm> serial = ToSerial(chain->problem);
    ASSERT_TRUE(serial.ok()) << serial.status().message();
    const absl::StatusOr<Placement> later = PlaceNnc(serial->problem, {});
    const absl::StatusOr<Placement> seed = PlaceNncSeed(serial->problem, {});
    ASSERT_TRUE(later.ok() && seed.ok());
    EXPECT_TRUE(Verify(serial->problem, later->plan).ok());
    EXPECT_TRUE(Verify(serial->problem, seed->plan).ok());
    EXPECT_LE(later->plan.arena_bytes, expected.at("s24"));
    EXPECT_LE(seed->plan.arena_bytes, expected.at("s18"));
  }
}

TEST(Nnc, TheBestIsNoLargerThanAnyoneElses) {
  const auto results = Results();
  if (results.empty()) GTEST_SKIP() << "no reference data at " << SharedData("nnc");
  for (const auto& [name, expected] : results) {
    SCOPED_TRACE(name);
    const absl::StatusOr<NncFile> partial = ReadNnc(SharedData("nnc/graphs/" + name + ".txt.gz"));
    ASSERT_TRUE(partial.ok()) << partial.status().message();
    const absl::StatusOr<Placement> best = PlacePartial(partial->problem, "best", {});
    ASSERT_TRUE(best.ok()) << best.status().message();
    EXPECT_TRUE(VerifyPartial(partial->problem, best->plan).ok());
    for (const char* column : {"nnc", "o18", "bf", "ff"}) EXPECT_LE(best->plan.arena_bytes, expected.at(column));
    EXPECT_GE(best->plan.arena_bytes, expected.at("lb"));

    const absl::StatusOr<NncFile> chain = ReadNnc(SharedData("nnc/graphs_serial/" + name + ".txt.gz"));
    ASSERT_TRUE(chain.ok()) << chain.status().message();
    const absl::StatusOr<SerialForm> serial = ToSerial(chain->problem);
    ASSERT_TRUE(serial.ok()) << serial.status().message();
    const absl::StatusOr<Placement> in_order = PlaceProblem(serial->problem, "best", {});
    ASSERT_TRUE(in_order.ok()) << in_order.status().message();
    EXPECT_TRUE(VerifyPartial(chain->problem, serial->PlanOf(chain->problem, in_order->plan)).ok());
    for (const char* column : {"s24", "s18", "sbf"}) EXPECT_LE(in_order->plan.arena_bytes, expected.at(column));
    EXPECT_GE(in_order->plan.arena_bytes, expected.at("peak"));
  }
}

TEST(Nnc, EqualsTheReferenceOnLoopsAndBranchesOrIsSmaller) {
  const std::vector<std::string> files = FilesIn(SharedData("nnc/graphs_loops"));
  if (files.empty()) GTEST_SKIP() << "no reference data at " << SharedData("nnc/graphs_loops");
  int64_t reference = 0, ours = 0;
  for (const std::string& path : files) {
    SCOPED_TRACE(path);
    const absl::StatusOr<NncFile> file = ReadNnc(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_LE(NncTotal(file->problem, NncRule::kLater), file->total);
    const absl::StatusOr<Placement> best = PlacePartial(file->problem, "best", {});
    ASSERT_TRUE(best.ok()) << best.status().message();
    EXPECT_TRUE(VerifyPartial(file->problem, best->plan).ok());
    EXPECT_LE(best->plan.arena_bytes, file->total);
    reference += file->total;
    ours += best->plan.arena_bytes;
  }
  EXPECT_EQ(files.size(), 64u);
  EXPECT_EQ(reference, 57'280);
  EXPECT_LE(ours, reference);
}

TEST(NncReader, FindsTheInterferencesThatTheFileStates) {
  size_t checked = 0;
  for (const char* folder : {"nnc/graphs", "nnc/graphs_loops"}) {
    for (const std::string& path : FilesIn(SharedData(folder))) {
      SCOPED_TRACE(path);
      const absl::StatusOr<NncFile> file = ReadNnc(path);
      ASSERT_TRUE(file.ok()) << file.status().message();
      const absl::StatusOr<UseOrder> uses = UseOrder::Partial(file->problem);
      ASSERT_TRUE(uses.ok()) << uses.status().message();
      const std::vector<int32_t> interferences = uses->Interferences();
      int64_t sum = 0;
      for (size_t i = 0; i < interferences.size(); ++i) {
        EXPECT_EQ(interferences[i], file->interferes[i]) << file->problem.buffers[i].name;
        sum += interferences[i];
      }
      EXPECT_EQ(sum, 2 * file->interference_edges);
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << "no reference data at " << SharedData("nnc");
  EXPECT_EQ(checked, 13u + 64u);
}

TEST(NncReader, ErrorsSayWhereAndWhat) {
  const auto error = [](const std::string& text) { return std::string(ParseNnc(text, "f").status().message()); };
  EXPECT_THAT(error("nncgraph 1\nnodes 2\nedge 0 2\n"), HasSubstr("f:3"));
  EXPECT_THAT(error("nodes 2\ntensor 1 size x"), HasSubstr("a size"));
  EXPECT_THAT(error("nodes 2\ntensor 1 size 4 head 0"), HasSubstr("expected size, head and tail"));
  EXPECT_THAT(error("nodes 2\ntensor 1 size 4 head 0 tail 5"), HasSubstr("there is no task 5"));
  EXPECT_THAT(error("nodes 2\ntensor 1 size 4 head 0 tail 1 companion 3"), HasSubstr("tensor 3"));
  EXPECT_THAT(error("nodes 2\ntensor 1 size 4 head 0 tail"), HasSubstr("expected nodes"));
  EXPECT_EQ(error("nodes 4\nedge 0 1\nedge 1 2\nedge 2 3\nedge 2 1\n"),
            "f:5: the edges form a cycle of 2 nodes: 1 -> 2 -> 1");
  EXPECT_EQ(error("nodes 1\nedge 0 0\n"), "f:2: the edges form a cycle of 1 nodes: 0 -> 0");
  EXPECT_TRUE(ParseNnc("nodes 2\nedge 0 1\nsomething else\ntensor 1 size 4 type 1 head 0 tail 1\n", "f").ok());
}

// Tasks 0 .. n-1 in a chain.
PartialProblem ChainOfTasks(int32_t n, std::vector<PartialBuffer> buffers) {
  PartialProblem problem{.tasks = n, .buffers = std::move(buffers)};
  for (int32_t t = 0; t + 1 < n; ++t) problem.edges.emplace_back(t, t + 1);
  return problem;
}

PartialBuffer Use(int64_t bytes, int32_t head, int32_t tail) {
  return {.size_bytes = bytes, .heads = {head}, .tails = {tail}};
}

TEST(Nnc, ReusesAPartOfALargerBuffer) {
  // Two small ones side by side in what a large one leaves.
  const PartialProblem problem = ChainOfTasks(4, {Use(256, 0, 1), Use(128, 2, 3), Use(128, 2, 3)});
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 256);
  EXPECT_EQ(NncTotal(problem, NncRule::kSeed), 256);
}

TEST(Nnc, NotWhatMayRunAtOnce) {
  // 0 -> 1 and 2 -> 3: two streams. In any serial order the two would fit into one.
  const PartialProblem problem{.tasks = 4, .edges = {{0, 1}, {2, 3}}, .buffers = {Use(64, 0, 1), Use(64, 2, 3)}};
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 128);
  EXPECT_FALSE(ToSerial(problem).ok());
}

TEST(Nnc, KindsNeverShare) {
  PartialProblem problem = ChainOfTasks(4, {Use(64, 0, 1), Use(64, 2, 3)});
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 64);
  problem.buffers[1].kind = 1;
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 128);
  EXPECT_EQ(NncTotal(problem, NncRule::kSeed), 128);
}

TEST(Nnc, CompanionsShareOneAddressAndOthersLieBetweenThem) {
  PartialProblem problem = ChainOfTasks(6, {Use(64, 0, 1), Use(128, 4, 5), Use(64, 2, 3)});
  problem.buffers[0].companion = 1;
  problem.buffers[1].companion = 0;
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 128);
  EXPECT_EQ(NncTotal(problem, NncRule::kSeed), 128);
  problem.buffers[0].tails = {4};  // now both are in use at task 4
  EXPECT_EQ(PlaceNncPartial(problem, NncRule::kLater).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Nnc, ViewsLieInTheBufferTheyLookAtAndKeepItInUse) {
  PartialProblem problem = ChainOfTasks(4, {Use(256, 0, 1), Use(64, 3, 3), Use(256, 2, 2)});
  problem.buffers[1].view_of = 0;
  problem.buffers[1].view_offset = 128;
  const absl::StatusOr<Plan> plan = PlaceNncPartial(problem, NncRule::kLater);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->offsets[1], plan->offsets[0] + 128);
  EXPECT_EQ(plan->arena_bytes, 512);  // buffer 2 comes while the view is still to be read
}

TEST(Nnc, TheCaseOfTwoProducts) {
  // gemm(a, b) = c, gemm(c, d) = e with a, d, e bound by the caller: the arena is exactly b + c, aligned.
  const PartialProblem problem = ChainOfTasks(3, {Use(100, 0, 1), Use(60, 1, 2)});
  EXPECT_EQ(NncTotal(problem, NncRule::kLater), 128 + 60);
}

TEST(Nnc, RandomSerialProblemsVerify) {
  std::mt19937 random(4);
  for (int round = 0; round < 400; ++round) {
    const Problem problem = RandomProblem(random, 3 + static_cast<int>(random() % 30));
    for (const auto place : {PlaceNnc, PlaceNncSeed}) {
      const absl::StatusOr<Placement> placement = place(problem, {});
      ASSERT_TRUE(placement.ok());
      const absl::Status status = Verify(problem, placement->plan);
      ASSERT_TRUE(status.ok()) << status.message() << " round " << round;
      ASSERT_GE(placement->plan.arena_bytes, placement->report.lower_bound);
    }
  }
}

TEST(Nnc, RandomPartialProblemsAreSafe) {
  std::mt19937 random(5);
  const auto below = [&](int32_t limit) { return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)); };
  for (int round = 0; round < 400; ++round) {
    PartialProblem problem{.tasks = 4 + below(16)};
    for (int32_t t = 1; t < problem.tasks; ++t) {
      for (int k = below(3); k > 0; --k) problem.edges.emplace_back(below(t), t);
    }
    for (int i = 0; i < 12; ++i) {
      const int32_t head = below(problem.tasks);
      PartialBuffer buffer = Use(64 * (1 + below(8)), head, head);
      buffer.kind = below(8) == 0;
      for (const auto& [a, b] : problem.edges) {
        if (a == head && below(2) == 0) buffer.tails.push_back(b);
      }
      problem.buffers.push_back(buffer);
    }
    ASSERT_GT(NncTotal(problem, NncRule::kLater), 0) << "round " << round;
    ASSERT_GT(NncTotal(problem, NncRule::kSeed), 0) << "round " << round;
  }
}

}  // namespace
}  // namespace snug::core::memory
