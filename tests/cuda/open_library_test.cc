#include "engine/cuda/open_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace snug::core::cuda {
namespace {

using testing::HasSubstr;

constexpr char kFile[] = "libsnug_test_none.so.1";

class OpenLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "first");
    std::filesystem::create_directories(folder_ / "second");
    setenv(kFoldersVariable, (folder_ / "first").string().append(":").append(folder_ / "second").c_str(), 1);
  }
  void TearDown() override {
    unsetenv(kFoldersVariable);
    std::filesystem::remove_all(folder_);
  }
  // Copies a library that this machine has to `file`.
  void Put(const std::filesystem::path& file) const {
    void* const library = dlopen("libm.so.6", RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    const link_map* map = nullptr;
    ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    std::filesystem::copy_file(map->l_name, folder_ / file);
  }
  static std::string Problem(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    return std::string(status.message());
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("snug_open_library_" + std::to_string(getpid()));
};

TEST_F(OpenLibraryTest, FindsALibraryInTheFoldersThatAreNamedAndSaysInWhich) {
  Put(std::filesystem::path("second") / kFile);
  const absl::StatusOr<OpenedLibrary> opened = OpenLibrary(kFile);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->folder, (folder_ / "second").string());
}

TEST_F(OpenLibraryTest, FindsALibraryOfTheToolkitThatTheLoaderDoesNotKnow) {
  constexpr char kOfToolkit[] = "libsnug_test_toolkit.so.1";
  std::filesystem::create_directories(folder_ / "cuda/lib64");
  Put(std::filesystem::path("cuda/lib64") / kOfToolkit);
  EXPECT_FALSE(OpenLibrary(kOfToolkit).ok());
  const char* const before = std::getenv("CUDA_HOME");
  const std::string home = before == nullptr ? "" : before;
  setenv("CUDA_HOME", (folder_ / "cuda").c_str(), 1);
  const absl::StatusOr<OpenedLibrary> opened = OpenLibrary(kOfToolkit);
  before == nullptr ? unsetenv("CUDA_HOME") : setenv("CUDA_HOME", home.c_str(), 1);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->folder, (folder_ / "cuda/lib64").string());
}

TEST_F(OpenLibraryTest, OpensWhatLiesBesideItFirst) {
  Put(std::filesystem::path("second") / kFile);
  const absl::StatusOr<OpenedLibrary> opened = OpenLibrary(kFile);
  ASSERT_TRUE(opened.ok()) << opened.status();
  constexpr char kBeside[] = "libsnug_test_beside.so.1";
  EXPECT_THAT(Problem(OpenBeside(*opened, kBeside)), HasSubstr("libsnug_test_beside.so.1: cannot open"));
  Put(std::filesystem::path("second") / kBeside);
  EXPECT_TRUE(OpenBeside(*opened, kBeside).ok());
}

TEST_F(OpenLibraryTest, SaysWhatIsWrongWithAFileThatIsThere) {
  constexpr char kBad[] = "libsnug_test_bad.so.1";
  EXPECT_THAT(Problem(OpenLibrary(kBad).status()), HasSubstr("libsnug_test_bad.so.1: cannot open shared object"));
  std::ofstream(folder_ / "first" / kBad) << "no library";
  EXPECT_THAT(Problem(OpenLibrary(kBad).status()), HasSubstr("first/libsnug_test_bad.so.1: "));
}

}  // namespace
}  // namespace snug::core::cuda
