// Kills a program (SIGKILL) right before the N-th of its system calls that change something in a folder: that create,
// write, sync, rename or remove. What is on the disk then is what all calls before it have left, so with every N in
// turn all states that a killed program can leave are seen. The program knows nothing of it: its calls are watched by
// ptrace, whichever thread or library makes them.
//
//   kill_at_write FOLDER N PROGRAM ARGUMENT...
//
// FOLDER is an absolute path. N = 0: nobody is killed. On file descriptor 3, if it is open, stands a line "CALL PATH"
// for each such call, the last one's too. The exit code is the program's own; 137 if it was killed; 125 if it cannot be
// watched here, which standard error explains.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

namespace {

constexpr int kCannotWatch = 125;
constexpr int kReport = 3;  // file descriptor

// How a call says what it changes: by a descriptor, or by a path that may be relative to another descriptor.
struct Call {
  const char* name;
  int descriptor = -1, path = -1, base = -1;  // which argument
  int flags = -1;                             // of open: only with O_CREAT or O_TRUNC
};

const std::map<uint64_t, Call>& Calls() {
  static const std::map<uint64_t, Call> calls = {
      {SYS_write, {.name = "write", .descriptor = 0}},
      {SYS_pwrite64, {.name = "pwrite", .descriptor = 0}},
      {SYS_writev, {.name = "writev", .descriptor = 0}},
      {SYS_pwritev, {.name = "pwritev", .descriptor = 0}},
      {SYS_fsync, {.name = "fsync", .descriptor = 0}},
      {SYS_fdatasync, {.name = "fdatasync", .descriptor = 0}},
      {SYS_ftruncate, {.name = "ftruncate", .descriptor = 0}},
      {SYS_fallocate, {.name = "fallocate", .descriptor = 0}},
      {SYS_copy_file_range, {.name = "copy_file_range", .descriptor = 2}},
      {SYS_sendfile, {.name = "sendfile", .descriptor = 0}},
      {SYS_openat, {.name = "open", .path = 1, .base = 0, .flags = 2}},
      {SYS_mkdirat, {.name = "mkdir", .path = 1, .base = 0}},
      {SYS_unlinkat, {.name = "unlink", .path = 1, .base = 0}},
      {SYS_linkat, {.name = "link", .path = 3, .base = 2}},
      {SYS_symlinkat, {.name = "symlink", .path = 2, .base = 1}},
      {SYS_renameat2, {.name = "rename", .path = 3, .base = 2}},
#ifdef SYS_renameat
      {SYS_renameat, {.name = "rename", .path = 3, .base = 2}},
#endif
#ifdef SYS_open  // the forms that only older architectures have
      {SYS_open, {.name = "open", .path = 0, .flags = 1}},
      {SYS_creat, {.name = "open", .path = 0}},
      {SYS_mkdir, {.name = "mkdir", .path = 0}},
      {SYS_unlink, {.name = "unlink", .path = 0}},
      {SYS_rmdir, {.name = "rmdir", .path = 0}},
      {SYS_truncate, {.name = "truncate", .path = 0}},
      {SYS_rename, {.name = "rename", .path = 1}},
#endif
  };
  return calls;
}

std::string LinkAt(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  return size < 0 ? "" : std::string(target, static_cast<size_t>(size));
}

std::string DescriptorPath(pid_t thread, int descriptor) {
  const std::string process = "/proc/" + std::to_string(thread);
  return LinkAt(descriptor == AT_FDCWD ? process + "/cwd" : process + "/fd/" + std::to_string(descriptor));
}

// A text in the memory of a thread. Read up to the end of a page at a time: what follows it may not be there.
std::string TextAt(pid_t thread, uint64_t address) {
  std::string text;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  char buffer[PATH_MAX];
  while (text.size() < sizeof(buffer)) {
    const size_t size = std::min<uint64_t>(sizeof(buffer), page - address % page);
    iovec here = {buffer, size};
    iovec there = {reinterpret_cast<void*>(address), size};
    if (process_vm_readv(thread, &here, 1, &there, 1, 0) != static_cast<ssize_t>(size)) break;
    const size_t length = strnlen(buffer, size);
    text.append(buffer, length);
    if (length < size) break;
    address += size;
  }
  return text;
}

std::string PathOf(pid_t thread, const Call& call, const uint64_t* arguments) {
  if (call.descriptor >= 0) return DescriptorPath(thread, static_cast<int>(arguments[call.descriptor]));
  std::string path = TextAt(thread, arguments[call.path]);
  if (!path.empty() && path[0] == '/') return path;
  const int base = call.base < 0 ? AT_FDCWD : static_cast<int>(arguments[call.base]);
  return DescriptorPath(thread, base) + "/" + path;
}

[[noreturn]] void Exec(char** arguments) {
  close(kReport);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
    std::perror("ptrace");
    _exit(kCannotWatch);
  }
  raise(SIGSTOP);
  execvp(arguments[0], arguments);
  std::perror(arguments[0]);
  _exit(kCannotWatch);
}

class Watch {
 public:
  Watch(std::string folder, int64_t kill_at, pid_t child)
      : folder_(std::move(folder)), kill_at_(kill_at), child_(child) {}

  // The exit code.
  int Run() {
    int status = 0;
    if (waitpid(child_, &status, 0) != child_ || !WIFSTOPPED(status)) return kCannotWatch;
    const auto options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child_, nullptr, options) != 0) {
      std::perror("ptrace");
      kill(child_, SIGKILL);
      return kCannotWatch;
    }
    pid_t thread = child_;
    int signal = 0;
    for (;;) {
      // A thread that is gone by now is met again below, as having ended.
      ptrace(PTRACE_SYSCALL, thread, nullptr, static_cast<intptr_t>(signal));
      signal = 0;
      do {
        thread = waitpid(-1, &status, __WALL);
      } while (thread < 0 && errno == EINTR);
      if (thread < 0) return kCannotWatch;
      if (thread == child_ && WIFEXITED(status)) return WEXITSTATUS(status);
      if (thread == child_ && WIFSIGNALED(status)) return 128 + WTERMSIG(status);
      if (!WIFSTOPPED(status)) continue;
      if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
        Look(thread);
        if (blind_) {
          kill(child_, SIGKILL);
          return kCannotWatch;
        }
      } else if (status >> 16 == 0 &&
                 WSTOPSIG(status) != SIGSTOP) {  // a signal of its own; a new thread begins with SIGSTOP
        signal = WSTOPSIG(status);
      }
    }
  }

 private:
  // A thread stands before or behind a call.
  void Look(pid_t thread) {
    __ptrace_syscall_info info = {};
    const long size = ptrace(PTRACE_GET_SYSCALL_INFO, thread, reinterpret_cast<void*>(sizeof(info)), &info);
    if (size <= 0 && errno != ESRCH) {  // gone by now: no matter
      std::perror("PTRACE_GET_SYSCALL_INFO");
      blind_ = true;
    }
    if (size <= 0 || info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
    const auto found = Calls().find(info.entry.nr);
    if (found == Calls().end()) return;
    const Call& call = found->second;
    if (call.flags >= 0 && (info.entry.args[call.flags] & (O_CREAT | O_TRUNC)) == 0) return;
    const std::string path = PathOf(thread, call, info.entry.args);
    if (path.compare(0, folder_.size(), folder_) != 0) return;
    dprintf(kReport, "%s %s\n", call.name, path.c_str());
    if (++calls_ == kill_at_) kill(child_, SIGKILL);
  }

  const std::string folder_;
  const int64_t kill_at_;
  const pid_t child_;
  int64_t calls_ = 0;
  bool blind_ = false;  // this system does not tell what is called
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argv[1][0] != '/') {
    std::fprintf(stderr, "usage: kill_at_write FOLDER N PROGRAM ARGUMENT...\n");
    return kCannotWatch;
  }
  const pid_t child = fork();
  if (child == 0) Exec(argv + 3);
  if (child < 0) {
    std::perror("fork");
    return kCannotWatch;
  }
  return Watch(argv[1], std::atoll(argv[2]), child).Run();
}
