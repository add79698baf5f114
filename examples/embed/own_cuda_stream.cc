// Trains on a GPU, between the work of a stream of its own: data are made in device memory, a step reads them there,
// and the host waits for nothing until the end.
#include <cuda_runtime_api.h>
#include <snug/snug.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int64_t kBatch = 64, kInputs = 8;

snug::Network Regression() {
  snug::Network network("own_stream");
  network.Input("x", {kInputs}).Input("y", {1});
  network.Layer("fc", "dense", {"x"}, {{"units", 1}});
  network.Layer("loss", "mean_squared_error", {"fc", "y"}).Objective("loss");
  network.Optimizer({{"learning_rate", 0.1}});
  return network;
}

// y is the sum of x.
void Draw(int step, std::vector<float>& x, std::vector<float>& y) {
  for (int64_t i = 0; i < kBatch; ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < kInputs; ++j) {
      x[i * kInputs + j] = static_cast<float>((step * 13 + i * 7 + j * 5) % 17) / 8 - 1;
      y[i] += x[i * kInputs + j];
    }
  }
}

snug::Status Check(cudaError_t code) {
  return code == cudaSuccess ? snug::Status() : snug::Status(snug::StatusCode::kInternal, cudaGetErrorString(code));
}

snug::Status Train() {
  snug::Result<snug::Session> session =
      snug::Session::Create(Regression(), {.device = "cuda", .batch = kBatch, .bound = {"x", "y"}});
  if (!session.ok()) return session.status();
  std::vector<float> x(kBatch * kInputs), y(kBatch);
  cudaStream_t stream = nullptr;
  void *device_x = nullptr, *device_y = nullptr;
  if (snug::Status s = Check(cudaStreamCreate(&stream)); !s.ok()) return s;
  if (snug::Status s = Check(cudaMalloc(&device_x, x.size() * sizeof(float))); !s.ok()) return s;
  if (snug::Status s = Check(cudaMalloc(&device_y, y.size() * sizeof(float))); !s.ok()) return s;
  const auto size = [](const std::vector<float>& numbers) { return static_cast<int64_t>(numbers.size()); };
  if (snug::Status s = session->Bind("x", snug::Buffer(device_x, size(x), snug::DType::kFloat32)); !s.ok()) return s;
  if (snug::Status s = session->Bind("y", snug::Buffer(device_y, size(y), snug::DType::kFloat32)); !s.ok()) return s;
  if (snug::Status s = session->FollowStream(stream); !s.ok()) return s;
  for (int step = 0; step < 100; ++step) {
    Draw(step, x, y);
    // Vectors are not pinned: these have read them when they return.
    cudaMemcpyAsync(device_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(device_y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice, stream);
    if (snug::Status s = session->Step(); !s.ok()) return s;
  }
  const snug::Result<double> loss = session->FetchScalar("loss");
  if (!loss.ok()) return loss.status();
  std::printf("loss %g\n", *loss);
  return {};
}

}  // namespace

int main() {
  const snug::Status status = Train();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
