#include "tools/cli/judge/prediction_sink.h"

#include <cstdio>

#include "engine/base/status.h"
#include "tools/cli/flags/output_flag.h"

namespace snug::core::cli {

absl::StatusOr<std::unique_ptr<PredictionSink>> PredictionSink::Open(const std::string& path,
                                                                     const std::vector<std::string>& read) {
  std::unique_ptr<PredictionSink> sink(new PredictionSink);
  sink->path_ = path;
  if (!path.empty()) {
    SNUG_RETURN_IF_ERROR(CheckNotRead("output", path, read));
    SNUG_ASSIGN_OR_RETURN(sink->file_, OutputFile::Create(path));
  }
  return sink;
}

void PredictionSink::Write(absl::string_view bytes) {
  if (file_ != nullptr) {
    file_->Write(bytes);
  } else {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  }
}

absl::Status PredictionSink::Check() const {
  if (file_ != nullptr || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return absl::OkStatus();
  return absl::UnavailableError("the predictions did not all reach standard output");
}

absl::Status PredictionSink::Finish() { return file_ != nullptr ? file_->Finish() : Check(); }

}  // namespace snug::core::cli
