#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/store.h"
#include "tests/checkpoint/checkpoint_content.h"
#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Posix : public testing::Test {
 protected:
  absl::Status Write(const std::string& name, const std::string& text) {
    auto file = files_.Create(folder_.path(name));
    if (!file.ok()) return file.status();
    const absl::Status status = (*file)->Append({reinterpret_cast<const std::byte*>(text.data()), text.size()});
    return status.ok() ? (*file)->Close() : status;
  }
  TemporaryFolder folder_;
  PosixFileSystem files_;
};

TEST_F(Posix, WritesReadsRenamesListsAndRemoves) {
  ASSERT_TRUE(Write("b", "12345").ok());
  ASSERT_TRUE(Write("a", "").ok());
  EXPECT_THAT(*files_.List(folder_.path()), ElementsAre("a", "b"));
  ASSERT_TRUE(files_.Rename(folder_.path("b"), folder_.path("a")).ok());
  ASSERT_TRUE(files_.SyncDirectory(folder_.path()).ok());
  EXPECT_THAT(*files_.List(folder_.path()), ElementsAre("a"));
  const auto file = files_.Open(folder_.path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size_bytes(), 5);
  std::string text(3, ' ');
  ASSERT_TRUE((*file)->Read(2, {reinterpret_cast<std::byte*>(text.data()), text.size()}).ok());
  EXPECT_EQ(text, "345");
  EXPECT_EQ((*file)->Read(4, {reinterpret_cast<std::byte*>(text.data()), text.size()}).message(),
            folder_.path("a") + ": expected 2 more bytes at byte 5, found the end");
  ASSERT_TRUE(files_.Remove(folder_.path("a")).ok());
  EXPECT_THAT(*files_.List(folder_.path()), ElementsAre());
}

TEST_F(Posix, MakesDirectoriesWithTheirParents) {
  ASSERT_TRUE(files_.MakeDirectory(folder_.path("x/y//z/")).ok());
  ASSERT_TRUE(files_.MakeDirectory(folder_.path("x/y")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder_.path("x/y/z")));
  ASSERT_TRUE(Write("file", "").ok());
  EXPECT_EQ(files_.MakeDirectory(folder_.path("file")).message(),
            folder_.path("file") + ": expected a directory, found a file");
  EXPECT_FALSE(files_.MakeDirectory(folder_.path("file/below")).ok());
}

TEST_F(Posix, SaysWhatTheSystemSays) {
  const absl::Status missing = files_.Open(folder_.path("none")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), folder_.path("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(files_.Open(folder_.path()).status().message(), folder_.path() + ": expected a file, found a folder");
  EXPECT_THAT(std::string(files_.Create(folder_.path("no/file")).status().message()),
              HasSubstr("cannot create: No such"));
  EXPECT_THAT(std::string(files_.Rename(folder_.path("a"), folder_.path("b")).message()),
              HasSubstr("cannot rename to"));
  EXPECT_THAT(std::string(files_.List(folder_.path("none")).status().message()),
              HasSubstr("cannot list the directory: No such"));
  ASSERT_EQ(mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_.Open(folder_.path("pipe")).status().message(),
            folder_.path("pipe") + ": expected a file, found a device or a pipe");
}

// Somebody who may not do everything, as root may.
class Unprivileged {
 public:
  Unprivileged() { EXPECT_TRUE(geteuid() != 0 || seteuid(65534) == 0) << std::strerror(errno); }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() { EXPECT_TRUE(seteuid(user_) == 0) << std::strerror(errno); }

 private:
  uid_t user_ = geteuid();
};

TEST_F(Posix, ADirectoryThatMayNotBeWrittenIsSaid) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
  {
    const Unprivileged unprivileged;
    CheckpointStore store(&files_, folder_.path());
    const absl::Status status = SaveStep(store, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_EQ(status.message(), "checkpoint of step 1: " + store.PathOf(1) + ".tmp: cannot create: Permission denied");
  }
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
}

TEST_F(Posix, AFileThatMayNotBeReadIsSaid) {
  CheckpointStore store(&files_, folder_.path());
  for (const int64_t step : {1, 2}) ASSERT_TRUE(SaveStep(store, step).ok());
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(store.PathOf(2).c_str(), 0), 0);
  const Unprivileged unprivileged;
  const absl::Status status = store.Newest().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message(), store.PathOf(2) + ": cannot open: Permission denied");
}

// A disk that has room for the small checkpoints and not for the large one.
void FillTheDisk(FileSystem& files, const std::string& folder, absl::string_view reason) {
  CheckpointStore store(&files, folder);
  ASSERT_TRUE(SaveStep(store, 1).ok());
  const ContentOfStep large(2, 1'000'000);
  const absl::Status status = store.Save(2, large.tensors(), large.metadata()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "checkpoint of step 2: " + store.PathOf(2) + ".tmp: cannot write: " + std::string(reason));
  EXPECT_THAT(*files.List(folder), ElementsAre("step-000000001.safetensors"));
  const auto found = store.Newest();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(ContentOfStep(1).IsIn(files, found->path));
  EXPECT_TRUE(SaveStep(store, 3).ok());
}

TEST_F(Posix, AFullDiskLosesNothing) {
  const std::string disk = folder_.path("disk");
  ASSERT_TRUE(files_.MakeDirectory(disk).ok());
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk: " << std::strerror(errno);
  }
  FillTheDisk(files_, disk, "No space left on device");
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(Posix, ALimitOnFilesLosesNothing) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 1'000'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  FillTheDisk(files_, folder_.path("limited"), "File too large");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace snug::core::checkpoint
