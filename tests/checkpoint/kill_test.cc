// A process that saves as fast as it can is killed again and again (kill -9), at no particular moment: whatever it had
// acknowledged is there, whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/store.h"
#include "tests/checkpoint/checkpoint_content.h"
#include "tests/checkpoint/temporary_folder.h"

namespace snug::core::checkpoint {
namespace {

constexpr size_t kElements = 200'000;

// In the child: saves steps from `first` on, and says each when its saving has returned.
[[noreturn]] void SaveForEver(const std::string& folder, int64_t first, int acknowledge) {
  PosixFileSystem files;
  CheckpointStore store(&files, folder, kKeepTwo);
  for (int64_t step = first;; ++step) {
    const ContentOfStep content(step, kElements);
    if (!store.Save(step, content.tensors(), content.metadata()).ok()) _exit(1);
    if (write(acknowledge, &step, sizeof(step)) != sizeof(step)) _exit(2);
  }
}

// Kills a child after some acknowledgements and `wait`; the last step it acknowledged, or `first` - 1.
int64_t SaveUntilKilled(const std::string& folder, int64_t first, int acknowledgements,
                        std::chrono::microseconds wait) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) SaveForEver(folder, first, ends[1]);
  close(ends[1]);
  int64_t last = first - 1;
  int64_t step = 0;
  while (acknowledgements-- > 0 && read(ends[0], &step, sizeof(step)) == sizeof(step)) last = step;
  const auto end = std::chrono::steady_clock::now() + wait;
  while (std::chrono::steady_clock::now() < end) {
  }
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself, with " << WEXITSTATUS(status);
  while (read(ends[0], &step, sizeof(step)) == sizeof(step)) last = step;
  close(ends[0]);
  return last;
}

void KillRounds(int rounds, int* in_the_midst) {
  const TemporaryFolder folder;
  PosixFileSystem files;
  std::mt19937_64 random(20);
  int64_t first = 1;
  for (int round = 0; round < rounds; ++round) {
    const auto acknowledgements = static_cast<int>(random() % 3);
    const std::chrono::microseconds wait(random() % 8000);
    const int64_t acknowledged = SaveUntilKilled(folder.path(), first, acknowledgements, wait);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      *in_the_midst += entry.path().extension() == ".tmp" ? 1 : 0;
    }
    const auto found = CheckpointStore(&files, folder.path(), kKeepTwo).Newest();
    if (!found.ok()) {
      ASSERT_EQ(acknowledged, 0) << found.status();
      continue;
    }
    ASSERT_TRUE(found->warnings.empty()) << found->warnings[0];
    ASSERT_TRUE(found->step == acknowledged || found->step == acknowledged + 1)
        << "round " << round << ": step " << found->step << ", acknowledged " << acknowledged;
    ASSERT_TRUE(ContentOfStep(found->step, kElements).IsIn(files, found->path)) << "round " << round;
    first = found->step + 1;
  }
}

TEST(KilledWriter, LosesNothingThatItAcknowledged) {
  int in_the_midst = 0;
  KillRounds(12, &in_the_midst);
}

TEST(KilledWriter, CampaignLosesNothingThatItAcknowledged) {
  if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a long one: set SNUG_CAMPAIGN";
  int in_the_midst = 0;
  KillRounds(200, &in_the_midst);
  EXPECT_GT(in_the_midst, 10) << "no kill came while a file was written";
  RecordProperty("in_the_midst", in_the_midst);
}

}  // namespace
}  // namespace snug::core::checkpoint
