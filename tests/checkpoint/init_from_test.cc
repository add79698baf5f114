#include "engine/train/checkpoint/init_from.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/session_state.h"
#include "engine/train/checkpoint/store.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/run/train_util.h"
#include "tests/testing/source_path.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Session> MakeClassifier(int classes, const std::string& first, uint64_t seed) {
  auto session = MakeSession(absl::StrCat(R"(
    input { name: "x" shape { dim: 6 } } input { name: "label" dtype: INT32 max_value: 3 }
    layer { name: ")",
                                          first, R"(" input: "x" dense { units: 7 } }
    layer { name: "bn" input: ")",
                                          first, R"(" batch_norm {} }
    layer { name: "head" input: "bn" dense { units: )",
                                          classes, R"( } }
    layer { name: "loss" input: "head" input: "label" softmax_cross_entropy {} } objective: "loss")"),
                             {.batch = 4}, seed);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

class InitFromFile : public testing::Test {
 protected:
  void SetUp() override {
    Losses(*source_, 3);
    CheckpointStore store(&files_, folder_.path());
    ASSERT_TRUE(store.Save(3, StateOf(*source_), {}).ok());
    path_ = store.PathOf(3);
  }
  bool Same(Session& session, const std::string& name) {
    return *session.GetVariable(name) == *source_->GetVariable(name);
  }

  TemporaryFolder folder_;
  PosixFileSystem files_;
  std::unique_ptr<Session> source_ = MakeClassifier(3, "body", 1);
  std::string path_;
};

TEST_F(InitFromFile, LoadsWhatFitsAndSaysWhatDoesNot) {
  const auto session = MakeClassifier(5, "body", 2);
  const std::vector<double> head = *session->GetVariable("head.weight");
  const auto report = InitFrom(*session, files_, path_, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->loaded,
              ElementsAre("bn.bias", "bn.running_mean", "bn.running_var", "bn.weight", "body.bias", "body.weight"));
  EXPECT_THAT(report->untouched, ElementsAre("head.bias", "head.weight"));
  for (const std::string& name : report->loaded) EXPECT_TRUE(Same(*session, name)) << name;
  EXPECT_EQ(*session->GetVariable("head.weight"), head);
  EXPECT_EQ(*session->GetVariable("state.random"), (std::vector<double>{2, 0})) << "its own training begins";
  const std::string text = report->ToString();
  EXPECT_THAT(text, HasSubstr("loaded 6, not loaded "));
  EXPECT_THAT(text, HasSubstr("not loaded: \"head.bias\": it is F32[3], the network's is float32[5]"));
  EXPECT_THAT(text, HasSubstr("not loaded: \"body.weight/momentum\": state of the optimizer"));
  EXPECT_THAT(text, HasSubstr("as initialised: \"head.weight\""));
}

TEST_F(InitFromFile, TakesPatterns) {
  const auto session = MakeClassifier(3, "body", 2);
  const auto report = InitFrom(*session, files_, path_, {"b*", "!*.bias", "tail.*"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->loaded, ElementsAre("bn.running_mean", "bn.running_var", "bn.weight", "body.weight"));
  EXPECT_THAT(report->unused, ElementsAre("tail.*"));
  EXPECT_FALSE(Same(*session, "head.weight"));
  EXPECT_THAT(report->ToString(), HasSubstr("\"body.bias\": left out by \"!*.bias\""));
  EXPECT_THAT(report->ToString(), HasSubstr("\"head.weight\": no pattern names it"));
  EXPECT_THAT(report->ToString(), HasSubstr("pattern \"tail.*\" matches no tensor"));
}

TEST_F(InitFromFile, SuggestsTheNameThatWasMeant) {
  const auto session = MakeClassifier(3, "bodie", 2);
  const auto report = InitFrom(*session, files_, path_, {"!head.*"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->ToString(),
              HasSubstr("\"body.weight\": the network has none of that name; did you mean \"bodie.weight\"?"));
}

TEST_F(InitFromFile, IsAnErrorWhereNothingFits) {
  const auto session = MakeClassifier(3, "body", 2);
  const auto report = InitFrom(*session, files_, path_, {"layer1.*"});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("no tensor of it can be loaded\nloaded 0"));
  EXPECT_FALSE(Same(*session, "body.weight"));
}

// torch.save's nn.Linear(2, 1) under "module.", in a dict of other things (tests/data/torch/make.py).
TEST(InitFromTorchFile, LoadsAndSaysWhatWasChanged) {
  const auto session = MakeSession(R"(
    input { name: "x" shape { dim: 2 } } input { name: "target" shape { dim: 1 } }
    layer { name: "fc" input: "x" dense { units: 1 } }
    layer { name: "loss" input: "fc" input: "target" mean_squared_error {} } objective: "loss")",
                                   {.batch = 4}, 1);
  ASSERT_TRUE(session.ok()) << session.status().message();
  PosixFileSystem files;
  const auto report = InitFrom(**session, files, test::SourcePath("tests/data/torch/data_parallel.pth"), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(report->loaded, ElementsAre("fc.bias", "fc.weight"));
  EXPECT_EQ(*(*session)->GetVariable("fc.weight"), (std::vector<double>{1, 2}));
  EXPECT_EQ(*(*session)->GetVariable("fc.bias"), std::vector<double>{3});
  EXPECT_EQ(report->ToString(),
            "loaded 2, not loaded 0, as initialised 0\n"
            "  of the file: the state_dict under \"state_dict\" is taken\n"
            "  of the file: all names begin with \"module.\", of a wrapper of the module: removed");
}

}  // namespace
}  // namespace snug::core::checkpoint
