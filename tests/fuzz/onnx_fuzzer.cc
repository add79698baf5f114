// libFuzzer: whatever the bytes, they are an ONNX model that is imported, and then loaded and checked as a network, or
// an error that says why not.
//
//   build/fuzz/tests/fuzz/onnx_fuzzer -rss_limit_mb=4096 NEW_CORPUS CORPUS
//
// A corpus to begin with is what tests/interchange/peer/networks.py and `snug export` write; small models serve best.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "interchange/import/import.h"
#include "interchange/model_file.h"
#include "proto/network.pb.h"

namespace {

// No model has other files here.
class NoFiles final : public snug::core::checkpoint::FileSystem {
 public:
  absl::Status MakeDirectory(const std::string&) override { return None(); }
  absl::StatusOr<std::unique_ptr<snug::core::checkpoint::WritableFile>> Create(const std::string&) override {
    return None();
  }
  absl::StatusOr<std::unique_ptr<snug::core::checkpoint::ReadableFile>> Open(const std::string&) override {
    return None();
  }
  absl::Status Rename(const std::string&, const std::string&) override { return None(); }
  absl::Status Remove(const std::string&) override { return None(); }
  absl::Status SyncDirectory(const std::string&) override { return None(); }
  absl::StatusOr<std::vector<std::string>> List(const std::string&) override { return None(); }

 private:
  static absl::Status None() { return absl::NotFoundError("there are no files"); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  NoFiles files;
  const auto model = snug::core::onnx::ParseModel({reinterpret_cast<const char*>(data), size}, files, "fuzz.onnx");
  if (!model.ok()) {
    SNUG_CHECK(!model.status().message().empty());
    return 0;
  }
  const auto imported = snug::core::onnx::ImportModel(*model, {.loss = size % 2 == 0 ? "" : "softmax_cross_entropy"});
  if (!imported.ok()) {
    SNUG_CHECK(!imported.status().message().empty());
    // What was made is loaded again before it is returned: a network that fails there is a bug.
    SNUG_CHECK_MSG(imported.status().code() != absl::StatusCode::kInternal, imported.status().message());
  }
  return 0;
}
