#include "tools/web/http_server.h"

#include <absl/strings/str_cat.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <vector>

#include "engine/base/status.h"
#include "tools/web/http_request.h"

namespace snug::core::web {
namespace {

// What our pages may do: run what is written in them, ask this server, show a frame of it, and nothing else.
constexpr char kStrictPolicy[] =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

double Now() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string Head(int code, const std::string& type, const std::string& policy) {
  return absl::StrCat("HTTP/1.1 ", StatusLine(code), "\r\nContent-Type: ", type,
                      "\r\nContent-Security-Policy: ", policy.empty() ? kStrictPolicy : policy,
                      "\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin"
                      "\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n");
}

bool WouldWait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(int port, const Limits& limits) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return absl::ErrnoToStatus(errno, "a socket cannot be made");
  std::unique_ptr<HttpServer> server(new HttpServer(listener, limits));
  // Or the port could not be used again for a minute after it was.
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  auto* const plain = reinterpret_cast<struct sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (bind(listener, plain, size) == 0 && listen(listener, SOMAXCONN) == 0 &&
      getsockname(listener, plain, &size) == 0) {
    server->port_ = ntohs(address.sin_port);
    return server;
  }
  const std::string why = errno == EADDRINUSE ? "another program has it" : std::strerror(errno);
  return absl::FailedPreconditionError(
      absl::StrCat("port ", port, " of 127.0.0.1: ", why, "; --port=0 takes any that is free"));
}

HttpServer::~HttpServer() {
  for (const Connection& connection : connections_) {
    if (connection.descriptor >= 0) close(connection.descriptor);
  }
  if (listener_ >= 0) close(listener_);
}

absl::Status HttpServer::Run(const std::function<bool()>& stop, const std::function<void()>& tick) {
  double next_tick = 0;
  std::vector<struct pollfd> polled;
  while (!stop()) {
    double now = Now();
    if (now >= next_tick) {
      tick();
      now = Now();
      next_tick = now + limits_.tick_seconds;
      for (Connection& connection : connections_) Feed(connection, now);
    }
    polled.clear();
    polled.push_back({.fd = now >= accept_again_ ? listener_ : -1, .events = POLLIN, .revents = 0});
    for (const Connection& connection : connections_) {
      const bool writes = connection.left() > 0;
      polled.push_back({.fd = connection.descriptor,
                        .events = static_cast<int16_t>(writes ? POLLIN | POLLOUT : POLLIN),
                        .revents = 0});
    }
    const auto wait = static_cast<int>(std::ceil(std::max(0.0, next_tick - now) * 1e3));
    if (poll(polled.data(), polled.size(), wait) < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, "clients cannot be waited for");
    }
    now = Now();
    size_t i = 1;
    for (Connection& connection : connections_) {
      const int16_t events = polled[i++].revents;
      if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) Read(connection, now);
      if ((events & POLLOUT) != 0) Write(connection, now);
      GiveUpIfLate(connection, now);
    }
    RemoveClosed();
    if ((polled[0].revents & POLLIN) != 0) Accept(now);
  }
  return absl::OkStatus();
}

void HttpServer::Accept(double now) {
  constexpr int kAtOnce = 64;  // so that those who are here already have their turn
  for (int i = 0; i < kAtOnce; ++i) {
    const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) accept_again_ = now + 1;
      return;
    }
    if (connections_.size() >= limits_.connections) MakeRoom();
    if (connections_.size() >= 2 * limits_.connections) {
      close(descriptor);
      continue;
    }
    connections_.push_back({.descriptor = descriptor, .deadline = now + limits_.request_seconds});
    if (connections_.size() > limits_.connections) {
      Refuse(connections_.back(), 503, "there are too many clients already", now);
    }
  }
}

// The oldest of those that are through, or have not said yet what they want, makes room for one who may. Those that are
// being answered stay.
void HttpServer::MakeRoom() {
  const auto idle = std::find_if(connections_.begin(), connections_.end(), [](const Connection& connection) {
    return connection.phase == Phase::kRequest || connection.phase == Phase::kLingering;
  });
  if (idle == connections_.end()) return;
  close(idle->descriptor);
  connections_.erase(idle);
}

void HttpServer::Read(Connection& connection, double now) {
  std::array<char, 4096> bytes;
  const ssize_t got = recv(connection.descriptor, bytes.data(), bytes.size(), 0);
  if (got < 0 && WouldWait(errno)) return;
  if (got <= 0) {
    connection.phase = Phase::kClosed;
    return;
  }
  if (connection.phase != Phase::kRequest) return;  // whatever comes after the request
  connection.request.append(bytes.data(), static_cast<size_t>(got));
  Respond(connection, now);
}

void HttpServer::Respond(Connection& connection, double now) {
  const ParsedRequest parsed = ParseRequest(connection.request);
  if (parsed.code == 0) {
    if (connection.request.size() >= limits_.request_bytes) {
      Refuse(connection, 431, "the head of the request is too large", now);
    }
    return;
  }
  if (parsed.code != 200) return Refuse(connection, parsed.code, parsed.why, now);
  const auto route = routes_.find(parsed.request.path);
  if (route == routes_.end()) {
    return Refuse(connection, 404, "there is nothing of this name here", now, parsed.request.head_only);
  }
  if (route->second.stream) return BeginStream(connection, route->second.stream(), parsed.request.head_only, now);
  Begin(connection, route->second.page(), parsed.request.head_only, now);
}

void HttpServer::Refuse(Connection& connection, int code, const char* why, double now, bool head_only) {
  Begin(connection,
        {.code = code, .type = "text/plain", .body = std::make_shared<std::string>(absl::StrCat(why, "\n"))}, head_only,
        now);
}

void HttpServer::Begin(Connection& connection, const Answer& answer, bool head_only, double now) {
  connection.request.clear();
  connection.phase = Phase::kAnswer;
  connection.deadline = now + limits_.answer_seconds;
  connection.head =
      absl::StrCat(Head(answer.code, answer.type, answer.policy), answer.code == 405 ? "Allow: GET, HEAD\r\n" : "",
                   "Content-Length: ", answer.body == nullptr ? 0 : answer.body->size(), "\r\n\r\n");
  connection.body = head_only ? nullptr : answer.body;
  connection.sent = 0;
  Write(connection, now);
}

void HttpServer::BeginStream(Connection& connection, std::unique_ptr<Stream> stream, bool head_only, double now) {
  connection.request.clear();
  connection.phase = head_only ? Phase::kAnswer : Phase::kStream;
  connection.deadline = now + limits_.answer_seconds;
  connection.heartbeat = now + limits_.heartbeat_seconds;
  connection.head = absl::StrCat(Head(200, "text/event-stream", ""), "\r\n");
  connection.sent = 0;
  if (!head_only) connection.stream = std::move(stream);
  Write(connection, now);
  Feed(connection, now);
}

void HttpServer::Write(Connection& connection, double now) {
  while (connection.left() > 0) {
    const bool in_head = connection.sent < connection.head.size();
    const std::string& text = in_head ? connection.head : *connection.body;
    const size_t from = in_head ? connection.sent : connection.sent - connection.head.size();
    const ssize_t sent = send(connection.descriptor, text.data() + from, text.size() - from, MSG_NOSIGNAL);
    if (sent < 0 && WouldWait(errno)) return;
    if (sent < 0) {
      connection.phase = Phase::kClosed;
      return;
    }
    connection.sent += static_cast<size_t>(sent);
    connection.deadline = now + limits_.answer_seconds;
  }
  if (connection.phase == Phase::kAnswer) {
    // Closing now would throw away what the client has not read, if it has sent more than we have read.
    shutdown(connection.descriptor, SHUT_WR);
    connection.phase = Phase::kLingering;
    connection.deadline = now + limits_.linger_seconds;
  }
}

void HttpServer::Feed(Connection& connection, double now) {
  if (connection.phase != Phase::kStream || connection.left() > 0) return;
  std::string events = connection.stream->Next();
  if (events.empty() && now >= connection.heartbeat) events = ":\n\n";  // a comment
  if (events.empty()) return;
  connection.heartbeat = now + limits_.heartbeat_seconds;
  connection.deadline = now + limits_.answer_seconds;
  connection.head = std::move(events);
  connection.body = nullptr;
  connection.sent = 0;
  Write(connection, now);
}

void HttpServer::GiveUpIfLate(Connection& connection, double now) {
  if (now < connection.deadline) return;
  if (connection.phase == Phase::kRequest && !connection.request.empty()) {
    Refuse(connection, 408, "the request did not come to its end", now);
  } else if (connection.phase != Phase::kStream || connection.left() > 0) {
    connection.phase = Phase::kClosed;
  }
}

void HttpServer::RemoveClosed() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (it->phase != Phase::kClosed) {
      ++it;
      continue;
    }
    close(it->descriptor);
    it = connections_.erase(it);
  }
}

}  // namespace snug::core::web
