// A small HTTP/1.1 server for pages about what runs on this machine. It listens on 127.0.0.1 alone, has a fixed list of
// paths, and runs in one thread that never waits for a client: who is slow, silent or hostile costs a few kilobytes and
// a place for a while, and nobody else any time.
//
//   SNUG_ASSIGN_OR_RETURN(const auto server, HttpServer::Listen(0, {}));
//   server->Add("/", {.page = [] { return HttpServer::Answer{.type = "text/html", .body = ...}; }});
//   SNUG_RETURN_IF_ERROR(server->Run(StopRequested, [&] { follower.Poll(); }));
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace snug::core::web {

class HttpServer {
 public:
  struct Answer {
    int code = 200;
    std::string type = "text/plain";
    std::shared_ptr<const std::string> body;  // many clients may be sent the same; null: nothing
    std::string policy;                       // Content-Security-Policy; empty: a strict one, for a page of ours
  };
  // Server-sent events, for one client. It is asked for more only when all before has gone out, so a slow client gets
  // less often what is new.
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual std::string Next() = 0;  // whole events, or nothing
  };
  // One of both.
  struct Route {
    std::function<Answer()> page;
    std::function<std::unique_ptr<Stream>()> stream;
  };
  struct Limits {
    size_t connections = 64;
    size_t request_bytes = 8192;  // of a request's head
    double request_seconds = 10;  // until it is whole
    double answer_seconds = 30;   // in which a client must take something of what it is sent
    double linger_seconds = 1;    // after an answer, for the client to read it
    double tick_seconds = 0.2;
    double heartbeat_seconds = 15;  // a stream says something at least so often, which shows who is gone
  };

  // Port 0: any that is free. Fails with FailedPrecondition where another program has the port.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(int port, const Limits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void Add(const std::string& path, Route route) { routes_[path] = std::move(route); }
  int port() const { return port_; }

  // Serves until `stop` says true; calls `tick` a few times a second.
  absl::Status Run(const std::function<bool()>& stop, const std::function<void()>& tick);

 private:
  enum class Phase : uint8_t {
    kRequest,    // reading
    kAnswer,     // writing; the connection ends with the answer
    kStream,     // writing, and then waiting for what is next
    kLingering,  // all is written; what the client still sends is read and thrown away, so that it gets to read ours
    kClosed,
  };
  struct Connection {
    int descriptor = -1;
    Phase phase = Phase::kRequest;
    double deadline = 0;  // when it is given up, unless something happens
    double heartbeat = 0;
    std::string request;
    std::string head;                         // of the answer, or events
    std::shared_ptr<const std::string> body;  // what follows it
    size_t sent = 0;                          // of both
    std::unique_ptr<Stream> stream;

    size_t left() const { return head.size() + (body == nullptr ? 0 : body->size()) - sent; }
  };

  HttpServer(int listener, const Limits& limits) : listener_(listener), limits_(limits) {}
  void Accept(double now);
  void MakeRoom();
  void Read(Connection& connection, double now);
  void Respond(Connection& connection, double now);
  void Refuse(Connection& connection, int code, const char* why, double now, bool head_only = false);
  void Begin(Connection& connection, const Answer& answer, bool head_only, double now);
  void BeginStream(Connection& connection, std::unique_ptr<Stream> stream, bool head_only, double now);
  void Write(Connection& connection, double now);
  void Feed(Connection& connection, double now);
  void GiveUpIfLate(Connection& connection, double now);
  void RemoveClosed();

  const int listener_;
  int port_ = 0;
  const Limits limits_;
  std::map<std::string, Route> routes_;
  std::list<Connection> connections_;  // the oldest first
  double accept_again_ = 0;            // after the system had no more descriptors
};

}  // namespace snug::core::web
