// What the pretended CUDA (fake_cuda.h) consists of, for the files that pretend its functions.
#pragma once

#include <cuda.h>
#include <nvrtc.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/cuda/fake_graph.h"

namespace snug::core::cuda {
namespace fake {

// A capture that is going on.
struct Capture {
  FakeGraph graph;
  CUstream origin = nullptr;
  std::set<CUstream> streams;  // those that take part
  bool broken = false;         // a call came that no capture allows
};

struct Event {
  int64_t recorded = 0, passed = 0;
  // If it was recorded in a capture: that one, and what comes before the event there.
  std::shared_ptr<Capture> capture;
  FakeGraph::Nodes after;
  int64_t passed_at = 0;
};

// A piece of work that a stream has been given and has not done yet.
struct Work {
  std::function<bool()> ready;  // empty: it always is
  std::function<void()> run;
};

struct Stream {
  std::deque<Work> queue;
  std::shared_ptr<Capture> capture;  // if it is set, the stream's work goes there and not into the queue
  FakeGraph::Nodes last;             // what the stream was given last in the capture
};

// A program of NVRTC's. Its code is the text of the source.
struct Source {
  std::string text;
};
// Code that was loaded, with the kernels that were asked for by name.
struct LoadedCode {
  struct Kernel {
    const LoadedCode* code;
    std::string name;
  };
  std::string text;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};
using Blocks = std::map<std::byte*, size_t>;

inline bool Contains(const Blocks& blocks, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  auto after = blocks.upper_bound(const_cast<std::byte*>(at));
  if (after == blocks.begin()) return false;
  --after;
  return at < after->first + after->second;
}

}  // namespace fake

struct FakeCuda::State {
  explicit State(const FakeOptions& o) : options(o), random(o.seed) {}

  FakeOptions options;
  std::mt19937_64 random;
  std::vector<std::string> calls;
  std::vector<int> algorithms;
  int64_t until_failure = -1;
  std::string fails_only;
  bool has_failed = false;

  int contexts = 0;
  fake::Blocks blocks, pinned, reserved;
  std::map<CUmemGenericAllocationHandle, size_t> handles;
  std::map<std::byte*, std::pair<size_t, CUmemGenericAllocationHandle>> mapped;
  CUmemGenericAllocationHandle last_handle = 0;
  int64_t time = 0;  // rises with each event that passes
  std::map<CUstream, std::unique_ptr<fake::Stream>> streams;
  std::map<CUevent, std::shared_ptr<fake::Event>> events;
  std::shared_ptr<fake::Capture> capture;  // there is one at a time
  int cublas_handles = 0, cudnn_handles = 0, cudnn_descriptors = 0;
  std::map<CUgraph, std::shared_ptr<FakeGraph>> graphs;
  std::map<CUgraphExec, std::shared_ptr<FakeGraph>> executables;
  std::map<nvrtcProgram, std::unique_ptr<fake::Source>> programs;
  std::set<const void*> launched;  // the kernels
  std::map<CUlibrary, std::unique_ptr<fake::LoadedCode>> libraries;

  bool OnDevice(const void* address) const {
    return fake::Contains(blocks, address) || fake::Contains(reserved, address);
  }
  int64_t used() const {
    int64_t sum = 0;
    for (const auto& [address, bytes] : blocks) sum += static_cast<int64_t>(bytes);
    for (const auto& [handle, bytes] : handles) sum += static_cast<int64_t>(bytes);
    return sum;
  }

  fake::Stream& At(CUstream stream) {
    const auto found = streams.find(stream);
    SNUG_CHECK_MSG(found != streams.end(), "not a stream");
    return *found->second;
  }
  fake::Event& At(CUevent event) {
    const auto found = events.find(event);
    SNUG_CHECK_MSG(found != events.end(), "not an event");
    return *found->second;
  }

  // Gives the stream something to do.
  void Push(CUstream stream, std::function<void()> run) {
    fake::Stream& to = At(stream);
    if (to.capture == nullptr) return to.queue.push_back({nullptr, std::move(run)});
    to.last = {to.capture->graph.Add(to.last, std::move(run))};
  }

  // Says whether a capture forbids such a call, and marks it as broken then.
  bool Forbidden() {
    if (capture != nullptr) capture->broken = true;
    return capture != nullptr;
  }

  void EndCapture() {
    for (CUstream stream : capture->streams) {
      At(stream).capture = nullptr;
      At(stream).last.clear();
    }
    capture = nullptr;
  }

  // Says whether this call is the one that has to fail.
  bool Fails(const std::string& name) {
    calls.push_back(name);
    const bool counted = fails_only.empty() || fails_only == name;
    if (!counted || until_failure < 0 || until_failure-- != 0) return false;
    has_failed = true;
    return true;
  }

  // Does one piece of work of a stream that may go on. Chance chooses the stream.
  bool Advance() {
    std::vector<fake::Stream*> able;
    for (const auto& [handle, stream] : streams) {
      if (stream->queue.empty()) continue;
      const fake::Work& next = stream->queue.front();
      if (!next.ready || next.ready()) able.push_back(stream.get());
    }
    if (able.empty()) return false;
    fake::Stream& chosen = *able[random() % able.size()];
    const fake::Work work = std::move(chosen.queue.front());
    chosen.queue.pop_front();
    work.run();
    return true;
  }
  void RunUntil(const std::function<bool()>& done) {
    while (!done()) SNUG_CHECK_MSG(Advance(), "streams wait for each other for ever");
  }
  void RunAll() {
    while (Advance()) {
    }
  }
};

}  // namespace snug::core::cuda
