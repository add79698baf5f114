// Parity with PyTorch: the same weights, data and optimizer give the same ten steps. In double the two programs agree
// to 1e-9; in float32 no worse than PyTorch's own kernels agree with its double run.
#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "proto/network.pb.h"
#include "proto/text_loader.h"
#include "tests/testing/parity_golden.h"
#include "tests/testing/source_path.h"

namespace snug::core::test {
namespace {

constexpr int kThreads = 2;

struct ParityCase {
  const char* name;     // of the golden
  const char* network;  // from the root of the source
  bool large;           // minutes under a sanitizer, which sees the same kernels in the small ones
};

void PrintTo(const ParityCase& test, std::ostream* out) { *out << test.network; }

constexpr ParityCase kCases[] = {
    {"mlp", "models/mlp.pbtxt", false},
    {"lenet", "models/lenet.pbtxt", false},
    {"transformer", "tests/golden/parity/transformer.pbtxt", false},
    {"resnet18", "models/resnet18.pbtxt", true},
    {"resnet50", "models/resnet50.pbtxt", true},
    {"mobilenet_v2", "models/mobilenet_v2.pbtxt", true},
    {"squeezenet1_0", "models/squeezenet1_0.pbtxt", true},
    {"mnasnet0_5", "models/mnasnet0_5.pbtxt", true},
    {"googlenet_aux", "models/googlenet_aux.pbtxt", true},
    {"neumf", "models/neumf.pbtxt", false},
    {"autoencoder", "models/autoencoder.pbtxt", false},
    {"dcgan", "models/dcgan.pbtxt", false},
};

// More of the same, and minutes.
constexpr ParityCase kCampaignCases[] = {
    {"alexnet", "models/alexnet.pbtxt", true},
    {"bert_base", "models/bert_base.pbtxt", true},
    {"convnext_tiny", "models/convnext_tiny.pbtxt", true},
    {"densenet121", "models/densenet121.pbtxt", true},
    {"efficientnet_b0", "models/efficientnet_b0.pbtxt", true},
    {"googlenet", "models/googlenet.pbtxt", true},
    {"gpt2", "models/gpt2.pbtxt", true},
    {"inception_bn", "models/inception_bn.pbtxt", true},
    {"inception_v3", "models/inception_v3.pbtxt", true},
    {"llama_110m", "models/llama_110m.pbtxt", true},
    {"mnasnet1_0", "models/mnasnet1_0.pbtxt", true},
    {"r3d_18", "models/r3d_18.pbtxt", true},
    {"resnet34", "models/resnet34.pbtxt", true},
    {"resnet101", "models/resnet101.pbtxt", true},
    {"resnet152", "models/resnet152.pbtxt", true},
    {"resnet1001", "models/resnet1001.pbtxt", true},
    {"transformer_base", "models/transformer_base.pbtxt", true},
    {"unet", "models/unet.pbtxt", true},
    {"vgg11", "models/vgg11.pbtxt", true},
    {"vgg16", "models/vgg16.pbtxt", true},
    {"vgg19", "models/vgg19.pbtxt", true},
    {"vit_b16", "models/vit_b16.pbtxt", true},
    {"xlmr_base", "models/xlmr_base.pbtxt", true},
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Sets an option of a layer, one number or a list of them.
absl::Status Change(const GoldenChange& change, proto::Network* network) {
  for (proto::Layer& layer : *network->mutable_layer()) {
    if (layer.name() != change.layer) continue;
    const auto* op = layer.GetReflection()->GetOneofFieldDescriptor(layer, layer.GetDescriptor()->oneof_decl(0));
    google::protobuf::Message* options = layer.GetReflection()->MutableMessage(&layer, op);
    const auto* field = options->GetDescriptor()->FindFieldByName(change.option);
    if (field == nullptr) break;
    options->GetReflection()->ClearField(options, field);
    for (const int64_t number : change.numbers) {
      if (field->is_repeated()) {
        options->GetReflection()->AddInt64(options, field, number);
      } else {
        options->GetReflection()->SetInt64(options, field, number);
      }
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("no layer \"", change.layer, "\" with an option \"", change.option, "\""));
}

// The golden's image size, and nothing left out at random: our random numbers are not PyTorch's.
absl::Status Adapt(const ParityGolden& golden, proto::Network* network) {
  for (const GoldenChange& change : golden.changes) SNUG_RETURN_IF_ERROR(Change(change, network));
  for (proto::Input& input : *network->mutable_input()) {
    for (const GoldenTensor& tensor : golden.inputs) {
      if (tensor.name != input.name()) continue;
      input.mutable_shape()->clear_dim();
      for (int axis = 1; axis < tensor.shape.rank(); ++axis) input.mutable_shape()->add_dim(tensor.shape[axis]);
    }
  }
  for (proto::Layer& layer : *network->mutable_layer()) {
    if (layer.has_dropout()) layer.mutable_dropout()->set_rate(0);
    if (layer.has_stochastic_depth()) layer.mutable_stochastic_depth()->set_rate(0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> SessionAsInPyTorch(const ParityGolden& golden, proto::Network* network,
                                                            const SourceMap& locations, DType precision) {
  SNUG_RETURN_IF_ERROR(Adapt(golden, network));
  proto::Optimizer optimizer;
  optimizer.set_learning_rate(golden.learning_rate);
  if (golden.beta1 > 0) {
    optimizer.mutable_adam()->set_beta1(golden.beta1);
  } else {
    optimizer.mutable_sgd()->set_momentum(golden.momentum);
  }
  CompileOptions options{.batch = golden.batch, .precision = precision, .threads = kThreads};
  options.gradient_norm = true;
  options.keep_inputs = true;
  options.optimizer = &optimizer;
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(*network, locations, OpRegistry::Builtin(), options));
  int parameters = 0;
  for (const Variable& variable : compiled.graph.variables()) parameters += variable.role == VariableRole::kParameter;
  if (parameters != static_cast<int>(golden.parameters.size())) {
    return absl::InternalError(
        absl::StrCat("PyTorch has ", golden.parameters.size(), " parameters, the network ", parameters));
  }
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(std::move(compiled), {}));
  for (const GoldenTensor& tensor : golden.parameters) {
    SNUG_RETURN_IF_ERROR(session->SetVariable(tensor.name, tensor.Values()));
  }
  for (const GoldenTensor& tensor : golden.inputs) SNUG_RETURN_IF_ERROR(session->Feed(tensor.name, tensor.Values()));
  return session;
}

absl::StatusOr<GoldenCurve> CurveOf(const ParityGolden& golden, const ParityCase& test, DType precision) {
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(test::SourcePath(test.network)));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        SessionAsInPyTorch(golden, &loaded.network, loaded.source_map, precision));
  GoldenCurve curve;
  for (size_t step = 0; step < golden.in_double.losses.size(); ++step) {
    SNUG_RETURN_IF_ERROR(session->Run());
    double& loss = curve.losses.emplace_back(0);
    for (const std::string& objective : loaded.network.objective()) {
      SNUG_ASSIGN_OR_RETURN(const double part, session->FetchScalar(objective));
      loss += part;
    }
    SNUG_ASSIGN_OR_RETURN(curve.gradient_norms.emplace_back(), session->FetchScalar("gradient_norm"));
  }
  return curve;
}

void ExpectRelative(const char* what, const std::vector<double>& found, const std::vector<double>& expected,
                    double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t step = 0; step < found.size(); ++step) {
    EXPECT_NEAR(found[step], expected[step], tolerance * std::abs(expected[step])) << what << " of step " << step;
  }
}

class Parity : public testing::TestWithParam<ParityCase> {
 protected:
  void SetUp() override {
    if (kSanitized && GetParam().large) GTEST_SKIP() << "too slow under a sanitizer";
    auto golden = ReadParityGolden(test::SourcePath(absl::StrCat("tests/golden/parity/", GetParam().name, ".golden")));
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *std::move(golden);
    ASSERT_EQ(golden_.in_double.losses.size(), 10U);
    ASSERT_FALSE(golden_.in_float.empty());
  }

  void ExpectSameInDouble() {
    const auto curve = CurveOf(golden_, GetParam(), DType::kFloat64);
    ASSERT_TRUE(curve.ok()) << curve.status();
    ExpectRelative("loss", curve->losses, golden_.in_double.losses, 1e-9);
    ExpectRelative("gradient norm", curve->gradient_norms, golden_.in_double.gradient_norms, 1e-9);
  }

  void ExpectAsNearInFloat32() {
    const auto curve = CurveOf(golden_, GetParam(), DType::kFloat32);
    ASSERT_TRUE(curve.ok()) << curve.status();
    const GoldenCurve& truth = golden_.in_double;
    EXPECT_NEAR(curve->losses.front(), truth.losses.front(), 1e-5 * truth.losses.front());
    ExpectRelative("gradient norm", curve->gradient_norms, truth.gradient_norms, 2e-3);

    double pytorchs = truth.losses.back() * 0x1p-24;  // a float32 loss is not nearer than its last bit
    for (const auto& [variant, run] : golden_.in_float) {
      pytorchs = std::max(pytorchs, std::abs(run.losses.back() - truth.losses.back()));
    }
    EXPECT_LE(std::abs(curve->losses.back() - truth.losses.back()), 3 * pytorchs) << "PyTorch's own is " << pytorchs;
  }

  ParityGolden golden_;
};

TEST_P(Parity, InDouble) { ExpectSameInDouble(); }
TEST_P(Parity, InFloat32) { ExpectAsNearInFloat32(); }

INSTANTIATE_TEST_SUITE_P(Models, Parity, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class CampaignParity : public Parity {
 protected:
  void SetUp() override {
    if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
    Parity::SetUp();
  }
};

TEST_P(CampaignParity, InDouble) { ExpectSameInDouble(); }
TEST_P(CampaignParity, InFloat32) { ExpectAsNearInFloat32(); }

INSTANTIATE_TEST_SUITE_P(Models, CampaignParity, testing::ValuesIn(kCampaignCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace snug::core::test
