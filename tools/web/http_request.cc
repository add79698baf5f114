#include "tools/web/http_request.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>

namespace snug::core::web {
namespace {

ParsedRequest Refused(int code, const char* why) { return {.code = code, .why = why, .request = {}}; }

// RFC 9110, 5.6.2: what a method and a field's name are made of.
bool IsToken(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("!#$%&'*+-.^_`|~").find(c) != absl::string_view::npos;
  });
}

bool IsVisible(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// A field's value: no control characters but tabs.
bool IsFieldText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f); });
}

// Takes the next line, without its end, off `text`; false where its end has not come.
bool TakeLine(absl::string_view* text, absl::string_view* line) {
  const size_t end = text->find('\n');
  if (end == absl::string_view::npos) return false;
  *line = text->substr(0, end);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  text->remove_prefix(end + 1);
  return true;
}

// Any port: a tunnel to another machine has one of its own.
bool IsThisMachine(absl::string_view host) {
  const size_t colon = host.rfind(':');
  absl::string_view name = host;
  if (colon != absl::string_view::npos && host.back() != ']') {
    const absl::string_view port = host.substr(colon + 1);
    const bool digits = std::all_of(port.begin(), port.end(),
                                    [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
    if (!digits || port.size() > 5) return false;
    name = host.substr(0, colon);
  }
  return name == "127.0.0.1" || name == "[::1]" || absl::EqualsIgnoreCase(name, "localhost");
}

struct RequestLine {
  absl::string_view method, target, version;
};

std::optional<RequestLine> SplitRequestLine(absl::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == absl::string_view::npos || first == last) return std::nullopt;
  return RequestLine{line.substr(0, first), line.substr(first + 1, last - first - 1), line.substr(last + 1)};
}

ParsedRequest CheckLine(const RequestLine& line) {
  if (!IsToken(line.method) || !IsVisible(line.target) || !IsVisible(line.version) ||
      !absl::StartsWith(line.version, "HTTP/")) {
    return Refused(400, "expected a request like: GET / HTTP/1.1");
  }
  if (line.version != "HTTP/1.1" && line.version != "HTTP/1.0") return Refused(505, "expected HTTP/1.1");
  if (line.method != "GET" && line.method != "HEAD") return Refused(405, "expected GET or HEAD");
  if (!absl::StartsWith(line.target, "/")) return Refused(400, "expected a path, which begins with a slash");
  ParsedRequest parsed{.code = 200, .why = "", .request = {.head_only = line.method == "HEAD", .path = ""}};
  parsed.request.path = std::string(line.target.substr(0, line.target.find('?')));
  return parsed;
}

}  // namespace

ParsedRequest ParseRequest(absl::string_view bytes) {
  absl::string_view line;
  // What is no request is answered at once, and not read to an end that may never come.
  do {  // a client may send empty lines before its request (RFC 9112, 2.2)
    if (!TakeLine(&bytes, &line)) {
      return IsFieldText(bytes.substr(0, bytes.find('\r'))) ? ParsedRequest{} : Refused(400, "expected text");
    }
  } while (line.empty());
  const std::optional<RequestLine> request_line = SplitRequestLine(line);
  if (!request_line.has_value()) return Refused(400, "expected a request like: GET / HTTP/1.1");
  const ParsedRequest parsed = CheckLine(*request_line);
  if (parsed.code != 200) return parsed;
  int hosts = 0;
  bool here = false;
  for (;;) {
    if (!TakeLine(&bytes, &line)) return {};
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos || !IsToken(line.substr(0, colon)) || !IsFieldText(line.substr(colon + 1))) {
      return Refused(400, "expected header fields like: Host: localhost");
    }
    const absl::string_view name = line.substr(0, colon);
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (absl::EqualsIgnoreCase(name, "host")) {
      ++hosts;
      here = IsThisMachine(value);
    } else if (absl::EqualsIgnoreCase(name, "transfer-encoding") ||
               (absl::EqualsIgnoreCase(name, "content-length") && value != "0")) {
      return Refused(413, "expected a request without a body");
    }
  }
  if (hosts > 1 || (hosts == 0 && request_line->version == "HTTP/1.1")) {
    return Refused(400, "expected one header field Host");
  }
  if (hosts == 1 && !here) return Refused(421, "expected the host localhost or 127.0.0.1");
  return parsed;
}

std::string StatusLine(int code) {
  switch (code) {
    case 200:
      return "200 OK";
    case 400:
      return "400 Bad Request";
    case 404:
      return "404 Not Found";
    case 405:
      return "405 Method Not Allowed";
    case 408:
      return "408 Request Timeout";
    case 413:
      return "413 Content Too Large";
    case 421:
      return "421 Misdirected Request";
    case 431:
      return "431 Request Header Fields Too Large";
    case 503:
      return "503 Service Unavailable";
    case 505:
      return "505 HTTP Version Not Supported";
    default:
      return absl::StrCat(code, " Error");
  }
}

}  // namespace snug::core::web
