#include "memory/ilp/anytime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/parallel.h"
#include "memory/ilp/child.h"

#if defined(__SANITIZE_ADDRESS__)
#define SNUG_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SNUG_ADDRESS_SANITIZER
#endif
#endif

namespace snug::core::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What looks at no clock, and never returns: as a solver does, if for seconds only.
[[noreturn]] void Forever() {
  static std::atomic<int64_t> steps;
  for (;;) steps.fetch_add(1);
}

double Seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A search that sends what it finds and then goes on for ever, ended after `limit` seconds.
Anytime EndedAfter(double limit) {
  Anytime anytime({.time_limit = limit});
  anytime.Take({.total = 100, .order = {0, 1}});
  const double seconds = Seconds([&] {
    const absl::Status status = anytime.Run([](const Anytime::Emit& emit) -> absl::Status {
      emit({.total = 80, .order = {1, 0}, .offsets = {5, 6}, .work = 3});
      emit({.total = 90, .order = {0, 1}});  // worse: not the answer
      emit({.peak_bound = 60, .bound = 70, .work = 4, .line = 1, .note = "under way"});
      Forever();
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  EXPECT_GE(seconds, 0.9 * limit);
  return anytime;
}

TEST(Anytime, EndsWhatNeverLooksAtTheClockAndKeepsWhatItFound) {
  double limit = 0.25;
  Anytime anytime = EndedAfter(limit);
  // A machine may be so slow that the search is ended before it has sent all.
  while (anytime.Report().notes.size() < 2) anytime = EndedAfter(limit *= 4);
  EXPECT_EQ(anytime.best().total, 80);
  EXPECT_THAT(anytime.best().order, ElementsAre(1, 0));
  EXPECT_THAT(anytime.best().offsets, ElementsAre(5, 6));
  EXPECT_EQ(anytime.peak_bound(), 60);
  const SearchReport report = anytime.Report();
  EXPECT_EQ(report.lower_bound, 70);
  EXPECT_EQ(report.work, 4);
  EXPECT_THAT(report.notes, ElementsAre("", "under way"));
  EXPECT_TRUE(report.clock_stopped);
  EXPECT_FALSE(report.proven);
}

TEST(Anytime, IsTheSameWithAndWithoutALimitThatDoesNotStrike) {
  for (const double limit : {0.0, 3600.0}) {
    Anytime anytime({.time_limit = limit});
    const absl::Status status = anytime.Run([](const Anytime::Emit& emit) -> absl::Status {
      for (int64_t total = 1000; total > 0; --total) {
        emit({.total = total, .order = TaskOrder(500, 1), .offsets = std::vector<int64_t>(500, total), .bound = 1});
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(anytime.best().total, 1);
    EXPECT_EQ(anytime.best().offsets, std::vector<int64_t>(500, 1));
    EXPECT_EQ(anytime.Report().curve.size(), 1000);
    EXPECT_TRUE(anytime.Report().proven);
    EXPECT_FALSE(anytime.Report().clock_stopped);
  }
}

TEST(Anytime, HandsErrorsOn) {
  for (const double limit : {0.0, 3600.0}) {
    Anytime anytime({.time_limit = limit});
    const absl::Status status =
        anytime.Run([](const Anytime::Emit&) { return absl::NotFoundError("there is no such thing"); });
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(status.message(), "there is no such thing");
  }
}

TEST(Anytime, KeepsWhatASearchFoundThatDied) {
  Anytime anytime({.time_limit = 3600});
  const absl::Status status = anytime.Run([](const Anytime::Emit& emit) -> absl::Status {
    emit({.total = 5, .line = 0, .note = "begun"});
    _exit(7);
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(anytime.best().total, 5);
  EXPECT_THAT(anytime.Report().notes, testing::ElementsAre("begun", HasSubstr("has died")));
}

TEST(Anytime, SaysWhenTheSearchDiedWithNothingFound) {
  Anytime anytime({.time_limit = 3600});
  const absl::Status status = anytime.Run([](const Anytime::Emit&) -> absl::Status { _exit(7); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has died"));
}

// As with nohup: what the program ignores must not end its search.
#if defined(_OPENMP) && !defined(SNUG_STD_THREADS)
// As the system's BLAS may, under the solver.
void Meet() {
#pragma omp parallel
  {
#pragma omp barrier
  }
}

TEST(Child, WaitsForNoThreadOfItsParent) {
  SetThreadsPerOp(2);
  Meet();  // now there is a second thread, which a fork does not have
  const absl::StatusOr<ChildEnd> end = RunInChild(
      600, [](const SendFn&) { Meet(); }, [](absl::string_view) {});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, ChildEnd::kReturned);
}
#endif

TEST(Child, OutlivesSignalsThatAreTheCallersToAnswer) {
  std::string received;
  const absl::StatusOr<ChildEnd> end = RunInChild(
      3600,
      [](const SendFn& send) {
        for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGQUIT}) raise(signal);
        send("alive");
      },
      [&](absl::string_view message) { received = std::string(message); });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, ChildEnd::kReturned);
  EXPECT_EQ(received, "alive");
}

TEST(Child, SendsMessagesOfAllSizesInSequence) {
  const std::vector<std::string> sent = {"", "a", std::string(1'000'000, 'x'), "", "last"};
  std::vector<std::string> received;
  const absl::StatusOr<ChildEnd> end = RunInChild(
      3600,
      [&](const SendFn& send) {
        for (const std::string& message : sent) send(message);
      },
      [&](absl::string_view message) { received.emplace_back(message); });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(*end, ChildEnd::kReturned);
  EXPECT_EQ(received, sent);
}

// The caller may have threads that allocate: the fork has to be able to, too.
TEST(Child, WorksBesideOtherThreads) {
#ifdef SNUG_ADDRESS_SANITIZER
  GTEST_SKIP() << "AddressSanitizer's own malloc does not survive a fork beside another thread that is in it";
#endif
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) std::string(1000, 'x').append("y");
  });
  for (int i = 0; i < 20; ++i) {
    int received = 0;
    const absl::StatusOr<ChildEnd> end = RunInChild(
        60, [](const SendFn& send) { send(std::string(100, 'a') + "b"); },
        [&](absl::string_view message) { received += message.size() == 101 ? 1 : 0; });
    EXPECT_TRUE(end.ok() && *end == ChildEnd::kReturned) << i;
    EXPECT_EQ(received, 1) << i;
  }
  stop = true;
  other.join();
}

}  // namespace
}  // namespace snug::core::memory
