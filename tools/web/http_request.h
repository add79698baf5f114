// What a client sends to a server of ours: the head of an HTTP/1.1 request. Nothing else is taken: no body, no other
// method than GET and HEAD, and no other host than this machine, so that a page from elsewhere, whose name somebody
// lets point here (DNS rebinding), gets nothing.
#pragma once

#include <absl/strings/string_view.h>

#include <string>

namespace snug::core::web {

struct HttpRequest {
  bool head_only = false;  // HEAD: without the body of the answer
  std::string path;        // as it was sent, up to a "?"; it begins with a slash
};

struct ParsedRequest {
  int code = 0;          // 0: its end has not come yet; 200: a request; else the status to answer with
  const char* why = "";  // for whoever reads the answer
  HttpRequest request;
};

// `bytes` is all that came so far.
ParsedRequest ParseRequest(absl::string_view bytes);

// "404 Not Found".
std::string StatusLine(int code);

}  // namespace snug::core::web
