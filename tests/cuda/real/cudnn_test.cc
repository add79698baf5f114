// Tests with the real cuDNN, if this machine has it: what we describe to it is what it takes for a computation, and it
// has an engine for each convolution and each attention of our networks, as exact and steady as is wanted, within the
// workspace that is planned. No GPU is needed: since version 9.8 a device may be described. Nothing is run.
#include "ops/kernels/conv/cudnn.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"
#include "engine/cuda/cudnn_attention.h"
#include "engine/cuda/cudnn_conv.h"
#include "engine/cuda/cudnn_graph.h"
#include "tests/cuda/networks.h"

namespace snug::core {
namespace {

using cuda::CudnnAttention;
using cuda::CudnnConv;
using cuda::CudnnConvKind;
using cuda::CudnnPlans;

// What cuDNN wants to know of a device, in its words.
std::string DescriptionOf(absl::string_view name, int version, int processors, int shared_bytes, int l2_bytes,
                          int64_t bytes) {
  return absl::StrCat(
      R"({"cudaDeviceId":0,"deviceVer":)", version, R"(,"driverVer":13000,"smVersion":)", version,
      R"(,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
      R"("multiProcessorCount":)", processors, R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)",
      R"("maxSharedMemoryPerBlockOptin":)", shared_bytes, R"(,"reservedSharedMemoryPerBlock":1024,)",
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,)",
      R"("pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"smClockRateKHz":1500000,"memClockRateKHz":2000000,)",
      R"("l2CacheSize":)", l2_bytes, R"(,"totalGlobalMem":)", bytes, R"(,"deviceName":")", name, R"("})");
}
struct Described {
  const char* name;
  std::string json;
};
const Described& DeviceNamed(const std::string& name) {
  static const auto* const kAll = new std::vector<Described>{
      {"h100", DescriptionOf("NVIDIA H100 80GB HBM3", 900, 132, 232448, 52428800, 85017493504)},
      {"h200", DescriptionOf("NVIDIA H200", 900, 132, 232448, 62914560, 150754820096)},
      {"a100", DescriptionOf("NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040, 84987740160)},
      {"l4", DescriptionOf("NVIDIA L4", 890, 58, 101376, 50331648, 23580639232)}};
  for (const Described& device : *kAll) {
    if (device.name == name) return device;
  }
  return kAll->front();
}

class RealCudnn : public testing::Test {
 protected:
  void SetUp() override {
    // cuDNN opens the driver by this name where an engine's kernels are compiled as they are prepared.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      ASSERT_NE(dlopen(SNUG_PRETENDED_DRIVER, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    }
    const std::string file = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen((SNUG_CUDA_LIBRARY_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) GTEST_SKIP() << "SKIPPED: no cuDNN: " << dlerror();
    cuda::Table table;
    const auto look_up = [library](const char* name, auto* entry) {
      *entry = reinterpret_cast<std::remove_pointer_t<decltype(entry)>>(dlsym(library, name));
    };
#define SNUG_CUDA_FUNCTION(library, function) \
  if (cuda::Library::library == cuda::Library::kCudnn) look_up(#function, &table.function);
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
    if (table.cudnnGetVersion() < 90800) GTEST_SKIP() << "SKIPPED: this cuDNN knows no described devices";
    api_ = std::make_unique<cuda::Api>(table, std::vector<cuda::LibraryState>{{cuda::Library::kCudnn, file, "", ""}});
  }

  cuda::CudnnTarget On(const std::string& name) {
    const std::string& json = DeviceNamed(name).json;
    device_ = cuda::CudnnDescriptor::Create(*api_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "").value();
    EXPECT_TRUE(device_
                    .Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
                         json.data(), "")
                    .ok());
    const absl::Status finished = device_.Finish("describing a device");
    EXPECT_TRUE(finished.ok()) << finished;
    return {.api = api_.get(), .device = device_.get()};
  }

  // Expects that the library can prepare an engine for it.
  template <class What>
  void ExpectServes(const cuda::CudnnTarget& target, const What& what) {
    const absl::StatusOr<std::unique_ptr<CudnnPlans>> plans = PlansOf(target, what);
    ASSERT_TRUE(plans.ok()) << plans.status();
    const absl::Status settled = (*plans)->Settle();
    EXPECT_TRUE(settled.ok()) << settled;
    if (settled.ok()) RecordProperty(Describe(what), (*plans)->Name());  // for who reads --gtest_output
    if (std::is_same_v<What, CudnnConv> && settled.ok()) ++served_;
  }

  // Does so for all that a network's training asks of the library.
  void ExpectServesNetwork(const cuda::CudnnTarget& target, const std::string& path, How how) {
    const LoadedNetwork loaded = LoadModel(path).value();
    how.strategy = "none";
    how.libraries = true;
    const absl::StatusOr<Compiled> compiled = CompileForCuda(loaded, how);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    std::set<CudnnConv> convs;
    std::set<CudnnAttention> attentions;
    for (size_t i = 0; i < compiled->kernels.size(); ++i) {
      const KernelChoice& choice = compiled->kernels[i];
      if (choice.kernel == nullptr) continue;
      const std::string& op = compiled->graph.node(NodeId{static_cast<int32_t>(i)}).op;
      const absl::string_view name = choice.kernel->name;
      if (name == "depthwise") continue;  // ours, where it is faster
      const bool is_conv = op.rfind("conv", 0) == 0 && name != "reorder";
      const bool is_attention = op.find("attention") != std::string::npos;
      if (is_conv || is_attention) {
        EXPECT_TRUE(name == "cudnn" || how.precision == DType::kFloat32) << op;
      }
      if (name != "cudnn") continue;
      if (is_attention) attentions.insert(*static_cast<const CudnnAttention*>(choice.prepared.get()));
      if (is_conv) convs.insert(static_cast<const ops::CudnnConvKernel*>(choice.prepared.get())->conv);
    }
    EXPECT_GT(convs.size() + attentions.size(), 0) << path;
    for (const CudnnConv& conv : convs) ExpectServes(target, conv);
    for (const CudnnAttention& attention : attentions) ExpectServes(target, attention);
  }

  std::unique_ptr<cuda::Api> api_;
  cuda::CudnnDescriptor device_;
  int served_ = 0;
};

// A channels-last convolution of images.
CudnnConv Image(CudnnConvKind kind, DType dtype, int n, int c, int size, int filters, int kernel, int stride, int pad) {
  const int out = (size + 2 * pad - kernel) / stride + 1;
  return {.kind = kind,
          .dtype = dtype,
          .channels_last = true,
          .x = {n, c, size, size},
          .w = {filters, c, kernel, kernel},
          .y = {n, filters, out, out},
          .pad_begin = {pad, pad},
          .pad_end = {pad, pad},
          .stride = {stride, stride},
          .dilation = {1, 1},
          .workspace_bytes = int64_t{1} << 40};
}

// float32 is computed as float32 unless somebody permits TF32: the library says of its engines what they need for it.
TEST_F(RealCudnn, FewerEnginesServeFloat32ThanTf32) {
  const cuda::CudnnTarget target = On("h100");
  for (const CudnnConvKind kind : {CudnnConvKind::kForward, CudnnConvKind::kGradInput, CudnnConvKind::kGradWeight}) {
    CudnnConv conv = Image(kind, DType::kFloat32, 64, 64, 56, 64, 3, 1, 1);
    std::set<std::string> names;
    for (const bool tf32 : {false, true}) {
      conv.tf32 = tf32;
      const std::unique_ptr<CudnnPlans> plans = PlansOf(target, conv).value();
      ASSERT_TRUE(plans->Settle().ok());
      names.insert(plans->Name());
    }
    EXPECT_EQ(names.size(), 2) << Describe(conv);
  }
}

TEST_F(RealCudnn, AddsBiasAndReluInOneSweep) {
  const cuda::CudnnTarget target = On("h100");
  CudnnConv conv = Image(CudnnConvKind::kForward, DType::kBFloat16, 64, 64, 56, 64, 3, 1, 1);
  conv.bias = true;
  for (const bool relu : {false, true}) {
    conv.relu = relu;
    const std::unique_ptr<CudnnPlans> plans = PlansOf(target, conv).value();
    ASSERT_TRUE(plans->Settle().ok());
    EXPECT_THAT(plans->Name(), testing::EndsWith("of graph 0")) << "of the two that say the same";
  }
}

TEST_F(RealCudnn, ServesOneAndThreeDimensionsAndUnevenPadding) {
  const cuda::CudnnTarget target = On("h100");
  for (const CudnnConvKind kind : {CudnnConvKind::kForward, CudnnConvKind::kGradInput, CudnnConvKind::kGradWeight}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
      CudnnConv uneven = Image(kind, dtype, 8, 64, 56, 64, 3, 2, 0);
      uneven.pad_end = {1, 1};
      uneven.y = {8, 64, 28, 28};
      ExpectServes(target, uneven);
      CudnnConv line = Image(kind, dtype, 8, 16, 1, 32, 1, 1, 0);
      line.x[3] = line.y[3] = 100;
      line.w[3] = 5;
      line.pad_begin[1] = line.pad_end[1] = 2;
      ExpectServes(target, line);
      ExpectServes(target, CudnnConv{.kind = kind,
                                     .dtype = dtype,
                                     .channels_last = true,
                                     .spatial = 3,
                                     .x = {2, 16, 8, 9, 10},
                                     .w = {32, 16, 3, 3, 3},
                                     .y = {2, 32, 8, 9, 10},
                                     .pad_begin = {1, 1, 1},
                                     .pad_end = {1, 1, 1},
                                     .stride = {1, 1, 1},
                                     .dilation = {1, 1, 1},
                                     .workspace_bytes = int64_t{1} << 40});
    }
  }
}

// Convolutions of few channels as they are folded (ops/kernels/conv/fold.h): with the library's usual workspace.
TEST_F(RealCudnn, ServesFoldedConvolutions) {
  const cuda::CudnnTarget target = On("h100");
  for (const CudnnConvKind kind : {CudnnConvKind::kForward, CudnnConvKind::kGradWeight}) {
    CudnnConv resnet = Image(kind, DType::kBFloat16, 256, 48, 115, 64, 4, 1, 0);
    resnet.x[3] = resnet.y[3] = 112;
    resnet.w[3] = 1;
    CudnnConv mobilenet = Image(kind, DType::kBFloat16, 128, 24, 113, 32, 2, 1, 0);
    mobilenet.x[3] = mobilenet.y[3] = 112;
    mobilenet.w[3] = 1;
    for (CudnnConv* conv : {&resnet, &mobilenet}) {
      conv->workspace_bytes = int64_t{64} << 20;
      ExpectServes(target, *conv);
    }
  }
}

TEST_F(RealCudnn, TakesAWrongDescriptionForOurFault) {
  const cuda::CudnnTarget target = On("h100");
  CudnnConv conv = Image(CudnnConvKind::kForward, DType::kBFloat16, 64, 64, 56, 64, 3, 1, 1);
  conv.y[2] = 55;
  const absl::Status status = PlansOf(target, conv).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("a fault of Snug's"));
}

TEST_F(RealCudnn, ServesAttentionOfManyShapes) {
  const cuda::CudnnTarget target = On("h100");
  struct Case {
    int64_t queries, keys, width;
    bool causal;
  };
  for (const Case& c : {Case{5, 5, 8, true}, Case{100, 64, 64, true}, Case{64, 333, 48, true},
                        Case{197, 197, 128, false}, Case{1, 50, 64, false}}) {
    const int64_t row = 4 * c.width;
    CudnnAttention attention{.batch = 2,
                             .heads = 4,
                             .queries = c.queries,
                             .keys = c.keys,
                             .width = c.width,
                             .q = {c.queries * row, c.width, row},
                             .k = {c.keys * row, c.width, row},
                             .v = {c.keys * row, c.width, row},
                             .out = {c.queries * row, c.width, row},
                             .causal = c.causal};
    for (const bool backward : {false, true}) {
      attention.backward = backward;
      attention.workspace_bytes = GroupWithin(attention, 0).workspace_bytes;
      ExpectServes(target, attention);
    }
  }
}

struct NetworkCase {
  const char *device, *path;
  int64_t batch;
  DType precision;
};
class RealCudnnNetworks : public RealCudnn, public testing::WithParamInterface<NetworkCase> {};

TEST_P(RealCudnnNetworks, HaveAnEngineForEachNodeWithinTheWorkspaceThatIsPlanned) {
  const NetworkCase& network = GetParam();
  ExpectServesNetwork(On(network.device), network.path, {.batch = network.batch, .precision = network.precision});
}

constexpr DType kBf16 = DType::kBFloat16;
INSTANTIATE_TEST_SUITE_P(All, RealCudnnNetworks,
                         testing::Values(NetworkCase{"h100", "models/resnet50.pbtxt", 256, kBf16},
                                         NetworkCase{"h200", "models/resnet50.pbtxt", 64, DType::kFloat32},
                                         NetworkCase{"a100", "models/resnet50.pbtxt", 256, kBf16},
                                         NetworkCase{"h100", "models/resnet18.pbtxt", 64, kBf16},
                                         NetworkCase{"h100", "models/lenet.pbtxt", 64, DType::kFloat32},
                                         NetworkCase{"h100", "models/mobilenet_v2.pbtxt", 128, kBf16},
                                         NetworkCase{"h100", "models/gpt2.pbtxt", 16, kBf16},
                                         NetworkCase{"h100", "models/gpt_small.pbtxt", 8, kBf16},
                                         NetworkCase{"h100", "models/vit_b16.pbtxt", 64, kBf16},
                                         NetworkCase{"a100", "models/gpt_small.pbtxt", 8, kBf16},
                                         NetworkCase{"l4", "models/gpt_small.pbtxt", 8, kBf16}),
                         [](const testing::TestParamInfo<NetworkCase>& info) {
                           std::string name = info.param.path;
                           name = name.substr(name.find('/') + 1);
                           return absl::StrCat(info.param.device, "_", name.substr(0, name.find('.')), "_",
                                               info.param.batch,
                                               info.param.precision == kBf16 ? "_bfloat16" : "_float32");
                         });

}  // namespace
}  // namespace snug::core
