#include "tools/web/http_request.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace snug::core::web {
namespace {

constexpr char kGood[] = "GET /events?x=1 HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n";

int CodeOf(const std::string& bytes) { return ParseRequest(bytes).code; }
std::string WithHost(const std::string& host) { return absl::StrCat("GET / HTTP/1.1\r\nHost: ", host, "\r\n\r\n"); }

TEST(HttpRequest, OneThatIsGoodIsTaken) {
  const ParsedRequest parsed = ParseRequest(kGood);
  EXPECT_EQ(parsed.code, 200);
  EXPECT_EQ(parsed.request.path, "/events");
  EXPECT_FALSE(parsed.request.head_only);
  EXPECT_TRUE(ParseRequest("HEAD / HTTP/1.0\r\n\r\n").request.head_only);
  EXPECT_EQ(CodeOf("\r\n\r\nGET / HTTP/1.0\n\n"), 200);
}

TEST(HttpRequest, APartOfOneWaitsForMore) {
  const std::string whole = kGood;
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(CodeOf(whole.substr(0, i)), 0) << i;
}

TEST(HttpRequest, OtherHostsAreRefused) {
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "[::1]:80"}) {
    EXPECT_EQ(CodeOf(WithHost(host)), 200) << host;
  }
  for (const char* host :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost:80x",
        "localhost:123456", "evil localhost", "127.0.0.2", "0.0.0.0", "user@localhost"}) {
    EXPECT_EQ(CodeOf(WithHost(host)), 421) << host;
  }
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n"), 400);
  EXPECT_EQ(CodeOf("GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n"), 421);
}

TEST(HttpRequest, WhatIsNotTakenIsSaid) {
  EXPECT_EQ(CodeOf("POST / HTTP/1.1\r\nHost: localhost\r\n"), 405);  // at once
  EXPECT_EQ(CodeOf("GET / HTTP/2.0\r\n"), 505);
  EXPECT_EQ(CodeOf("GET http://evil.example/ HTTP/1.1\r\n"), 400);
  EXPECT_EQ(CodeOf("GET /\r\n"), 400);
  EXPECT_EQ(CodeOf("GET /a b HTTP/1.1\r\n"), 400);
  EXPECT_EQ(CodeOf("G\"T / HTTP/1.1\r\n"), 400);
  EXPECT_EQ(CodeOf("\x16\x03\x01\x02"), 400);  // TLS
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost: localhost\r\n folded: no\r\n\r\n"), 400);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"), 400);
  EXPECT_EQ(CodeOf(absl::StrCat("GET / HTTP/1.1\r\nHost: local", std::string(1, '\0'), "host\r\n\r\n")), 400);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"), 413);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"), 413);
  EXPECT_EQ(CodeOf("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"), 200);
}

TEST(HttpRequest, NoDamageIsTakenForAnotherHostOrPath) {
  std::mt19937 random(9);
  const std::string whole = kGood;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = whole;
    for (unsigned changes = 1 + random() % 6; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 5);
          break;
        default:
          bytes.insert(at, std::string(1 + random() % 5, static_cast<char>(random())));
      }
      if (bytes.empty()) bytes = "x";
    }
    const ParsedRequest parsed = ParseRequest(bytes);
    EXPECT_TRUE(parsed.code == 0 || parsed.code == 200 || (parsed.code >= 400 && parsed.code < 600));
    if (parsed.code == 200) {
      EXPECT_EQ(parsed.request.path[0], '/');
      for (const char c : parsed.request.path) EXPECT_TRUE(c > ' ' && c < 0x7f && c != '?');
    } else if (parsed.code != 0) {
      EXPECT_NE(std::string(parsed.why), "");
    }
  }
}

}  // namespace
}  // namespace snug::core::web
