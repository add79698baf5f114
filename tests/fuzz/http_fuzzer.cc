// libFuzzer: whatever a client sends, it is a request for a path from this machine, or more is waited for, or the
// answer says what was expected; and it makes no difference in what pieces it came.
//
//   build/fuzz/tests/fuzz/http_fuzzer -dict=tests/fuzz/http.dict NEW_CORPUS
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "tools/web/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using snug::core::web::ParsedRequest;
  using snug::core::web::ParseRequest;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const ParsedRequest whole = ParseRequest(bytes);
  if (whole.code == 200) {
    SNUG_CHECK(whole.request.path.starts_with('/') && whole.request.path.find('\n') == std::string::npos);
  } else if (whole.code != 0) {
    SNUG_CHECK(whole.code >= 400 && whole.code < 600 && whole.why[0] != '\0');
  }
  // The first pieces to which there is an answer decide, as the server answers them at once.
  for (size_t i = 0; i < size; ++i) {
    const ParsedRequest part = ParseRequest(bytes.substr(0, i));
    if (part.code == 0) continue;
    SNUG_CHECK(part.code == whole.code && part.request.path == whole.request.path);
    break;
  }
  return 0;
}
