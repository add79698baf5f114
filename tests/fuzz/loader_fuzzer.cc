// libFuzzer: whatever the bytes, loading them as text and as binary ends soon, with a network or with an error; and a
// network that loads is written and loaded again as the same.
//
//   build/fuzz/tests/fuzz/loader_fuzzer -dict=tests/fuzz/loader.dict NEW_CORPUS models tests/golden/errors
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "proto/network_writer.h"
#include "proto/text_loader.h"

namespace {

void CheckThereAndBack(const snug::proto::Network& network, const snug::core::LoadOptions& options) {
  const std::string bytes = snug::core::WriteNetworkBinary(network);
  const std::string text = snug::core::WriteNetworkText(network);
  const auto from_text = snug::core::LoadNetworkText(text, "written.pbtxt", options);
  SNUG_CHECK_OK(from_text.status());
  SNUG_CHECK(snug::core::WriteNetworkText(from_text->network) == text);  // as text: all NaNs are one
  const auto from_binary = snug::core::LoadNetworkBinary(bytes, "written.pb", options);
  SNUG_CHECK_OK(from_binary.status());
  SNUG_CHECK(snug::core::WriteNetworkBinary(from_binary->network) == bytes);
}

// As large as they come, so that what is written is within the limits too.
snug::core::LoadOptions Roomy(snug::core::LoadOptions options) {
  options.max_file_bytes *= 64;
  options.max_values *= 64;
  options.max_expanded_bytes *= 64;
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  snug::core::LoadOptions options;
  options.max_layers = 500;
  options.max_expanded_bytes = 1 << 20;
  for (const auto& loaded : {snug::core::LoadNetworkText(input, "fuzz.pbtxt", options),
                             snug::core::LoadNetworkBinary(input, "fuzz.pb", options)}) {
    if (loaded.ok()) {
      for (int i = 0; i < loaded->network.layer_size(); ++i) loaded->source_map.LayerOptionLoc(i, "units").ToString();
      CheckThereAndBack(loaded->network, Roomy(options));
    } else {
      SNUG_CHECK(loaded.status().code() == absl::StatusCode::kInvalidArgument);
      SNUG_CHECK(!loaded.status().message().empty());
    }
  }
  return 0;
}
