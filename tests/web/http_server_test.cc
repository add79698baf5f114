// The server, met through real sockets by clients that mean well and others.
#include "tools/web/http_server.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace snug::core::web {
namespace {

class Client {
 public:
  explicit Client(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connected_ = connect(socket_, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) == 0;
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  Client& operator=(Client&&) = delete;
  ~Client() {
    if (socket_ >= 0) close(socket_);
  }

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) const { send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // All that comes until the server closes, or until `text` is there.
  std::string Read(const std::string& text = "") const {
    std::string all;
    char bytes[4096];
    while (text.empty() || !absl::StrContains(all, text)) {
      const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

std::string Get(const std::string& path) { return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"); }

class HttpServerTest : public testing::Test {
 protected:
  // Streams count how often something has been said.
  class Counting : public HttpServer::Stream {
   public:
    explicit Counting(const std::atomic<int>& said) : said_(said) {}
    std::string Next() override {
      const int now = said_;
      return now == told_ ? "" : absl::StrCat("data: ", told_ = now, "\n\n");
    }

   private:
    const std::atomic<int>& said_;
    int told_ = 0;
  };

  void Start(HttpServer::Limits limits) {
    limits.tick_seconds = 0.01;
    auto server = HttpServer::Listen(0, limits);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    server_->Add(
        "/",
        {.page = [] { return HttpServer::Answer{.type = "text/html", .body = std::make_shared<std::string>("hello")}; },
         .stream = {}});
    server_->Add("/large", {.page = [this] { return HttpServer::Answer{.body = large_}; }, .stream = {}});
    server_->Add("/events", {.page = {}, .stream = [this] { return std::make_unique<Counting>(said_); }});
    thread_ =
        std::thread([this] { ended_ = server_->Run([this] { return stop_.load(); }, [this] { ++ticks_; }).ok(); });
  }

  ~HttpServerTest() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    EXPECT_TRUE(ended_);
  }

  std::string Ask(const std::string& bytes) const {
    const Client client(server_->port());
    client.Send(bytes);
    return client.Read();
  }

  const std::shared_ptr<const std::string> large_ = std::make_shared<std::string>(32 << 20, 'x');
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::atomic<bool> stop_ = false, ended_ = true;
  std::atomic<int> ticks_ = 0, said_ = 0;
};

TEST_F(HttpServerTest, AnswersWhatItHas) {
  Start({});
  const std::string answer = Ask(Get("/"));
  EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(absl::StrContains(answer, "Content-Length: 5\r\n"));
  EXPECT_TRUE(absl::StrContains(answer, "frame-ancestors 'self'"));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\nhello"));
  const std::string head = Ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(head, "Content-Length: 5\r\n") && absl::EndsWith(head, "\r\n\r\n")) << head;
  EXPECT_EQ(Ask(Get("/large")).size() - Ask("HEAD /large HTTP/1.1\r\nHost: localhost\r\n\r\n").size(), large_->size());
  for (const char* path : {"/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "//", "/events/", "/."}) {
    EXPECT_TRUE(absl::StartsWith(Ask(Get(path)), "HTTP/1.1 404 ")) << path;
  }
  const std::string missing = Ask("HEAD /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(missing, "HTTP/1.1 404 ") && absl::EndsWith(missing, "\r\n\r\n")) << missing;
  EXPECT_TRUE(absl::StrContains(Ask("PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "Allow: GET, HEAD\r\n"));
}

TEST_F(HttpServerTest, StreamsWhatIsNew) {
  Start({});
  const Client client(server_->port());
  client.Send(Get("/events"));
  EXPECT_TRUE(absl::StrContains(client.Read("\r\n\r\n"), "text/event-stream"));
  for (int i = 1; i <= 3; ++i) {
    said_ = i;
    EXPECT_EQ(client.Read("\n\n"), absl::StrCat("data: ", i, "\n\n"));
  }
}

TEST_F(HttpServerTest, AHeadThatHasNoEndIsRefused) {
  Start({});
  const std::string answer = Ask("GET / HTTP/1.1\r\nCookie: " + std::string(100'000, 'a'));
  EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 431 ")) << answer.substr(0, 200);
}

TEST_F(HttpServerTest, WhoSaysNothingIsGivenUp) {
  Start({.request_seconds = 0.1});
  const Client silent(server_->port());
  const Client half(server_->port());
  half.Send("GET / HT");
  EXPECT_EQ(silent.Read(), "");
  EXPECT_TRUE(absl::StartsWith(half.Read(), "HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, WhoDoesNotReadKeepsNobodyWaiting) {
  Start({.answer_seconds = 0.3});
  std::vector<Client> slow;
  for (int i = 0; i < 20; ++i) {
    slow.emplace_back(server_->port());
    slow.back().Send(Get("/large"));
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(absl::EndsWith(Ask(Get("/")), "hello"));
  const int before = ticks_;
  while (ticks_ < before + 60) std::this_thread::yield();
  // What the system took for them is there, and then the end.
  EXPECT_LT(slow[0].Read().size(), large_->size());
}

TEST_F(HttpServerTest, IdleConnectionsMakeRoom) {
  Start({.connections = 8});
  std::vector<Client> idle;
  for (int i = 0; i < 100; ++i) idle.emplace_back(server_->port());
  EXPECT_TRUE(absl::EndsWith(Ask(Get("/")), "hello"));
}

TEST_F(HttpServerTest, TooManyThatAreAnsweredAreSaidSo) {
  Start({.connections = 4});
  std::vector<Client> streams;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(server_->port());
    streams.back().Send(Get("/events"));
    EXPECT_TRUE(absl::StrContains(streams.back().Read("\r\n\r\n"), "200 OK"));
  }
  EXPECT_TRUE(absl::StartsWith(Ask(Get("/")), "HTTP/1.1 503 "));
  said_ = 1;
  EXPECT_EQ(streams[0].Read("\n\n"), "data: 1\n\n");
  streams.pop_back();
  const int before = ticks_;
  while (ticks_ < before + 20) std::this_thread::yield();
  EXPECT_TRUE(absl::EndsWith(Ask(Get("/")), "hello"));
}

TEST_F(HttpServerTest, APortThatIsTakenIsSaid) {
  Start({});
  const auto second = HttpServer::Listen(server_->port(), {});
  ASSERT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_EQ(second.status().message(), absl::StrCat("port ", server_->port(),
                                                    " of 127.0.0.1: another program has it; --port=0 takes any that is "
                                                    "free"));
}

}  // namespace
}  // namespace snug::core::web
