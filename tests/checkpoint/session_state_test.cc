#include "engine/train/checkpoint/session_state.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/store.h"
#include "proto/network_writer.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/run/train_util.h"

namespace snug::core::checkpoint {
namespace {

using testing::HasSubstr;
using testing::Not;

// Everything that has state: batch norm, dropout, an optimizer.
std::string Network(const std::string& optimizer, int units = 12, bool extra = false) {
  return absl::StrCat(R"(
    name: "stateful"
    input { name: "x" shape { dim: 3 dim: 6 dim: 6 } }
    input { name: "label" dtype: INT32 max_value: 5 }
    layer { name: "conv" input: "x" conv { filters: 4 kernel: 3 } }
    layer { name: "bn" input: "conv" batch_norm {} }
    layer { name: "relu" input: "bn" relu {} }
    layer { name: "drop" input: "relu" dropout { rate: 0.4 } }
    layer { name: "flat" input: "drop" flatten {} }
    layer { name: "fc" input: "flat" dense { units: )",
                      units, R"( } }
    layer { name: "out" input: "fc" dense { units: 5 } } )",
                      extra ? R"(layer { name: "out2" input: "out" dense { units: 5 } })" : "", R"(
    layer { name: "loss" input: ")",
                      extra ? "out2" : "out", R"(" input: "label" softmax_cross_entropy {} }
    objective: "loss" )",
                      optimizer);
}

constexpr char kMomentum[] = "optimizer { learning_rate: 0.05 sgd { momentum: 0.9 } }";
constexpr char kAdam[] = "optimizer { learning_rate: 0.01 adam {} }";

std::unique_ptr<Session> MakeFed(const std::string& text, uint64_t seed, bool training = true) {
  auto session = MakeSession(text, {.batch = 4, .training = training}, seed);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

class SessionState : public testing::Test {
 protected:
  absl::StatusOr<CheckpointStore::Saved> Save(Session& session, int64_t step, const Metadata& metadata = {}) {
    return store_.Save(step, StateOf(session), metadata);
  }
  absl::StatusOr<LoadedState> Load(Session& session, int64_t step, LoadMode mode = LoadMode::kResume) {
    return LoadState(session, files_, store_.PathOf(step), mode);
  }
  std::string LoadError(Session& session, LoadMode mode = LoadMode::kResume) {
    const std::vector<std::byte> before = StateBytes(session);
    const auto loaded = Load(session, 1, mode);
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(StateBytes(session), before) << "an error changes nothing";
    return std::string(loaded.status().message());
  }

  TemporaryFolder folder_;
  PosixFileSystem files_;
  CheckpointStore store_{&files_, folder_.path("checkpoints")};
};

// What a network remembers from step to step comes back with a training that goes on; evaluation has no place for it.
TEST_F(SessionState, CarriedStateIsOfTheTraining) {
  const std::string text = R"(
    input { name: "x" shape { dim: 3 } }
    layer { name: "before" input: "x" state { dim: 3 next: "sum" } }
    layer { name: "sum" input: "x" input: "before" add {} }
    layer { name: "out" input: "sum" dense { units: 2 } }
    layer { name: "squares" input: "out" square {} }
    layer { name: "loss" input: "squares" reduce_sum {} }
    objective: "loss")";
  const auto session = MakeFed(text, 1);
  Losses(*session, 2);
  ASSERT_TRUE(Save(*session, 1).ok());
  const auto other = MakeFed(text, 2);
  ASSERT_TRUE(Load(*other, 1).ok());
  EXPECT_EQ(*other->GetVariable("before.carried_state"), *session->GetVariable("before.carried_state"));
  EXPECT_NE(*other->GetVariable("before.carried_state"), std::vector<double>(12, 0));
  const auto evaluating = MakeFed(text, 3, /*training=*/false);
  const auto loaded = Load(*evaluating, 1, LoadMode::kWeights);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(*evaluating->GetVariable("out.weight"), *session->GetVariable("out.weight"));
}

TEST_F(SessionState, ComesBackBitForBitWithTheCallersWords) {
  const auto session = MakeFed(Network(kAdam), 1);
  Losses(*session, 3);
  ASSERT_TRUE(Save(*session, 3, {{"epoch", "2"}, {"network", "stateful \"ü\"\n"}}).ok());
  const auto other = MakeFed(Network(kAdam), 2);
  const auto loaded = Load(*other, 3);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->metadata.at("epoch"), "2");
  EXPECT_EQ(loaded->metadata.at("network"), "stateful \"ü\"\n");
  EXPECT_EQ(loaded->metadata.at("snug.step"), "3");
  size_t parameters = 0;
  for (const auto& [name, variable] : StateVariables(*session)) {
    const ValueView theirs = *other->FindVariable(name);
    EXPECT_EQ(std::memcmp(variable.view.data, theirs.data, static_cast<size_t>(theirs.type->size_bytes())), 0) << name;
    parameters += variable.role == VariableRole::kParameter ? 1 : 0;
  }
  EXPECT_EQ(parameters, 8U);
  EXPECT_GT(StateOf(*session).size(), 8U + 2 * 8);  // and both slots of each, statistics, scalars
}

TEST_F(SessionState, GoesOnOnlyWithTheWeightDecayThatItHad) {
  const std::string decays = "optimizer { learning_rate: 0.05 weight_decay: 0.1 sgd {} }";
  const auto session = MakeFed(Network(decays), 1);
  ASSERT_TRUE(Save(*session, 1).ok());  // names no rule, as those from before there was a choice
  EXPECT_EQ(
      LoadError(*session),
      folder_.path("checkpoints/step-000000001.safetensors") +
          ": in its training weight decay did not act on fc.bias, out.bias, here it does; to go on with it, say so "
          "in these layers of the model: param { name: \"bias\" decay_mult: 0 }");
  EXPECT_TRUE(Load(*session, 1, LoadMode::kWeights).ok());
  EXPECT_TRUE(Load(*MakeFed(Network("optimizer { learning_rate: 0.05 sgd {} }"), 1), 1).ok()) << "nothing decays";
  const std::string said = decays + "training { no_decay: ['fc.bias', 'out.bias'] }";
  EXPECT_TRUE(Load(*MakeFed(Network(said), 1), 1).ok());

  ASSERT_TRUE(Save(*session, 1, {{"decay", "all"}}).ok());
  EXPECT_TRUE(Load(*session, 1).ok());
  auto former = MakeSession(Network(decays), {.batch = 4, .decay_rule = DecayRule::kNotDenseBiases});
  ASSERT_TRUE(former.ok());
  EXPECT_THAT(LoadError(**former), HasSubstr("acted on fc.bias, out.bias, here it does not"));
  ASSERT_TRUE(Save(*session, 1, {{"decay", "not-dense-biases"}}).ok());
  EXPECT_TRUE(Load(**former, 1).ok());
  ASSERT_TRUE(Save(*session, 1, {{"decay", "some"}}).ok());
  EXPECT_THAT(
      LoadError(*session),
      HasSubstr("metadata \"decay\": expected all or not-dense-biases, found \"some\"; it may be of a newer Snug"));
}

class Resume : public SessionState, public testing::WithParamInterface<std::string> {};

// The data comes from the seed; another one is given to the session that is loaded into, so that it has nothing right
// by chance.
void FeedSame(Session& session) { ASSERT_TRUE(FeedRandom(session, OpRegistry::Builtin(), 1).ok()); }

TEST_P(Resume, TrainsAsIfItHadNeverStopped) {
  const auto whole = MakeFed(GetParam(), 1);
  const std::vector<double> expected = Losses(*whole, 10);
  for (const int stop : {1, 4, 9}) {
    const auto first = MakeFed(GetParam(), 1);
    Losses(*first, stop);
    ASSERT_TRUE(Save(*first, stop).ok());
    const auto second = MakeFed(GetParam(), 2);
    const auto loaded = Load(*second, stop);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    FeedSame(*second);
    EXPECT_EQ(Losses(*second, 10 - stop), std::vector<double>(expected.begin() + stop, expected.end()));
    for (const auto& [name, variable] : StateVariables(*whole)) {
      const ValueView theirs = *second->FindVariable(name);
      EXPECT_EQ(std::memcmp(variable.view.data, theirs.data, static_cast<size_t>(theirs.type->size_bytes())), 0)
          << name << " after a stop at " << stop;
    }
  }
}

std::string Mlp(const std::string& optimizer) {
  return absl::StrCat(WriteNetworkText(LoadModel("mlp")->network), "\n", optimizer);
}

INSTANTIATE_TEST_SUITE_P(Networks, Resume,
                         testing::Values(Network(kMomentum), Network(kAdam), Mlp(kMomentum), Mlp(kAdam)));

TEST_F(SessionState, SaysWhatAnotherNetworkHas) {
  ASSERT_TRUE(Save(*MakeFed(Network(kMomentum, 12, true), 1), 1).ok());
  const auto session = MakeFed(Network(kMomentum, 9), 1);
  const std::string error = LoadError(*session);
  EXPECT_THAT(error, HasSubstr("step-000000001.safetensors: is not of this network, 10 tensors differ:\n"));
  EXPECT_THAT(error, HasSubstr("\n  \"fc.bias\": expected F32[9], found F32[12]"));
  EXPECT_THAT(error, HasSubstr("\n  \"out.weight/momentum\": expected F32[5, 9], found F32[5, 12]"));
  EXPECT_THAT(error, HasSubstr("\n  \"out2.bias\": not expected, found F32[5]"));
  EXPECT_THAT(error, Not(HasSubstr("conv")));
  const auto larger = MakeFed(Network(kMomentum, 12, true), 1);
  ASSERT_TRUE(Save(*MakeFed(Network(kMomentum), 1), 1).ok());
  EXPECT_THAT(LoadError(*larger), HasSubstr("\"out2.bias\": expected F32[5], missing in the file"));
}

TEST_F(SessionState, ListsTwentyDifferences) {
  ASSERT_TRUE(Save(*MakeFed(Network(kMomentum), 1), 1).ok());
  const auto session = MakeFed(Network(kAdam), 1);
  const std::string error = LoadError(*session);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 21);
  EXPECT_THAT(error, HasSubstr("\n  and "));
}

TEST_F(SessionState, RefusesADamagedFileAndStaysAsItIs) {
  const auto session = MakeFed(Network(kMomentum), 1);
  ASSERT_TRUE(Save(*session, 1).ok());
  std::fstream file(store_.PathOf(1), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  EXPECT_THAT(LoadError(*session), HasSubstr("its content does not have the checksum of its metadata"));
}

TEST_F(SessionState, EvaluationTakesTheWeightsOfTraining) {
  const auto training = MakeFed(Network(kAdam), 1);
  Losses(*training, 3);
  ASSERT_TRUE(Save(*training, 1).ok());
  const auto evaluation = MakeFed(Network(""), 2, /*training=*/false);
  EXPECT_THAT(LoadError(*evaluation), HasSubstr("not expected"));
  const auto loaded = Load(*evaluation, 1, LoadMode::kWeights);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const char* name : {"conv.weight", "bn.running_mean", "out.bias"}) {
    EXPECT_EQ(*evaluation->GetVariable(name), *training->GetVariable(name)) << name;
  }
}

TEST_F(SessionState, EvaluationTakesTheAveragesWhenAsked) {
  const auto training = MakeFed(Network("optimizer { learning_rate: 0.05 average { decay: 0.5 } sgd {} }"), 1);
  Losses(*training, 3);
  ASSERT_TRUE(Save(*training, 1).ok());
  const auto evaluation = MakeFed(Network(""), 2, /*training=*/false);
  ASSERT_TRUE(Load(*evaluation, 1, LoadMode::kWeights).ok());
  EXPECT_EQ(*evaluation->GetVariable("conv.weight"), *training->GetVariable("conv.weight"));
  const auto loaded = Load(*evaluation, 1, LoadMode::kAverages);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const char* name : {"conv.weight", "out.bias"}) {
    EXPECT_EQ(*evaluation->GetVariable(name), *training->GetVariable(absl::StrCat(name, "/average"))) << name;
    EXPECT_NE(*evaluation->GetVariable(name), *training->GetVariable(name)) << name;
  }
  EXPECT_EQ(*evaluation->GetVariable("bn.running_mean"), *training->GetVariable("bn.running_mean"));

  const auto without = MakeFed(Network(kAdam), 1);
  ASSERT_TRUE(Save(*without, 1).ok());
  EXPECT_THAT(LoadError(*evaluation, LoadMode::kAverages),
              HasSubstr(": has no averages of this network's parameters; a training keeps them with --average-decay"));
}

TEST_F(SessionState, FrozenParametersStandForTheirAverages) {
  std::string text = Network("optimizer { learning_rate: 0.05 average { decay: 0.5 } sgd {} }");
  const std::string conv = "layer { name: \"conv\" input: \"x\" ";
  text.replace(text.find(conv), conv.size(), conv + "param { name: \"weight\" frozen: true } ");
  const auto training = MakeFed(text, 1);
  Losses(*training, 2);
  EXPECT_FALSE(training->GetVariable("conv.weight/average").ok());
  ASSERT_TRUE(Save(*training, 1).ok());
  const auto evaluation = MakeFed(Network(""), 2, /*training=*/false);
  const auto loaded = Load(*evaluation, 1, LoadMode::kAverages);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(*evaluation->GetVariable("conv.weight"), *training->GetVariable("conv.weight"));
  EXPECT_EQ(*evaluation->GetVariable("conv.bias"), *training->GetVariable("conv.bias/average"));
}

TEST_F(SessionState, WeightsAreConverted) {
  const auto session = MakeFed(Network(kMomentum), 1);
  std::vector<TensorBytes> tensors = StateOf(*session);
  std::vector<double> wide = {0.1, -2, 3, 1e300, 5};  // out.bias
  for (TensorBytes& tensor : tensors) {
    if (tensor.name != "out.bias") continue;
    tensor.type = ElementType::kF64;
    tensor.bytes = {reinterpret_cast<const std::byte*>(wide.data()), wide.size() * sizeof(double)};
  }
  ASSERT_TRUE(store_.Save(1, tensors, {}).ok());
  EXPECT_THAT(LoadError(*session), HasSubstr("1 tensor differs:\n  \"out.bias\": expected F32[5], found F64[5]"));
  const auto loaded = Load(*session, 1, LoadMode::kWeights);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_THAT(*session->GetVariable("out.bias"),
              testing::ElementsAre(0.1F, -2, 3, std::numeric_limits<double>::infinity(), 5));
}

TEST_F(SessionState, IgnoresWhatPyTorchCounts) {
  const auto session = MakeFed(Network(kMomentum), 1);
  std::vector<TensorBytes> tensors = StateOf(*session);
  const int64_t batches = 7;
  tensors.push_back({.name = "bn.num_batches_tracked",
                     .type = ElementType::kI64,
                     .bytes = {reinterpret_cast<const std::byte*>(&batches), sizeof(batches)}});
  ASSERT_TRUE(store_.Save(1, tensors, {}).ok());
  for (const LoadMode mode : {LoadMode::kResume, LoadMode::kWeights}) {
    const auto loaded = Load(*session, 1, mode);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_THAT(loaded->notes, testing::ElementsAre("tensor \"bn.num_batches_tracked\": ignored, nothing reads it"));
  }
}

}  // namespace
}  // namespace snug::core::checkpoint
