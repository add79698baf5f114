// Errors about options name them as they were written: in a file, on the command line, in a program.
#include "proto/option_places.h"

#include <gtest/gtest.h>

#include "proto/text_loader.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

TEST(OptionPlaces, NameAnOptionAsItIsWrittenThere) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadTrainingFile(test::SourcePath("tests/data/memory_options.pbtxt"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const auto error = [](const OptionPlaces& places, absl::string_view option) {
    return std::string(places.Error(option, "wrong").message());
  };
  const OptionPlaces file = OptionPlaces::InFile(loaded->source_map);
  EXPECT_EQ(error(file, "training.memory.gc_fraction"),
            test::SourcePath("tests/data/memory_options.pbtxt:5:18: training.memory.gc_fraction: wrong"));
  EXPECT_EQ(error(OptionPlaces::OnCommandLine(), "training.memory.gc_fraction"), "--gc-fraction: wrong");
  EXPECT_EQ(error(OptionPlaces::InProgram(), "training.memory.gc_fraction"), "option \"gc_fraction\": wrong");
  EXPECT_EQ(error(OptionPlaces(), "training.memory.gc_fraction"), "training.memory.gc_fraction: wrong");
  EXPECT_EQ(error(OptionPlaces::OnCommandLine(), "training.checkpoint.keep"), "--checkpoint-keep: wrong");
  EXPECT_EQ(error(OptionPlaces::OnCommandLine(), "optimizer.sgd.momentum"), "--sgd-momentum: wrong");

  EXPECT_EQ(file.Written("training.memory.strategy", "dynamic"), "training.memory.strategy: \"dynamic\"");
  EXPECT_EQ(OptionPlaces::OnCommandLine().Written("training.memory.strategy", "dynamic"), "--memory=dynamic");
  EXPECT_EQ(OptionPlaces::InProgram().Written("training.memory.strategy", "dynamic"), "memory = \"dynamic\"");
}

TEST(OptionPlaces, NameWhatNoFileHasByItsFlag) {
  const OptionPlaces flags = OptionPlaces::OnCommandLine();
  const OptionPlaces program = OptionPlaces::InProgram();
  EXPECT_EQ(flags.FlagError("plain-kernels", "wrong").message(), "--plain-kernels: wrong");
  EXPECT_EQ(program.FlagError("plain-kernels", "wrong").message(), "option \"plain_kernels\": wrong");
  EXPECT_EQ(flags.FlagWritten("device", "cuda"), "--device=cuda");
  EXPECT_EQ(program.FlagWritten("device", "cuda"), "device = \"cuda\"");
  EXPECT_EQ(flags.FlagName("plain-kernels"), "--plain-kernels");
  EXPECT_EQ(program.FlagName("plain-kernels"), "plain_kernels");
}

TEST(FlagNames, FollowThePathUnlessTheFieldSaysOtherwise) {
  EXPECT_EQ(FlagOfOption("training.steps"), "steps");
  EXPECT_EQ(FlagOfOption("training.schedule.one_cycle.peak_at"), "schedule-one-cycle-peak-at");
  EXPECT_EQ(FlagOfOption("training.memory.strategy"), "memory");
  EXPECT_EQ(FlagOfOption("training.memory.memory_limit"), "memory-limit");
}

}  // namespace
}  // namespace snug::core
