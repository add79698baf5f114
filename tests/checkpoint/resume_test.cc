#include "engine/train/checkpoint/resume.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "engine/compile/kernels/tuning.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/store.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/run/train_util.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kNetwork[] = R"(
  name: "small"
  input { name: "x" shape { dim: 3 } }
  input { name: "label" dtype: INT32 max_value: 2 }
  layer { name: "fc" input: "x" dense { units: 2 } }
  layer { name: "loss" input: "fc" input: "label" softmax_cross_entropy {} }
  objective: "loss")";

// That both ways between the command and the library keep the bits: tests/embed/exchange_test.cc.
class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : session_(*MakeSession(kNetwork, {.batch = 4}, /*seed=*/1)) {}

  // A checkpoint made on conditions that differ from the session's by these.
  void Save(const Metadata& differences) {
    Metadata conditions = ConditionsOf(*session_);
    for (const auto& [name, value] : differences) conditions[name] = value;
    ASSERT_TRUE(store_.Save(1, StateOf(*session_), conditions).ok());
  }
  absl::StatusOr<Resumed> ResumeWith(bool other_rounding) {
    return checkpoint::Resume(*session_, files_, store_.PathOf(1),
                              {.other_rounding = other_rounding,
                               .what = "--resume: ",
                               .advice = "advice",
                               .rounding_advice = "rounding advice"});
  }

  TemporaryFolder folder_;
  PosixFileSystem files_;
  CheckpointStore store_{&files_, folder_.path("checkpoints")};
  std::unique_ptr<Session> session_;
};

TEST_F(ResumeTest, GoesOnUnderTheSameConditions) {
  Save({});
  for (const bool other_rounding : {false, true}) {
    const auto resumed = ResumeWith(other_rounding);
    ASSERT_TRUE(resumed.ok()) << resumed.status().message();
    EXPECT_TRUE(resumed->differences.empty());
  }
}

TEST_F(ResumeTest, ATrainingIsFoundByItsFolderItsCheckpointsOrTheFile) {
  for (const int64_t step : {1, 2}) ASSERT_TRUE(SaveTraining(store_, step, *session_).ok());
  for (const std::string& path : {folder_.path(), folder_.path("checkpoints"), store_.PathOf(2)}) {
    const auto found = FindCheckpoint(files_, path);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(std::filesystem::canonical(found->path), std::filesystem::canonical(store_.PathOf(2))) << path;
    EXPECT_TRUE(Resume(*session_, files_, found->path, {}).ok());
  }
}

TEST_F(ResumeTest, EveryConditionIsKept) {
  Save({});
  const auto file = SafetensorsFile::Open(files_, store_.PathOf(1));
  ASSERT_TRUE(file.ok());
  for (const char* condition : {"network", "batch", "accumulate", "seed", "precision", "optimizer", "decay", "threads",
                                "tuning", "platform", "rounding"}) {
    EXPECT_TRUE(file->header().metadata.contains(condition)) << condition;
  }
}

TEST_F(ResumeTest, WhatDecidesAboutTheNumbersIsNeverOther) {
  for (const char* condition : {"network", "batch", "seed", "precision", "optimizer"}) {
    Save({{condition, "other"}});
    for (const bool other_rounding : {false, true}) {
      const absl::Status refused = ResumeWith(other_rounding).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(absl::StrCat("--resume: ", store_.PathOf(1), ": the checkpoint was made with ", condition,
                                         " other, this run has ")));
      EXPECT_THAT(std::string(refused.message()), HasSubstr("; advice"));
    }
  }
}

TEST_F(ResumeTest, OptimizersAreToldApartWhateverTheyKeep) {
  const std::pair<const char*, const char*> kinds[] = {
      {"sgd {}", "sgd"},         {"sgd { momentum: 0.9 }", "sgd"},
      {"adam {}", "adam"},       {"adamw {}", "adamw"},
      {"rmsprop {}", "rmsprop"}, {"rmsprop { momentum: 0.9 }", "rmsprop"},
      {"adagrad {}", "adagrad"}, {"lion {}", "lion"},
      {"lamb {}", "lamb"}};
  for (const auto& [written, kind] : kinds) {
    const std::string network = absl::StrCat(kNetwork, " optimizer { learning_rate: 0.1 ", written, " }");
    const auto session = MakeSession(network, {.batch = 4}, /*seed=*/1);
    ASSERT_TRUE(session.ok()) << written << ": " << session.status().message();
    EXPECT_EQ(ConditionsOf(**session)["optimizer"], kind) << written;
  }
}

TEST_F(ResumeTest, UpdatesInTurnAreOtherOnesThanAllAtOnce) {
  constexpr char kTwo[] = R"(
    name: "two"
    input { name: "x" shape { dim: 3 } }
    layer { name: "a" input: "x" dense { units: 1 } }
    layer { name: "b" input: "x" dense { units: 1 } }
    layer { name: "first" input: "a" reduce_mean {} }
    layer { name: "second" input: "b" reduce_mean {} }
    objective: ["first", "second"]
    optimizer { learning_rate: 0.1 adam {} })";
  const auto session = [&](const std::string& updates) {
    return *MakeSession(kTwo + updates, {.batch = 2}, /*seed=*/1);
  };
  const std::string in_turn =
      " update { objective: \"first\" parameter: \"a.*\" } update { objective: \"second\" parameter: \"b.*\" }";
  const std::string other =
      " update { objective: \"second\" parameter: \"b.*\" } update { objective: \"first\" parameter: \"a.*\" }";
  const auto all = session(""), two = session(in_turn);
  EXPECT_EQ(ConditionsOf(*all)["updates"], "one of all");
  EXPECT_THAT(ConditionsOf(*two)["updates"], testing::StartsWith("2 in turn, of "));
  EXPECT_EQ(ConditionsOf(*session(" update { objective: \"first\" parameter: \"a.*\" optimizer { sgd {} } }"
                                  " update { objective: \"second\" parameter: \"b.*\" }"))["optimizer"],
            "sgd and adam");
  const auto kinds_of_three = [&](const std::string& last) {
    constexpr char kThird[] = R"(
      layer { name: "c" input: "x" dense { units: 1 } } layer { name: "third" input: "c" reduce_mean {} }
      objective: "third"
      update { objective: "first" parameter: "a.*" optimizer { sgd {} } }
      update { objective: "second" parameter: "b.*" }
      update { objective: "third" parameter: "c.*" optimizer { )";
    return ConditionsOf(*session(absl::StrCat(kThird, last, " } }")))["optimizer"];
  };
  EXPECT_EQ(kinds_of_three("adam {}"), "sgd and adam and adam");
  EXPECT_EQ(kinds_of_three("adamw {}"), "sgd and adam and adamw");
  ASSERT_TRUE(SaveTraining(store_, 1, *two).ok());
  EXPECT_TRUE(Resume(*session(in_turn), files_, store_.PathOf(1), {}).ok());
  EXPECT_THAT(std::string(Resume(*session(""), files_, store_.PathOf(1), {}).status().message()),
              HasSubstr(", this run has one of all"));
  EXPECT_THAT(std::string(Resume(*session(other), files_, store_.PathOf(1), {}).status().message()),
              HasSubstr("made with updates 2 in turn, of "));
  Metadata older = ConditionsOf(*all);
  older.erase("updates");
  ASSERT_TRUE(store_.Save(2, StateOf(*all), older).ok());
  EXPECT_TRUE(Resume(*session(""), files_, store_.PathOf(2), {}).ok());
  EXPECT_THAT(std::string(Resume(*session(in_turn), files_, store_.PathOf(2), {}).status().message()),
              HasSubstr("made with updates one of all, this run has 2 in turn, of "));
}

TEST_F(ResumeTest, RowsOfTablesThatAreLeftAloneAreSoFromTheBeginning) {
  constexpr char kTable[] = R"(
    name: "table"
    input { name: "id" dtype: INT32 max_value: 500 }
    input { name: "label" dtype: INT32 max_value: 3 }
    layer { name: "table" input: "id" embedding { entries: 500 width: 3 } }
    layer { name: "loss" input: "table" input: "label" softmax_cross_entropy {} }
    objective: "loss"
    optimizer { learning_rate: 0.1 adam {} })";
  const auto session = [&](const std::vector<std::string>& tables) {
    return *MakeSession(kTable, {.batch = 6, .sparse_tables = {tables, OptionPlaces()}}, /*seed=*/1);
  };
  const auto step = [](Session& of, uint64_t i) {
    EXPECT_TRUE(FeedRandom(of, OpRegistry::Builtin(), i).ok());
    EXPECT_TRUE(of.Run().ok());
  };
  const auto through = session({"table.*"});
  step(*through, 1);
  ASSERT_TRUE(SaveTraining(store_, 1, *through).ok());
  step(*through, 2);
  const auto resumed = session({"table.*"});
  ASSERT_TRUE(Resume(*resumed, files_, store_.PathOf(1), {}).ok());
  step(*resumed, 2);
  for (const char* const kept : {"table.weight", "table.weight/m", "table.weight/v"}) {
    EXPECT_EQ(*resumed->GetVariable(kept), *through->GetVariable(kept));
  }
  EXPECT_THAT(std::string(Resume(*session({}), files_, store_.PathOf(1), {}).status().message()),
              HasSubstr("made with sparse_tables table.weight, this run has none"));
  EXPECT_EQ(ConditionsOf(*through)["optimizer"], "adam");
  // A checkpoint from before there was a choice does not say that it had none.
  Metadata older = ConditionsOf(*through);
  older.erase("sparse_tables");
  ASSERT_TRUE(store_.Save(3, StateOf(*through), older).ok());
  EXPECT_THAT(std::string(Resume(*session({"table.*"}), files_, store_.PathOf(3), {}).status().message()),
              HasSubstr("made with sparse_tables none, this run has table.weight"));
  EXPECT_TRUE(Resume(*session({}), files_, store_.PathOf(3), {}).ok());
}

TEST_F(ResumeTest, WhatChangesTheRoundingIsOtherOnlyWhereThatIsAllowed) {
  for (const char* condition : {"accumulate", "threads", "tuning", "platform", "rounding"}) {
    Save({{condition, "other"}});
    const absl::Status refused = ResumeWith(false).status();
    const std::string said = absl::StrCat("the checkpoint was made with ", condition, " other, this run has ");
    EXPECT_THAT(std::string(refused.message()), HasSubstr(said));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("; rounding advice"));
    const auto resumed = ResumeWith(true);
    ASSERT_TRUE(resumed.ok()) << resumed.status().message();
    EXPECT_THAT(resumed->differences, ElementsAre(HasSubstr(said)));
  }
}

TEST_F(ResumeTest, OptionsThatRoundOtherwiseAreAmongTheConditions) {
  const auto rounding_of = [](const CompileOptions& options) {
    return ConditionsOf(**MakeSession(kNetwork, options, /*seed=*/1))["rounding"];
  };
  EXPECT_EQ(rounding_of({.batch = 4}), "none");
  EXPECT_EQ(rounding_of({.batch = 4, .plain_kernels = true}), "plain-kernels");
  EXPECT_EQ(rounding_of({.batch = 4, .disabled_passes = {"fuse_elementwise", "common_subexpressions"}}),
            "disable-passes=common_subexpressions,fuse_elementwise");
  EXPECT_EQ(rounding_of({.batch = 4, .half_byte_indices = true}), "none") << "they have the same bits";
  EXPECT_EQ(rounding_of({.batch = 4, .update_as_made = true}), "update-as-made");
  EXPECT_EQ(rounding_of({.batch = 4, .gradients_from_outputs = true}), "none") << "there is nothing to do for it";
  // What a tuning chooses is said by the tuning.
  const auto tuning = std::make_shared<Tuning>();
  tuning->disabled_passes = {"fuse_elementwise"};
  EXPECT_EQ(
      rounding_of({.batch = 4, .tuning = tuning, .disabled_passes = {"fuse_elementwise", "common_subexpressions"}}),
      "disable-passes=common_subexpressions");
}

TEST_F(ResumeTest, WhatAnOlderCheckpointDoesNotSayIsNotCompared) {
  ASSERT_TRUE(store_.Save(1, StateOf(*session_), {{"decay", "all"}, {"batch", "4"}}).ok());
  EXPECT_TRUE(ResumeWith(false).ok());
}

}  // namespace
}  // namespace snug::core::checkpoint
