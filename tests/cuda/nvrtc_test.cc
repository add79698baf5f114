// Tests with the real NVRTC, if this machine has it: every source that fusion writes for our networks, and for random
// chains, is compiled for the devices that matter. Nothing is run.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "engine/base/status.h"
#include "engine/cuda/cuda_compile.h"
#include "engine/cuda/cuda_table.h"
#include "ops/kernels/fused/cuda.h"
#include "tests/cuda/networks.h"
#include "tests/cuda/random_chains.h"

namespace snug::core {
namespace {

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    const std::string file = "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen((SNUG_CUDA_LIBRARY_DIR "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) GTEST_SKIP() << "SKIPPED: no NVRTC: " << dlerror();
    cuda::Table table;
    const auto look_up = [library](const char* name, auto* entry) {
      *entry = reinterpret_cast<std::remove_pointer_t<decltype(entry)>>(dlsym(library, name));
    };
#define SNUG_CUDA_FUNCTION(library, function) \
  if (cuda::Library::library == cuda::Library::kNvrtc) look_up(#function, &table.function);
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
    api_ = std::make_unique<cuda::Api>(table, std::vector<cuda::LibraryState>{{cuda::Library::kNvrtc, file, "", ""}});
  }

  void ExpectCompiles(const cuda::KernelSource& source, int major, int minor) {
    const absl::StatusOr<std::string> code = cuda::CompileForDevice(*api_, source, major, minor);
    ASSERT_TRUE(code.ok()) << code.status() << "\n" << source.text;
    EXPECT_EQ(code->substr(1, 3), "ELF") << source.text;
  }

  std::unique_ptr<cuda::Api> api_;
};

// Collects the sources of a network's whole training; the key is the text.
void CollectSources(const std::string& path, DType precision, std::map<std::string, cuda::KernelSource>* sources) {
  const LoadedNetwork loaded = LoadModel(path).value();
  const absl::StatusOr<Compiled> compiled =
      CompileGraph(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                   {.device = {Device::Kind::kCuda}, .batch = 2, .precision = precision, .threads = 1});
  ASSERT_TRUE(compiled.ok()) << path << ": " << compiled.status();
  for (const KernelChoice& choice : compiled->kernels) {
    if (choice.kernel == nullptr || choice.kernel->name != kFusedCudaRow) continue;
    const auto* const fused = static_cast<const FusedKernel*>(choice.prepared.get());
    sources->emplace(fused->source().text, fused->ForCompiler());
  }
}

TEST_F(Nvrtc, CompilesEveryKernelOfTheModels) {
  std::map<std::string, cuda::KernelSource> sources;
  for (const char* path :
       {"models/mlp.pbtxt", "models/lenet.pbtxt", "models/resnet20.pbtxt", "models/resnet50.pbtxt",
        "models/mobilenet_v2.pbtxt", "models/vit_b16.pbtxt", "models/gpt_small.pbtxt", "models/gpt_bytes.pbtxt",
        "tests/golden/parity/transformer.pbtxt", "tests/data/elementwise.pbtxt", "tests/data/conv_zoo.pbtxt"}) {
    for (const DType precision : {DType::kFloat32, DType::kBFloat16}) CollectSources(path, precision, &sources);
  }
  EXPECT_GT(sources.size(), 10U);
  for (const auto& [text, source] : sources) ExpectCompiles(source, 9, 0);
  RecordProperty("sources", std::to_string(sources.size()));
}

TEST_F(Nvrtc, CompilesChainsOfEveryOp) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const FusedKernel kernel(WriteFusedSource(test::MakeRandomChain(seed).chain));
    ExpectCompiles(kernel.ForCompiler(), 9, 0);
  }
}

TEST_F(Nvrtc, CompilesForOtherGenerations) {
  const FusedKernel kernel(WriteFusedSource(test::MakeRandomChain(1).chain));
  ExpectCompiles(kernel.ForCompiler(), 8, 0);
  ExpectCompiles(kernel.ForCompiler(), 10, 0);
}

TEST_F(Nvrtc, SaysWhatIsWrongWithASource) {
  const absl::Status status =
      cuda::CompileForDevice(*api_, {.name = "mul, add", .text = "int x = nothing;\n", .headers = {}}, 9, 0).status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("identifier \"nothing\" is undefined"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("compiling the kernel of mul, add"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--disable-passes=fuse_elementwise does without"));
}

TEST_F(Nvrtc, CompilesForTheDriverToTranslateWhereTheDeviceIsNewer) {
  const FusedKernel kernel(WriteFusedSource(test::MakeRandomChain(1).chain));
  const absl::StatusOr<std::string> code = cuda::CompileForDevice(*api_, kernel.ForCompiler(), 99, 0);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(*code, testing::HasSubstr(".target sm_"));
  EXPECT_EQ(code->back(), '\0');
}

TEST_F(Nvrtc, OfADeviceThatItKnowsNoMoreIsAnError) {
  const FusedKernel kernel(WriteFusedSource(test::MakeRandomChain(1).chain));
  EXPECT_THAT(std::string(cuda::CompileForDevice(*api_, kernel.ForCompiler(), 3, 5).status().message()),
              testing::HasSubstr("nvrtcCompileProgram failed"));
}

}  // namespace
}  // namespace snug::core
