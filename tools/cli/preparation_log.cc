#include "tools/cli/preparation_log.h"

#include <absl/strings/str_format.h>
#include <unistd.h>

#include "engine/run/executors/executor.h"
#include "tools/cli/process.h"

namespace snug::core::cli {

PreparationLog::PreparationLog(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) != 0) {}

PreparationLog::~PreparationLog() {
  if (line_open_) std::fputs("\n", out_);
  if (catches_) ReleaseStopSignals();
}

bool PreparationLog::GoesOn(int64_t done, int64_t all) {
  if (!catches_) {
    CatchStopSignals();
    catches_ = true;
  }
  const double now = static_cast<double>(MonotonicNanoseconds()) * 1e-9;
  if (done == 0) begin_ = shown_at_ = now;
  const double between = !terminal_ ? 5 : line_open_ ? 0.1 : 0.5;
  if (done > 0 && now - shown_at_ >= between) {
    const double left = (now - begin_) / static_cast<double>(done) * static_cast<double>(all - done);
    const std::string line = absl::StrFormat("data: %d of %d images decoded, %.0f s left", done, all, left);
    std::fprintf(out_, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
    std::fflush(out_);
    line_open_ = terminal_;
    shown_at_ = now;
  }
  return !StopRequested();
}

absl::StatusOr<TrainingData> OpenDataAloud(std::FILE* out, const proto::Data& data, const proto::Network& network,
                                           uint64_t seed, const std::map<std::string, std::string>* kept, bool goes_on,
                                           bool may_lack_labels) {
  PreparationLog log(out);
  return OpenData(data, network, seed, kept, goes_on, may_lack_labels,
                  [&](int64_t done, int64_t all) { return log.GoesOn(done, all); });
}

}  // namespace snug::core::cli
