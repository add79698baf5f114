// Two sessions in two threads: they share nothing, so each ends with the bits that it would have had alone.
#include <snug/snug.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

// The loss of each step; none: an error, which was printed.
std::vector<float> Train(uint64_t seed) {
  snug::Network network("line");
  network.Input("x", {4}).Input("y", {1});
  network.Layer("fc", "dense", {"x"}, {{"units", 16}}).Layer("act", "relu", {"fc"});
  network.Layer("out", "dense", {"act"}, {{"units", 1}});
  network.Layer("loss", "mean_squared_error", {"out", "y"}).Objective("loss");
  snug::Result<snug::Session> session = snug::Session::Create(network, {.batch = 2, .seed = seed});
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", session.status().message().c_str());
    return {};
  }
  std::vector<float> losses;
  for (int step = 0; step < 200; ++step) {
    const snug::Status status = session->Step({{"x", {1.F, 2.F, 3.F, 4.F, 4.F, 3.F, 2.F, 1.F}}, {"y", {1.F, -1.F}}});
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
    losses.push_back(static_cast<float>(session->FetchScalar("loss").value_or(-1)));
  }
  return losses;
}

}  // namespace

int main() {
  const std::vector<float> alone[] = {Train(1), Train(2)};
  std::vector<float> together[2];
  {
    std::jthread first([&] { together[0] = Train(1); });
    std::jthread second([&] { together[1] = Train(2); });
  }
  const bool same = !alone[0].empty() && together[0] == alone[0] && together[1] == alone[1] && alone[0] != alone[1];
  std::printf("two sessions in two threads: %s\n", same ? "the same bits as one after the other" : "DIFFERENT");
  return same ? 0 : 1;
}
