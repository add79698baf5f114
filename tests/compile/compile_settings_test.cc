// What users say about a compile is checked and finished in one place, for the command and for the library.
#include "engine/compile/compile_settings.h"

#include <gtest/gtest.h>

#include "engine/base/machine.h"
#include "engine/compile/defaults.h"
#include "proto/network.pb.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

std::string Refused(const CompileSettings& settings, const OptionPlaces& places) {
  return std::string(SettleCompile(settings, /*streams=*/1, places).status().message());
}

TEST(CompileSettings, StreamsShareTheProcessorsWhereNobodyGivesThreads) {
  const OptionPlaces places = OptionPlaces::InProgram();
  EXPECT_EQ(SettleCompile({}, 1, places)->threads, AvailableProcessors());
  EXPECT_EQ(SettleCompile({}, 1000, places)->threads, 1);
  EXPECT_EQ(SettleCompile({.threads = 7}, 2, places)->threads, 7);
}

TEST(CompileSettings, StochasticRoundingIsOfBFloat16) {
  const OptionPlaces places = OptionPlaces::InProgram();
  EXPECT_TRUE(SettleCompile({.precision = "bfloat16", .stochastic_rounding = true}, 1, places)->stochastic_rounding);
  EXPECT_FALSE(SettleCompile({.precision = "bfloat16"}, 1, places)->stochastic_rounding);
  EXPECT_FALSE(SettleCompile({.stochastic_rounding = false}, 1, places)->stochastic_rounding);
}

TEST(CompileSettings, ErrorsNameWhatWasSaidAsItIsWrittenThere) {
  const OptionPlaces flags = OptionPlaces::OnCommandLine();
  const OptionPlaces program = OptionPlaces::InProgram();
  EXPECT_EQ(Refused({.device = "gpu"}, flags), "--device: expected cpu, cuda or cuda:N, found \"gpu\"");
  EXPECT_EQ(Refused({.device = "gpu"}, program), "option \"device\": expected cpu, cuda or cuda:N, found \"gpu\"");
  EXPECT_EQ(Refused({.precision = "int32"}, flags),
            "--precision: expected float32, bfloat16 or float64, found \"int32\"");
  EXPECT_EQ(Refused({.stochastic_rounding = true}, flags),
            "--stochastic-rounding: expected --precision=bfloat16, whose parameters it rounds, found "
            "--precision=float32");
  EXPECT_EQ(Refused({.tf32 = true}, program),
            "option \"tf32\": expected device = \"cuda\", whose tensor cores compute so, found device = \"cpu\"");
  EXPECT_EQ(Refused({.tuning = "x", .plain_kernels = true}, flags),
            "--plain-kernels: a tuning chooses among fast ones; leave one of the two out");
}

TEST(Defaults, OfABatchDependOnWhatItIsFor) {
  proto::Network network;
  proto::Training training;
  const auto choose = [&](BatchFor purpose) { return ChooseBatch(purpose, 0, network, training); };
  const auto all = [&] {
    return std::vector<int64_t>{choose(BatchFor::kStep), choose(BatchFor::kTraining), choose(BatchFor::kInference)};
  };
  EXPECT_EQ(all(), (std::vector<int64_t>{1, 32, 64}));
  network.set_batch(8);
  EXPECT_EQ(all(), (std::vector<int64_t>{8, 8, 64}));
  training.set_batch(16);
  EXPECT_EQ(all(), (std::vector<int64_t>{16, 16, 64}));
  EXPECT_EQ(ChooseBatch(BatchFor::kInference, 5, network, training), 5);
}

}  // namespace
}  // namespace snug::core
