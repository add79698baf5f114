// Code that is compiled at run time: what is kept, what is compiled anew, and that every call may fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/status.h"
#include "engine/cuda/cuda_code_cache.h"
#include "tests/cuda/fake_cuda.h"

namespace snug::core::cuda {
namespace {

using testing::HasSubstr;

const KernelSource kSource = {.name = "mul, add", .text = "__global__ void entry(A a) {}", .headers = {}};

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Code : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "snug_code_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    device_ = CudaDevice::Open(fake_.api(), 0).value();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::Status Get(CodeCache& cache, const KernelSource& source = kSource) {
    return cache.Get(*device_, source).status();
  }
  // Gets the code as a process that begins now does.
  absl::Status GetAnew(const KernelSource& source = kSource) {
    CodeCache cache(folder_);
    return Get(cache, source);
  }
  int64_t compiled() const { return fake_.Count("nvrtcCompileProgram"); }
  std::string OnlyFile() const {
    std::string path;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      EXPECT_EQ(path, "") << "and " << entry.path();
      path = entry.path().string();
    }
    return path;
  }

  FakeCuda fake_;
  std::shared_ptr<const CudaDevice> device_;
  std::string folder_;
};

TEST_F(Code, IsCompiledOnceInAProcess) {
  CodeCache cache("");
  ASSERT_TRUE(Get(cache).ok());
  ASSERT_TRUE(Get(cache).ok());
  EXPECT_EQ(compiled(), 1);
  EXPECT_EQ(fake_.Count("cuLibraryLoadData"), 1);
  ASSERT_TRUE(Get(cache, {.name = "other", .text = "__global__ void entry(B b) {}", .headers = {}}).ok());
  EXPECT_EQ(compiled(), 2);
}

TEST_F(Code, IsKeptForLaterProcesses) {
  ASSERT_TRUE(GetAnew().ok());
  ASSERT_TRUE(GetAnew().ok());
  EXPECT_EQ(compiled(), 1);
  EXPECT_EQ(fake_.Count("cuLibraryLoadData"), 2);
}

TEST_F(Code, OfAnotherHeaderOrDeviceIsAnother) {
  const SourceHeader header = {"a.h", "int a;"};
  ASSERT_TRUE(GetAnew().ok());
  ASSERT_TRUE(GetAnew({.name = "mul, add", .text = kSource.text, .headers = {&header, 1}}).ok());
  EXPECT_EQ(compiled(), 2);
  const std::string at_90 = CompilerText(*fake_.api(), {}, 9, 0).value();
  EXPECT_NE(at_90, CompilerText(*fake_.api(), {}, 8, 0).value());
  EXPECT_THAT(at_90, HasSubstr("NVRTC 13.0 --gpu-architecture=sm_90"));
}

TEST_F(Code, ThatIsNotWholeIsCompiledAndWrittenAnew) {
  ASSERT_TRUE(GetAnew().ok());
  const std::string path = OnlyFile();
  const std::string good = Bytes(path);
  std::string flipped = good;
  flipped[good.size() - 3] ^= 1;
  std::string other_key = good;
  other_key[20] ^= 1;
  int64_t expected = 1;
  for (const std::string& bad : {good.substr(0, good.size() - 1), good.substr(0, 30), std::string(), good + "x",
                                 flipped, other_key, std::string("something else")}) {
    std::ofstream(path, std::ios::binary) << bad;
    ASSERT_TRUE(GetAnew().ok());
    EXPECT_EQ(compiled(), ++expected) << bad.size() << " bytes of " << good.size();
    EXPECT_EQ(Bytes(OnlyFile()), good);
  }
}

TEST_F(Code, IsNeitherReadNorKeptWhereOthersMayWrite) {
  ASSERT_TRUE(GetAnew().ok());
  const std::filesystem::perms shared = std::filesystem::perms::owner_all | std::filesystem::perms::group_all;
  std::filesystem::permissions(folder_, shared);
  ASSERT_TRUE(GetAnew().ok());
  EXPECT_EQ(compiled(), 2);
  std::filesystem::remove(OnlyFile());
  ASSERT_TRUE(GetAnew().ok());
  EXPECT_EQ(OnlyFile(), "");
  EXPECT_FALSE(IsPrivate(folder_));
}

TEST_F(Code, IsNotKeptWhereNothingCanBeWritten) {
  std::ofstream(folder_) << "a file";
  ASSERT_TRUE(GetAnew().ok());
  ASSERT_TRUE(GetAnew().ok());
  EXPECT_EQ(compiled(), 2);
  EXPECT_EQ(Bytes(folder_), "a file");
}

TEST_F(Code, ThatDoesNotCompileSaysWhatTheCompilerSaid) {
  const absl::Status status = GetAnew({.name = "mul, add", .text = "#error", .headers = {}});
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 1: no good"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("compiling the kernel of mul, add"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(Code, EveryCallMayFailAndLeavesNothing) {
  const std::string before = fake_.Leaks();
  for (int64_t n = 0;; ++n) {
    fake_.ClearCalls();
    fake_.FailCall(n);
    CodeCache cache("");
    const absl::Status status = Get(cache);
    if (!fake_.has_failed()) {
      EXPECT_TRUE(status.ok());
      break;
    }
    const std::string failed = fake_.calls()[static_cast<size_t>(n)];
    EXPECT_EQ(status.ok(), failed == "nvrtcDestroyProgram") << failed;
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(failed));
      EXPECT_EQ(fake_.Leaks(), before) << failed;
    }
  }
  fake_.FailCall(-1);
  EXPECT_EQ(fake_.Leaks(), before);
}

TEST_F(Code, OfACompilerThatIsOlderThanTheDeviceIsForTheDriverToTranslate) {
  const auto text = [&](int major, int minor) { return CompilerText(*fake_.api(), {}, major, minor).value(); };
  EXPECT_THAT(text(12, 0), HasSubstr("=sm_120 "));
  EXPECT_THAT(text(12, 1), HasSubstr("=compute_120 "));
  EXPECT_THAT(text(10, 3), HasSubstr("=compute_100 "));
  EXPECT_THAT(text(3, 5), HasSubstr("=sm_35 ")) << "which it will refuse";
  fake_.ClearCalls();
  EXPECT_TRUE(CompileForDevice(*fake_.api(), kSource, 10, 3).ok());
  EXPECT_EQ(fake_.Count("nvrtcGetPTX"), 1);
  EXPECT_EQ(fake_.Count("nvrtcGetCUBIN"), 0);
}

TEST_F(Code, IsLaunchedByTheNameOfAKernelInIt) {
  CodeCache cache("");
  const auto code = cache.Get(*device_, kSource).value();
  const auto stream = CudaStream::Create(device_).value();
  const uint64_t argument[] = {1, 2};
  EXPECT_TRUE(code->Launch(*stream, "entry", {.blocks = 2}, argument).ok());
  EXPECT_EQ(fake_.Count("cuLaunchKernel"), 1);
  EXPECT_TRUE(code->Launch(*stream, "entry", {.blocks = 0}, argument).ok());
  EXPECT_EQ(fake_.Count("cuLaunchKernel"), 1);
  EXPECT_THAT(std::string(code->Launch(*stream, "exit", {}, argument).message()),
              HasSubstr("launching the kernel of mul, add: cuLibraryGetKernel failed"));
}

TEST(CodeFolder, IsTheUsersUnlessAnotherIsNamed) {
  const auto set = [](const char* name, const char* value) { setenv(name, value, 1); };
  set("SNUG_KERNEL_CACHE", "/k");
  EXPECT_EQ(DefaultCodeFolder(), "/k");
  set("SNUG_KERNEL_CACHE", "off");
  EXPECT_EQ(DefaultCodeFolder(), "");
  const char* const home = std::getenv("HOME");
  const std::string old_home = home == nullptr ? "" : home;
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  const std::string old_caches = caches == nullptr ? "" : caches;
  unsetenv("SNUG_KERNEL_CACHE");
  set("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(DefaultCodeFolder(), "/caches/snug/kernels");
  unsetenv("XDG_CACHE_HOME");
  set("HOME", "/home/someone");
  EXPECT_EQ(DefaultCodeFolder(), "/home/someone/.cache/snug/kernels");
  unsetenv("HOME");
  EXPECT_EQ(DefaultCodeFolder(), "");
  if (home != nullptr) set("HOME", old_home.c_str());
  if (caches != nullptr) set("XDG_CACHE_HOME", old_caches.c_str());
  set("SNUG_KERNEL_CACHE", "off");
}

}  // namespace
}  // namespace snug::core::cuda
