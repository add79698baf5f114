#include "memory/ilp/child.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

#include "engine/base/parallel.h"

namespace snug::core::memory {
namespace {

using Clock = std::chrono::steady_clock;

// Stands in place of a message's size and says that no more will come. The end of the pipe would not do: a process that
// another thread starts meanwhile may hold it open, too.
constexpr uint64_t kNoMore = ~uint64_t{0};

// Writes all bytes, or ends the process when nobody reads them any more.
void WriteAll(int pipe, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(pipe, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

[[noreturn]] void RunBody(int pipe, pid_t parent, const std::function<void(const SendFn& send)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent ended before the line above took effect
  // These signals reach the whole process group, but it is for the caller to act on them, and it may ignore them. When
  // the caller ends, this process is killed.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  body([pipe](absl::string_view message) {
    const uint64_t size = message.size();
    char head[sizeof(size)];
    std::memcpy(head, &size, sizeof(size));
    WriteAll(pipe, absl::string_view(head, sizeof(head)));
    WriteAll(pipe, message);
  });
  WriteAll(pipe, absl::string_view(reinterpret_cast<const char*>(&kNoMore), sizeof(kNoMore)));
  _exit(0);  // must not run destructors of what belongs to the caller
}

// Passes the whole messages at the front of `bytes` to `receive` and removes them. Returns false when no more will
// come.
bool TakeMessages(std::string* bytes, const std::function<void(absl::string_view message)>& receive) {
  size_t at = 0;
  uint64_t size = 0;
  while (bytes->size() - at >= sizeof(size)) {
    std::memcpy(&size, bytes->data() + at, sizeof(size));
    if (size == kNoMore) return false;
    if (bytes->size() - at - sizeof(size) < size) break;
    receive(absl::string_view(*bytes).substr(at + sizeof(size), size));
    at += sizeof(size) + size;
  }
  bytes->erase(0, at);
  return true;
}

// Reads until the child is done or gone, or until time is up: then it returns false.
bool ReceiveUntil(Clock::time_point end, int pipe, const std::function<void(absl::string_view message)>& receive) {
  std::string bytes;
  char part[1 << 16];
  for (;;) {
    const double left = std::chrono::duration<double, std::milli>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
    constexpr double kMost = 1e6;  // in milliseconds, because poll takes an int
    const int ready = poll(&waiting, 1, static_cast<int>(std::ceil(std::min(left, kMost))));
    if (ready < 0 && errno != EINTR) usleep(1000);  // the kernel is short of memory for the moment
    if (ready <= 0) continue;
    const ssize_t got = read(pipe, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    bytes.append(part, static_cast<size_t>(got));
    if (!TakeMessages(&bytes, receive)) return true;
  }
}

}  // namespace

absl::StatusOr<ChildEnd> RunInChild(double seconds, const std::function<void(const SendFn& send)>& body,
                                    const std::function<void(absl::string_view message)>& receive) {
  if (seconds <= 0) return ChildEnd::kStopped;
  constexpr double kForever = 1e9;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::min(seconds, kForever)));
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("a process for the search: no pipe: ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(pipes[0]);
    close(pipes[1]);
    return absl::ResourceExhaustedError(absl::StrCat("a process for the search: ", std::strerror(error)));
  }
  if (child == 0) {
    close(pipes[0]);
    // The solver may multiply by a library that shares our OpenMP (Debian's OpenBLAS, if it is the system's BLAS). A
    // fork has none of its threads, so nothing here may wait for them.
    SetThreadsPerOp(1);
    RunBody(pipes[1], parent, body);
  }
  close(pipes[1]);
  const bool ended = ReceiveUntil(end, pipes[0], receive);
  close(pipes[0]);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  do waited = waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (!ended) return ChildEnd::kStopped;
  // A program that has all its children waited for elsewhere leaves us no exit status; then the end of the pipe is all
  // that is known.
  if (waited < 0) return ChildEnd::kReturned;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ChildEnd::kReturned : ChildEnd::kDied;
}

}  // namespace snug::core::memory
