// Checkpoints between `snug train` and the library, both ways: what one has written the other goes on from, to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "snug/snug.h"

namespace snug::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kBatch = 8, kPixels = 784, kSamples = 48, kClasses = 10;
constexpr char kModel[] = SNUG_SOURCE_DIR "/models/mlp.pbtxt";

struct Said {
  int code = -1;
  std::string text;  // both streams
};

Said Snug(const std::string& arguments) {
  Said said;
  std::FILE* const pipe = popen(("OMP_WAIT_POLICY=passive " SNUG_BINARY " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return said;
  std::array<char, 4096> piece;
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) said.text += piece.data();
  said.code = WEXITSTATUS(pclose(pipe));
  return said;
}

// Blots at the place of each digit's class, in a table of their own.
class Exchange : public ::testing::Test {
 protected:
  Exchange() : images_(kSamples * kPixels), labels_(kSamples) {
    std::string name = (std::filesystem::temp_directory_path() / "snug-exchange-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::mt19937 random(5);
    std::ofstream table(folder_ + "/blots.csv");
    for (int s = 0; s < kSamples; ++s) {
      labels_[s] = s % kClasses;
      for (int i = 0; i < kPixels; ++i) {
        // Eighths, which text and float32 hold exactly.
        const bool inside = i / 78 == labels_[s];
        images_[s * kPixels + i] = static_cast<float>(random() % 4 + (inside ? 4 : 0)) / 8;
        table << images_[s * kPixels + i] << ',';
      }
      table << labels_[s] << '\n';
    }
  }
  ~Exchange() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // The rows in their own sequence, six batches an epoch.
  Said TrainUnder(const std::string& conditions, const std::string& output, int steps,
                  const std::string& more = "") const {
    return Snug("train " + conditions + " " + kModel + " --data=csv --data-csv-file=" + path("blots.csv") +
                " --data-shuffle=false --data-csv-test-file=" + path("blots.csv") +
                " --schedule=constant --learning-rate=0.0625 --output=" + path(output) +
                " --steps=" + std::to_string(steps) + " " + more);
  }
  Said Train(const std::string& output, int steps, const std::string& more = "") const {
    return TrainUnder("--threads=1 --seed=3 --batch=8", output, steps, more);
  }
  std::string Checkpoint(const std::string& output, int step) const {
    return path(output) + "/checkpoints/step-00000000" + std::to_string(step) + ".safetensors";
  }

  static Session Make(SessionOptions options = {.batch = kBatch, .seed = 3}) {
    Result<Network> network = Network::FromFile(kModel);
    EXPECT_TRUE(network.ok()) << network.status().message();
    network->Optimizer({{"learning_rate", 0.0625}, {"sgd.momentum", 0.9}});  // what `snug train` does unasked
    options.fetch = {"fc3"};
    Result<Session> session = Session::Create(*network, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return *std::move(session);
  }
  void Step(Session& session, int64_t step) const {
    const int64_t first = step * kBatch % kSamples;
    const Status status =
        session.Step({{"image", std::span(images_).subspan(static_cast<size_t>(first * kPixels), kBatch * kPixels)},
                      {"label", std::span(labels_).subspan(static_cast<size_t>(first), kBatch)}});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void TrainHere(Session& session, int until) const {
    for (int64_t step = session.steps(); step < until; ++step) Step(session, step);
  }
  static void ExpectSameState(Session& a, Session& b) {
    const std::vector<Variable> variables = *a.variables();
    for (const Variable& variable : variables) {
      const Tensor x = *a.FindVariable(variable.name), y = *b.FindVariable(variable.name);
      ASSERT_EQ(x.size_bytes(), y.size_bytes());
      EXPECT_EQ(std::memcmp(x.data, y.data, static_cast<size_t>(x.size_bytes())), 0) << variable.name;
    }
  }

  std::string folder_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
};

TEST_F(Exchange, TheLibraryGoesOnFromTheProgram) {
  const Said whole = Train("program", 8, "--checkpoint-every=4");
  ASSERT_EQ(whole.code, 0) << whole.text;
  Session expected = Make(), session = Make();
  ASSERT_TRUE(expected.Restore(Checkpoint("program", 8)).ok());
  const Status restored = session.Restore(Checkpoint("program", 4));
  ASSERT_TRUE(restored.ok()) << restored.message();
  EXPECT_EQ(session.steps(), 4);
  TrainHere(session, 8);
  ExpectSameState(session, expected);

  Session by_directory = Make();
  ASSERT_TRUE(by_directory.Restore(path("program") + "/checkpoints").ok());  // the newest
  ExpectSameState(by_directory, expected);
}

TEST_F(Exchange, TheLibraryPredictsWhatTheProgramPredicts) {
  ASSERT_EQ(Train("program", 4).code, 0);
  Session session = Make();
  ASSERT_TRUE(session.Restore(Checkpoint("program", 4), Load::kWeights).ok());
  ASSERT_TRUE(session.SetLearningRate(0).ok());
  const Said table = Snug("predict " + std::string(kModel) + " --checkpoint=" + Checkpoint("program", 4) +
                          " --fetch=fc3 --threads=1 --batch=8 --data=csv --data-csv-file=" + path("blots.csv") +
                          " --data-csv-test-file=" + path("blots.csv"));
  ASSERT_EQ(table.code, 0) << table.text;
  std::istringstream lines(table.text);
  std::string line;
  do {  // what is said of the data, and then the names
    std::getline(lines, line);
  } while (line.rfind("data: ", 0) == 0);
  for (int s = 0; s < kSamples; ++s) {
    if (s % kBatch == 0) Step(session, s / kBatch);
    const std::vector<float> logits = *session.Fetch<float>("fc3");
    ASSERT_TRUE(std::getline(lines, line)) << "row " << s;
    std::istringstream row(line);
    std::string cell;
    std::getline(row, cell, ',');
    for (int c = 0; c < kClasses; ++c) {
      ASSERT_TRUE(std::getline(row, cell, ',')) << line;
      EXPECT_NEAR(std::stof(cell), logits[static_cast<size_t>(s % kBatch * kClasses + c)], 1e-4) << "row " << s;
    }
  }
}

TEST_F(Exchange, TheProgramGoesOnFromTheLibrary) {
  Session session = Make();
  TrainHere(session, 4);
  ASSERT_TRUE(session.Save(path("resumed") + "/checkpoints").ok());
  TrainHere(session, 8);
  const Said resumed = Train("resumed", 8, "--resume");
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_THAT(resumed.text, HasSubstr("goes on with batch 5 of epoch 1"));
  Session found = Make();
  ASSERT_TRUE(found.Restore(Checkpoint("resumed", 8)).ok());
  ExpectSameState(found, session);
}

// What differs, by the name it has in messages, as the library and as the program are told of it.
struct Condition {
  std::string said;  // "batch 4"
  SessionOptions options;
  std::string flags;  // of the program

  std::string folder() const { return said.substr(0, said.find(' ')) + said.substr(said.find(' ') + 1); }
};

const std::vector<Condition> kOtherSamples = {
    {"batch 4", {.batch = 4, .seed = 3}, "--threads=1 --seed=3 --batch=4"},
    {"seed 4", {.batch = kBatch, .seed = 4}, "--threads=1 --seed=4 --batch=8"},
    {"precision bfloat16",
     {.batch = kBatch, .precision = DType::kBFloat16, .seed = 3},
     "--threads=1 --seed=3 --batch=8 --precision=bfloat16"},
    {"precision float64",
     {.batch = kBatch, .precision = DType::kFloat64, .seed = 3},
     "--threads=1 --seed=3 --batch=8 --precision=float64"},
};
const Condition kOtherThreads = {
    "threads 2", {.batch = kBatch, .threads = 2, .seed = 3}, "--threads=2 --seed=3 --batch=8"};

TEST_F(Exchange, NeitherGoesOnWithOtherSamplesSeedOrPrecision) {
  for (const Condition& other : kOtherSamples) {
    Session session = Make(other.options), same = Make();
    ASSERT_TRUE(session.Save(path(other.folder()) + "/checkpoints").ok());
    for (const Load load : {Load::kResume, Load::kContinue}) {
      const Status refused = same.Restore(path(other.folder()) + "/checkpoints", load);
      EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(refused.message(), HasSubstr("was made with " + other.said + ", this run has "));
      EXPECT_THAT(refused.message(), HasSubstr("create the session with the same, or take parameters and statistics"));
    }
    EXPECT_TRUE(same.Restore(path(other.folder()) + "/checkpoints", Load::kWeights).ok());
    const Said refused = Train(other.folder(), 8, "--resume");
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.text, HasSubstr("was made with " + other.said + ", this run has "));
    const bool batch = other.options.batch != kBatch;  // the program may go on with another one, if it is said so
    EXPECT_THAT(refused.text, HasSubstr(batch ? "; give it the same, or let it change: --resume-with=batch"
                                              : "; give it the same, or begin with its weights: --init-from"));
  }
}

TEST_F(Exchange, TheLibraryRefusesWhatTheProgramMadeUnderOtherConditions) {
  for (const Condition& other : kOtherSamples) {
    ASSERT_EQ(TrainUnder(other.flags, other.folder(), 1).code, 0);
    Session session = Make();
    EXPECT_THAT(session.Restore(Checkpoint(other.folder(), 1)).message(),
                HasSubstr("was made with " + other.said + ", this run has "));
    EXPECT_EQ(session.steps(), 0) << "nothing was restored";
  }
}

TEST_F(Exchange, EverythingThatDiffersIsNamed) {
  Session session = Make({.batch = 4, .threads = 2, .seed = 4});
  ASSERT_TRUE(session.Save(path("other")).ok());
  EXPECT_THAT(
      Make().Restore(path("other")).message(),
      HasSubstr("the checkpoint was made with batch 4, this run has 8; it was made with seed 4, this run has 3; "
                "it was made with threads 2, this run has 1; create the session with the same"));
}

// What changes the rounding alone: the library refuses it too, unless it is told to go on as the program does, which
// says so.
TEST_F(Exchange, OtherThreadsAreRefusedOrContinuedAsTheProgramDoes) {
  Session before = Make();
  TrainHere(before, 4);
  ASSERT_TRUE(before.Save(path("threads") + "/checkpoints").ok());
  Session session = Make(kOtherThreads.options);
  const Status refused = session.Restore(Checkpoint("threads", 4));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("the checkpoint was made with threads 1, this run has 2; create the session "
                                           "with the same, or go on with what only rounds in another way: "
                                           "Load::kContinue"));
  EXPECT_EQ(session.steps(), 0);
  const Status continued = session.Restore(Checkpoint("threads", 4), Load::kContinue);
  ASSERT_TRUE(continued.ok()) << continued.message();
  TrainHere(session, 8);
  const Said resumed = TrainUnder(kOtherThreads.flags, "threads", 8, "--resume");
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_THAT(resumed.text,
              HasSubstr("warning: the checkpoint was made with threads 1, this run has 2: results differ in rounding"));
  Session found = Make(kOtherThreads.options);
  ASSERT_TRUE(found.Restore(Checkpoint("threads", 8)).ok());
  ExpectSameState(found, session);
}

TEST_F(Exchange, OtherMicroBatchesAreRefusedOrContinuedAsTheProgramDoes) {
  ASSERT_EQ(Train("parts", 4, "--accumulate=2").code, 0);
  Session session = Make();
  EXPECT_THAT(session.Restore(Checkpoint("parts", 4)).message(),
              HasSubstr("the checkpoint was made with accumulate 2, this run has 1; create the session with the same, "
                        "or go on"));
  ASSERT_TRUE(session.Restore(Checkpoint("parts", 4), Load::kContinue).ok());
  TrainHere(session, 8);
  const Said resumed = Train("parts", 8, "--resume");
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_THAT(resumed.text, HasSubstr("warning: the checkpoint was made with accumulate 2, this run has 1"));
  Session found = Make();
  ASSERT_TRUE(found.Restore(Checkpoint("parts", 8)).ok());
  ExpectSameState(found, session);
  const Said other = Train("parts", 9, "--resume --accumulate=2");  // and back, from what the library could have saved
  ASSERT_EQ(other.code, 0) << other.text;
  EXPECT_THAT(other.text, HasSubstr("made with accumulate 1, this run has 2"));
}

// A tuning may choose which passes run, too, and is said alone then.
TEST_F(Exchange, AnotherTuningIsRefusedOrContinuedAsTheProgramDoes) {
  const Said tuned =
      Snug("tune " + std::string(kModel) + " --batch=8 --threads=1 --seconds=0 --output=" + path("tuning.pbtxt"));
  ASSERT_EQ(tuned.code, 0) << tuned.text;
  ASSERT_EQ(Train("tuned", 4, "--tuning=" + path("tuning.pbtxt")).code, 0);
  Session session = Make();
  const Status refused = session.Restore(Checkpoint("tuned", 4));
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("the checkpoint was made with tuning "));
  EXPECT_THAT(refused.message(), HasSubstr(", this run has none; create the session with the same, or go on"));
  ASSERT_TRUE(session.Restore(Checkpoint("tuned", 4), Load::kContinue).ok());
  TrainHere(session, 8);
  const Said resumed = Train("tuned", 8, "--resume");
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_THAT(resumed.text, HasSubstr("warning: the checkpoint was made with tuning "));
  EXPECT_THAT(resumed.text, Not(HasSubstr("disable-passes")));
  Session found = Make();
  ASSERT_TRUE(found.Restore(Checkpoint("tuned", 8)).ok());
  ExpectSameState(found, session);
}

TEST_F(Exchange, TheProgramBeginsWithTheLibrarysWeights) {
  Session session = Make();
  TrainHere(session, 4);
  const Result<std::string> saved = session.Save(path("library"));
  ASSERT_TRUE(saved.ok());
  const Said begun = Train("begun", 1, "--learning-rate=0 --init-from=" + *saved);
  ASSERT_EQ(begun.code, 0) << begun.text;
  Session found = Make();
  ASSERT_TRUE(found.Restore(Checkpoint("begun", 1)).ok());
  EXPECT_EQ(found.steps(), 1);
  const std::vector<Variable> variables = *session.variables();
  for (const Variable& variable : variables) {
    if (!variable.parameter) continue;
    const Tensor x = *session.FindVariable(variable.name), y = *found.FindVariable(variable.name);
    EXPECT_EQ(std::memcmp(x.data, y.data, static_cast<size_t>(x.size_bytes())), 0) << variable.name;
  }
}

}  // namespace
}  // namespace snug::testing
