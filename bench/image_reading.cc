// Reads images as a training does, on one reader or more, and prints how many a second:
//   image_reading DIRECTORY SIZE READERS SECONDS [CACHE]
// bench/image_bench.py runs it beside torchvision and beside decoding alone.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/train/data/images/image_dataset.h"
#include "engine/train/data/loader.h"

namespace snug::core {
namespace {

constexpr int64_t kBatch = 32;

absl::StatusOr<double> ImagesPerSecond(const std::string& directory, int64_t side, int readers, double seconds,
                                       const std::string& cache) {
  auto list = ListFolders(directory);
  if (!list.ok()) return list.status();
  ImageDatasetOptions sample = {.channels = 3, .height = side, .width = side, .random = true};
  if (!cache.empty()) {
    std::vector<std::string> dropped;
    auto opened = ImageCache::Open(cache, {.side = ImageCache::SideFor(side, side)}, &*list, &dropped);
    if (!opened.ok()) return opened.status();
    sample.cache = *std::move(opened);
  }
  auto dataset = OpenImages(*list, sample);
  if (!dataset.ok()) return dataset.status();
  auto loader = Loader::Create(*dataset, {.batch = kBatch,
                                          .seed = 1,
                                          .image = {.flip = true, .mean = {0.5F}, .deviation = {0.25F}},
                                          .workers = readers,
                                          .buffers = readers + 2});
  if (!loader.ok()) return loader.status();
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  for (int warm_up = 0; warm_up < readers + 4; ++warm_up) {
    if (const auto batch = (*loader)->Next(); !batch.ok()) return batch.status();
  }
  const auto begin = Clock::now();
  int64_t images = 0;
  while (elapsed(begin) < seconds) {
    if (const auto batch = (*loader)->Next(); !batch.ok()) return batch.status();
    images += kBatch;
  }
  return static_cast<double>(images) / elapsed(begin);
}

}  // namespace
}  // namespace snug::core

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: image_reading DIRECTORY SIZE READERS SECONDS [CACHE]\n");
    return 2;
  }
  const auto rate = snug::core::ImagesPerSecond(argv[1], std::atoll(argv[2]), std::atoi(argv[3]), std::atof(argv[4]),
                                                argc > 5 ? argv[5] : "");
  if (!rate.ok()) {
    std::fprintf(stderr, "%s\n", std::string(rate.status().message()).c_str());
    return 1;
  }
  std::printf("%.1f\n", *rate);
  return 0;
}
