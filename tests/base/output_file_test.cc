#include "engine/base/text/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace snug::core {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  size_t Files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("output_file_" + std::to_string(getpid()));
};

TEST_F(OutputFileTest, TheOldFileStaysUntilTheNewOneIsWhole) {
  std::ofstream(Path("a")) << "old";
  auto file = OutputFile::Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->Write("new ");
  (*file)->Write("text");
  EXPECT_EQ(Read(Path("a")), "old");
  EXPECT_TRUE((*file)->Finish().ok());
  EXPECT_EQ(Read(Path("a")), "new text");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, LeftoversOfKilledWritersAreRemoved) {
  for (const char* name : {"a", "a.tmp0123abcd", "a.tmp99999999", "a.tmp", "a.tmp0123abcde", "b.tmp0123abcd"}) {
    std::ofstream(Path(name)) << name;
  }
  auto other = OutputFile::Create(Path("b"));  // that somebody else writes
  ASSERT_TRUE(other.ok()) << other.status().message();
  OutputFile::RemoveLeftovers(Path("a"));
  EXPECT_EQ(Read(Path("a")), "a");
  EXPECT_FALSE(std::filesystem::exists(Path("a.tmp0123abcd")));
  EXPECT_FALSE(std::filesystem::exists(Path("a.tmp99999999")));
  for (const char* kept : {"a.tmp", "a.tmp0123abcde", "b.tmp0123abcd"}) {
    EXPECT_TRUE(std::filesystem::exists(Path(kept))) << kept;
  }
  EXPECT_TRUE((*other)->Finish().ok());
  OutputFile::RemoveLeftovers(Path("nowhere/a"));
}

// A program that is killed finishes nothing.
TEST_F(OutputFileTest, NothingIsLeftOfAKilledWriter) {
  const int nameless = open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (nameless < 0) GTEST_SKIP() << "this file system has no files without names";
  close(nameless);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto file = OutputFile::Create(Path("a"));
    if (!file.ok()) _exit(1);
    (*file)->Write(std::string(1 << 20, 'x'));
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(Files(), 0u);
}

TEST_F(OutputFileTest, NothingIsLeftOfWhatIsNotFinished) {
  {
    auto file = OutputFile::Create(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status().message();
    (*file)->Write("text");
  }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(OutputFileTest, PlacesThatCannotBeWrittenAreNamedAtOnce) {
  const auto missing = OutputFile::Create(Path("no/such/folder"));
  EXPECT_THAT(std::string(missing.status().message()),
              testing::HasSubstr("no/such/folder: cannot be written: No such"));
  const auto is_folder = OutputFile::Create(folder_.string());
  EXPECT_THAT(std::string(is_folder.status().message()), testing::HasSubstr("expected the name of a file"));
  EXPECT_FALSE(OutputFile::Create("/dev/null").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, ANameThatIsTooLongIsToldAtOnce) {
  const auto file = OutputFile::Create(Path(std::string(250, 'a')));
  EXPECT_THAT(std::string(file.status().message()), testing::HasSubstr("cannot be written: File name too long"));
}

TEST_F(OutputFileTest, ALinkStaysAndWhatItLeadsToIsWritten) {
  std::ofstream(Path("a")) << "old";
  std::filesystem::create_symlink("a", Path("link"));
  auto file = OutputFile::Create(Path("link"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  (*file)->Write("new");
  EXPECT_TRUE((*file)->Finish().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("a")), "new");
  EXPECT_EQ(Files(), 2u);
}

TEST_F(OutputFileTest, WhatLiesInTheWayAtTheEndIsAnError) {
  auto file = OutputFile::Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::filesystem::create_directory(Path("a"));
  EXPECT_THAT(std::string((*file)->Finish().message()), testing::HasSubstr("a: cannot be written"));
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace snug::core
