#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "engine/train/training_options.h"
#include "proto/text_loader.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

std::string Check(const std::string& text) {
  proto::Training training;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &training)) << text;
  return std::string(CheckTraining(training).message());
}

TEST(CheckTraining, TakesWhatMakesSense) {
  EXPECT_EQ(Check(""), "");
  EXPECT_EQ(Check("epochs: 3 batch: 1 schedule { warm_up: 10 staircase { at: 0.5 at: 1 } } data { digits {} }"), "");
  EXPECT_EQ(Check("steps: 1 checkpoint { keep: 1 every: 0 } data { held_back: 0 deviation: 0.5 }"), "");
}

TEST(CheckTraining, NamesWhatDoesNot) {
  for (const auto& [text, option] : std::vector<std::pair<const char*, const char*>>{
           {"epochs: 1 steps: 1", "epochs and steps"},
           {"epochs: -1", "training.epochs"},
           {"steps: -5", "training.steps"},
           {"seed: -1", "training.seed"},
           {"batch: 0", "training.batch"},
           {"accumulate: 0", "training.accumulate"},
           {"evaluate_every: -1", "training.evaluate_every"},
           {"checkpoint { keep: 0 }", "training.checkpoint.keep"},
           {"checkpoint { every: -2 }", "training.checkpoint.every"},
           {"schedule { warm_up: -1 }", "training.schedule.warm_up"},
           {"schedule { staircase { at: 1.5 } }", "training.schedule.staircase.at"},
           {"schedule { staircase { factor: -0.1 } }", "training.schedule.staircase.factor"},
           {"schedule { cosine { final: nan } }", "training.schedule.cosine.final"},
           {"schedule { linear { final: -1 } }", "training.schedule.linear.final"},
           {"schedule { one_cycle { peak_at: 1.01 } }", "training.schedule.one_cycle.peak_at"},
           {"data { held_back: 1 }", "training.data.held_back"},
           {"data { deviation: 0 }", "training.data.deviation"},
           {"data { mean: inf }", "training.data.mean"},
           {"data { crop: -1 }", "training.data.crop"},
           {"data { images { least_area: 1.5 } }", "training.data.images.least_area"},
           {"data { images { jitter: -1 } }", "training.data.images.jitter"},
           {"data { images { hue: 0.6 } }", "training.data.images.hue"},
           {"data { digits { samples: -1 } }", "training.data.digits.samples"},
           {"data { text { window: 0 } }", "training.data.text.window"},
       }) {
    EXPECT_THAT(Check(text), testing::HasSubstr(option)) << text;
  }
}

TEST(CheckTraining, SaysWhereItWasWritten) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadNetworkText(
      "name: 'n' input { name: 'x' } layer { name: 'l' input: 'x' relu {} }\n"
      "training {\n  schedule { warm_up: 3 }\n  data {\n    deviation: [1, 0]\n  }\n}",
      "net.pbtxt");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const proto::Training& training = loaded->network.training();
  EXPECT_EQ(std::string(CheckTraining(training, OptionPlaces::InFile(loaded->source_map)).message()),
            "net.pbtxt:5:20: training.data.deviation: expected a number above 0, found 0");
  EXPECT_EQ(std::string(CheckTraining(training, OptionPlaces::OnCommandLine()).message()),
            "--data-deviation: expected a number above 0, found 0");
}

}  // namespace
}  // namespace snug::core
