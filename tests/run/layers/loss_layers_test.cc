// Losses that are layers of several nodes, and their gradients, against PyTorch's numbers.
#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/train_util.h"

namespace snug::core {
namespace {

using testing::DoubleNear;
using testing::Pointwise;

const std::vector<double> kX = {0.5, -1.5, 2, 0, 0.25, -3};
const std::vector<double> kTarget = {0.25, 0.5, 0.875, 1, 0.75, 0.125};

// A batch of two rows of three.
std::unique_ptr<Session> MakeLoss(const std::string& loss, DType precision, const std::vector<double>& x = kX) {
  auto session = MakeSession(absl::StrCat(R"(
      input { name: "x" shape { dim: 3 } }
      input { name: "target" shape { dim: 3 } }
      layer { name: "loss" input: "x" input: "target" )",
                                          loss, R"( }
      objective: "loss")"),
                             {.batch = 2, .precision = precision, .gradients = {"x", "target"}});
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok()) return nullptr;
  EXPECT_TRUE((*session)->Feed("x", x).ok());
  EXPECT_TRUE((*session)->Feed("target", kTarget).ok());
  EXPECT_TRUE((*session)->Run().ok());
  return *std::move(session);
}

void ExpectLoss(const std::string& loss, double value, const std::vector<double>& dx,
                const std::vector<double>& dtarget) {
  SCOPED_TRACE(loss);
  for (const auto& [precision, tolerance] :
       {std::pair(DType::kFloat64, 1e-12), {DType::kFloat32, 1e-6}, {DType::kBFloat16, 1e-2}}) {
    const auto session = MakeLoss(loss, precision);
    ASSERT_NE(session, nullptr);
    // All numbers of x and target are bfloat16's, and the loss is float32 there, too.
    EXPECT_NEAR(*session->FetchScalar("loss"), value, precision == DType::kFloat64 ? 1e-12 : 1e-6);
    EXPECT_THAT(*session->Fetch("d(x)"), Pointwise(DoubleNear(tolerance), dx));
    EXPECT_THAT(*session->Fetch("d(target)"), Pointwise(DoubleNear(tolerance), dtarget));
  }
}

TEST(LossLayers, L1Loss) {
  ExpectLoss("l1_loss {}", 1.3333333333333333,
             {0.16666666666666666, -0.16666666666666666, 0.16666666666666666, -0.16666666666666666,
              -0.16666666666666666, -0.16666666666666666},
             {-0.16666666666666666, 0.16666666666666666, -0.16666666666666666, 0.16666666666666666, 0.16666666666666666,
              0.16666666666666666});
}

TEST(LossLayers, HuberLoss) {
  ExpectLoss("huber_loss {}", 0.9010416666666666,
             {0.041666666666666664, -0.16666666666666666, 0.16666666666666666, -0.16666666666666666,
              -0.08333333333333333, -0.16666666666666666},
             {-0.041666666666666664, 0.16666666666666666, -0.16666666666666666, 0.16666666666666666,
              0.08333333333333333, 0.16666666666666666});
  ExpectLoss("huber_loss { delta: 2.25 }", 1.2981770833333333,
             {0.041666666666666664, -0.3333333333333333, 0.1875, -0.16666666666666666, -0.08333333333333333, -0.375},
             {-0.041666666666666664, 0.3333333333333333, -0.1875, 0.16666666666666666, 0.08333333333333333, 0.375});
}

TEST(LossLayers, BinaryCrossEntropyWithLogits) {
  ExpectLoss("binary_cross_entropy_with_logits {}", 0.6554320375363939,
             {0.0620765552003091, -0.05292907936560728, 0.0009661796629803857, -0.08333333333333333,
              -0.03130391651903366, -0.012929021137072205},
             {-0.08333333333333333, 0.25, -0.3333333333333333, -0.0, -0.041666666666666664, 0.5});
}

TEST(LossLayers, KlDivergence) {
  ExpectLoss(
      "kl_divergence {}", -1.111589448077609, {-0.125, -0.25, -0.4375, -0.5, -0.375, -0.0625},
      {-0.4431471805599453, 0.9034264097200273, -0.5667656963122614, 0.5, 0.23115896377410955, 0.9602792291600821});
}

TEST(LossLayers, CosineSimilarityLoss) {
  ExpectLoss("cosine_similarity_loss {}", 0.8123035281875433,
             {-0.03087410307326175, -0.14347377310515758, -0.09988680406055273, -0.1322133454932891,
              -0.09984387125182864, -0.008320322604319055},
             {-0.045166207053467335, 0.381859750542951, -0.20530094115212424, -0.015708516296232364,
              -0.04483472359549655, 0.39467647194283817});
  ExpectLoss("cosine_similarity_loss { axis: 0 }", 0.9121245183294867,
             {0.0, -0.032862036222526356, -0.06939494012581895, -0.6467616667635545, -0.19717221733515816,
              -0.046263293417212636},
             {-0.3043584314181433, 0.2805912323615712, -0.04811382515390114, 0.07608960785453583, -0.1870608215743808,
              0.33679677607730807});
  ExpectLoss("cosine_similarity_loss { epsilon: 2.5 }", 0.9242045611658781,
             {-0.012822978066727417, -0.059589133368909766, -0.04148610551000047, -0.06643638388299197,
              -0.05017092438060428, -0.0041809103650503575},
             {-0.03922322702763681, 0.11766968108291043, -0.15689290811054724, 0.0, -0.016609095970747993,
              0.19930915164897592});
}

TEST(LossLayers, AVectorOfLength0HasNoGradient) {
  const auto session = MakeLoss("cosine_similarity_loss {}", DType::kFloat64, {0, 0, 0, 0.25, -1, 2});
  EXPECT_THAT(*session->Fetch("d(target)"), testing::Each(testing::Truly([](double x) { return std::isfinite(x); })));
  EXPECT_THAT(*session->Fetch("d(target)"), testing::Contains(0).Times(3));
}

TEST(LossLayers, ATargetOfAnotherShapeIsAnError) {
  for (const std::string loss : {"l1_loss {}", "cosine_similarity_loss {}"}) {
    const auto session = MakeSession(absl::StrCat(R"(
      input { name: "x" shape { dim: 3 } }
      input { name: "target" shape { dim: 1 } }
      layer { name: "loss" input: "x" input: "target" )",
                                                  loss, R"( }
      objective: "loss")"),
                                     {.batch = 2});
    EXPECT_THAT(std::string(session.status().message()),
                testing::HasSubstr("input 1 \"target\" [2, 1]: expected shape [2, 3]"));
  }
}

TEST(LossLayers, AnEpsilonThatFloatsCannotSquareIsAnError) {
  const auto session = MakeSession(R"(
      input { name: "x" shape { dim: 3 } }
      input { name: "target" shape { dim: 3 } }
      layer { name: "loss" input: "x" input: "target" cosine_similarity_loss { epsilon: 1e-30 } }
      objective: "loss")",
                                   {.batch = 2});
  EXPECT_THAT(std::string(session.status().message()),
              testing::HasSubstr("epsilon\": expected at least 1.1e-19, found 1e-30"));
}

}  // namespace
}  // namespace snug::core
