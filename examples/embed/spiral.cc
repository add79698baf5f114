// Trains a small network on two intertwined spirals, evaluates it, saves it, and loads it into another session.
#include <snug/snug.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

struct Points {
  std::vector<float> position;  // x, y
  std::vector<int32_t> arm;
};

Points Spirals(int n, float shift) {
  Points points;
  for (int i = 0; i < n; ++i) {
    const float t = (static_cast<float>(i / 2) + shift) / static_cast<float>(n / 2);
    const float angle = 6 * t + (i % 2 == 0 ? 0.0F : 3.14159265F);
    points.position.push_back(t * std::cos(angle));
    points.position.push_back(t * std::sin(angle));
    points.arm.push_back(i % 2);
  }
  return points;
}

snug::Network Classifier() {
  snug::Network network("spiral");
  network.Input("position", {2}).Input("arm", {}, snug::DType::kInt32);
  network.Layer("fc1", "dense", {"position"}, {{"units", 32}}).Layer("act1", "tanh", {"fc1"});
  network.Layer("fc2", "dense", {"act1"}, {{"units", 32}}).Layer("act2", "tanh", {"fc2"});
  network.Layer("out", "dense", {"act2"}, {{"units", 2}});
  network.Layer("loss", "softmax_cross_entropy", {"out", "arm"}).Objective("loss");
  network.Layer("accuracy", "accuracy", {"out", "arm"}).Output("accuracy");
  network.Optimizer({{"learning_rate", 0.01}, {"adam.beta1", 0.9}});
  return network;
}

snug::Result<double> Accuracy(snug::Session& session, const Points& points) {
  snug::Result<snug::Program> evaluation = session.evaluation();
  if (!evaluation.ok()) return evaluation.status();
  if (snug::Status s = evaluation->Run({{"position", points.position}, {"arm", points.arm}}); !s.ok()) return s;
  return evaluation->FetchScalar("accuracy");
}

snug::Status TrainAndSave(const std::string& directory) {
  const Points seen = Spirals(128, 0), unseen = Spirals(128, 0.5F);
  const snug::Network network = Classifier();
  const snug::SessionOptions options = {.batch = 128, .evaluation_batch = 128, .seed = 1};
  snug::Result<snug::Session> session = snug::Session::Create(network, options);
  if (!session.ok()) return session.status();
  for (int step = 0; step < 600; ++step) {
    if (snug::Status s = session->Step({{"position", seen.position}, {"arm", seen.arm}}); !s.ok()) return s;
  }
  const snug::Result<double> loss = session->FetchScalar("loss");
  if (!loss.ok()) return loss.status();
  const snug::Result<double> accuracy = Accuracy(*session, unseen);
  if (!accuracy.ok()) return accuracy.status();
  const snug::Result<snug::MemoryFigures> memory = session->program().memory();
  if (!memory.ok()) return memory.status();
  std::printf("%d steps: loss %.4f, accuracy on unseen points %.3f\n", static_cast<int>(session->steps()), *loss,
              *accuracy);
  std::printf("memory: planned %lld bytes, at least %lld, taken %lld\n", static_cast<long long>(memory->total_bytes()),
              static_cast<long long>(memory->lower_bound), static_cast<long long>(session->taken_bytes()));

  const snug::Result<std::string> path = session->Save(directory);
  if (!path.ok()) return path.status();
  snug::Result<snug::Session> other = snug::Session::Create(network, options);
  if (!other.ok()) return other.status();
  if (snug::Status s = other->Restore(*path); !s.ok()) return s;
  const snug::Result<double> again = Accuracy(*other, unseen);
  if (!again.ok()) return again.status();
  std::printf("loaded from %s: accuracy %.3f\n", path->c_str(), *again);
  if (*again == *accuracy && *accuracy > 0.95) return {};
  return snug::Status(snug::StatusCode::kInternal, "expected the same accuracy, above 0.95");
}

}  // namespace

int main(int argc, char** argv) {
  const snug::Status status = TrainAndSave(argc > 1 ? argv[1] : "spiral-checkpoints");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
