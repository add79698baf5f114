// What the page of `snug watch` is told of a run, as server-sent events: each has the state of all, and of the curves
// only those points that a client does not have yet; the options and the confusion are in it when they are others than
// before.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/runs/run_follower.h"
#include "tools/web/http_server.h"

namespace snug::core {
class Json;
}

namespace snug::core::cli {

// "training", "evaluation", "rate", "speed" or "waited".
const char* KindName(runs::RunFollower::Kind kind);

// Points from `from` on, as [step, seconds, mean] or, where it stands for several values, [step, seconds, mean, least,
// most].
void WritePoints(const runs::ThinCurve& curve, size_t from, Json& json);

// For one client. The follower must outlive it.
class RunEvents : public web::HttpServer::Stream {
 public:
  explicit RunEvents(const runs::RunFollower& follower) : follower_(follower) {}
  std::string Next() override;

 private:
  struct Sent {
    int64_t values = 0, merges = 0;
    size_t points = 0;
  };
  std::string State() const;

  const runs::RunFollower& follower_;
  bool begun_ = false;
  int64_t beginnings_ = 0;
  int64_t confusions_ = 0;  // which of them was sent
  std::string state_;
  std::vector<std::pair<std::string, std::string>> options_;  // as they were sent
  std::vector<Sent> sent_;                                    // of each curve
};

}  // namespace snug::core::cli
