// `snug watch RUN_FOLDER` shows a training while it runs, as a page that this program serves to this machine alone.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "tools/cli/command.h"
#include "tools/cli/process.h"
#include "tools/cli/runs/run_events.h"
#include "tools/picture/run_pages.h"
#include "tools/runs/run_follower.h"
#include "tools/runs/small_file.h"
#include "tools/web/http_server.h"

namespace snug::core::cli {
namespace {

using web::HttpServer;

constexpr int64_t kMostPictureBytes = 32 << 20;

// What is in the run folder was written by whoever wrote there: it is shown as if it came from elsewhere.
constexpr char kForeignPolicy[] =
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'";

// A file that clients are sent, read anew only when it has changed.
class SharedFile {
 public:
  SharedFile(std::string path, std::string type) : path_(std::move(path)), type_(std::move(type)) {}

  HttpServer::Answer Get() {
    const absl::StatusOr<runs::OpenedFile> file = runs::OpenedFile::Open(path_);
    if (!file.ok()) return Missing(file.status().message());
    if (file->size_bytes() > kMostPictureBytes) return Missing("it is too large to be shown");
    if (text_ == nullptr || file->changed() != changed_ || file->number() != number_) {
      absl::StatusOr<std::string> text = file->Read(0, file->size_bytes());
      if (!text.ok()) return Missing(text.status().message());
      text_ = std::make_shared<const std::string>(*std::move(text));
      changed_ = file->changed();
      number_ = file->number();
    }
    return {.type = type_, .body = text_, .policy = kForeignPolicy};
  }

 private:
  static HttpServer::Answer Missing(absl::string_view why) {
    return {.code = 404, .body = std::make_shared<const std::string>(absl::StrCat(why, "\n")), .policy = ""};
  }

  const std::string path_, type_;
  std::shared_ptr<const std::string> text_;
  double changed_ = 0;
  uint64_t number_ = 0;
};

absl::Status CheckFolder(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || S_ISDIR(found.st_mode)) return absl::OkStatus();  // it may come yet
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a run folder, as `snug train` leaves in runs/, found a file"));
}

}  // namespace

absl::StatusOr<int> RunWatch(const Arguments& arguments) {
  int64_t port = 0;
  double stalled_after = 60;
  Flags flags(
      "snug watch RUN_FOLDER [flags]",
      "Serves a page that shows a training while it runs in another program: loss and metrics, learning rate,\n"
      "samples a second, what the last evaluation took for what, the memory of a step, and whether it runs, ended\n"
      "or got stuck. The folder is the training's --output (runs/<network>), and need not be there yet. The page\n"
      "is for this machine alone (127.0.0.1); Ctrl-C ends the server.");
  constexpr int64_t kMostPort = 65535;
  flags.Add("port", &port, "where it listens; default 0: any that is free", 0, kMostPort);
  flags.Add("stalled-after", &stalled_after,
            "seconds without a line of metrics after which a training counts as stalled; default 60");
  SNUG_ASSIGN_OR_RETURN(std::string path, flags.ParseOne(arguments, "a run folder"));
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (stalled_after <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("--stalled-after: expected seconds above 0, found ", stalled_after));
  }
  SNUG_RETURN_IF_ERROR(CheckFolder(path));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server, HttpServer::Listen(static_cast<int>(port), {}));

  const RunFolder folder(path);
  runs::RunFollower follower(folder, stalled_after);
  SharedFile memory_page(folder.memory_page(), "text/html; charset=utf-8");
  SharedFile memory_picture(folder.memory_picture(), "image/svg+xml");
  const auto page = std::make_shared<const std::string>(WatchPage());
  server->Add("/", {.page = [&page] { return HttpServer::Answer{.type = "text/html; charset=utf-8", .body = page}; },
                    .stream = {}});
  server->Add("/memory.html", {.page = [&] { return memory_page.Get(); }, .stream = {}});
  server->Add("/memory.svg", {.page = [&] { return memory_picture.Get(); }, .stream = {}});
  server->Add("/events", {.page = {}, .stream = [&] { return std::make_unique<RunEvents>(follower); }});

  CatchStopSignals();
  absl::PrintF("%s is shown at http://127.0.0.1:%d/ (Ctrl-C ends it)\n", path, server->port());
  std::fflush(stdout);
  SNUG_RETURN_IF_ERROR(server->Run(StopRequested, [&] { follower.Poll(); }));
  return 0;
}

}  // namespace snug::core::cli
