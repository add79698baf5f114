// The protocol of the dynamic engine: tasks with accesses are pushed, and a worker runs each once all that it conflicts
// with has finished. All that threads do to each other is here and in the headers included; what a task means (its
// errors, versions, tags) is up to the client. It is a template over its primitives for the model checker (see sync.h),
// and over its parts, so that they can be checked separately.
//
// One lock serialises pushing; the history of accesses, the sequence numbers and the pool of tasks belong to it, and
// workers never take it. The node of a finished task goes back to the pool at once, though the history may still name
// it by pointer and sequence number. That is safe because a node only gets another number under the lock, so whoever
// looks it up there can tell.
#pragma once

#include <absl/status/status.h>
#include <absl/types/span.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/access_history.h"
#include "engine/run/dependency/links.h"
#include "engine/run/dependency/progress.h"
#include "engine/run/dependency/ready_queue.h"

namespace snug::core {

struct TaskAttributes {
  int queue = 0;        // the queue whose workers run it
  int32_t stream = -1;  // < 0: any
  int32_t priority = 0;
  int64_t bytes = 0;
  // Marks the engine's own small tasks. The thread that finds one ready runs it at once, and limits do not apply to it.
  bool internal = false;
};

struct SchedulerLimits {
  int64_t tasks = 1;  // the most unfinished tasks; at least 1
  int64_t bytes = 0;  // a task with more bytes is pushed when no others have any
};

template <class Sync, class Payload, template <class, class> class QueueOf = ReadyQueue,
          template <class> class ProgressOf = Progress>
class Scheduler {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    // Worker `worker` of the queue runs the task; -1 stands for a thread that pushes.
    virtual void Run(Payload& payload, int64_t sequence, int queue, int worker) = 0;
    // Tells whether the limits may hold back the calling thread, which must not happen to workers.
    virtual bool MayBlock() = 0;
  };

  Scheduler(Client* client, absl::Span<const int> workers_of_queue, SchedulerLimits limits)
      : client_(client),
        limits_(limits),
        announce_every_(std::clamp<int64_t>(limits.tasks / 16, 1, 64)),
        progress_(Lanes(workers_of_queue)),
        freed_(static_cast<size_t>(Lanes(workers_of_queue))) {
    int lane = kPushers + 1;
    for (const int workers : workers_of_queue) {
      queues_.push_back(std::make_unique<Queue>(workers));
      first_lanes_.push_back(lane);
      lane += workers;
    }
  }

  // prepare(payload) fills in the task, under the lock. If it fails, nothing is pushed and its error is returned.
  template <class Prepare>
  absl::Status Push(const TaskAttributes& attributes, absl::Span<const Region> reads, absl::Span<const Region> writes,
                    Prepare&& prepare) {
    Node* node;
    bool ready;
    while (true) {
      {
        const std::lock_guard lock(push_mu_);
        if (attributes.internal || Fits(attributes.bytes) || !client_->MayBlock()) {
          node = Allocate();
          absl::Status status = prepare(node->payload);
          if (!status.ok()) {
            node->next = std::exchange(free_, node);
            return status;
          }
          node->attributes(attributes);
          ready = Link(*node, reads, writes);
          break;
        }
      }
      AwaitRoom(attributes.bytes);
    }
    if (!ready) return absl::OkStatus();
    if (node->internal) {
      RunAndFinish(node, kPushers, -1);
      progress_.Announce();
    } else {
      queues_[static_cast<size_t>(node->queue)]->Push(node);
    }
    return absl::OkStatus();
  }

  // Calls f() under the lock of pushers, so that it may use what they share.
  template <class F>
  auto Locked(F&& f) {
    const std::lock_guard lock(push_mu_);
    return f();
  }

  void AwaitAll() {
    progress_.Await(0, [this] { return progress_.Unfinished().tasks == 0; });
  }

  // Runs a worker, until the queues are closed and its own is empty.
  void Work(int queue_index, int worker) {
    Queue& queue = *queues_[static_cast<size_t>(queue_index)];
    const int lane = first_lanes_[static_cast<size_t>(queue_index)] + worker;
    Node* node = nullptr;
    while (true) {
      if (node == nullptr) node = queue.TryPop(worker);
      if (node == nullptr) {
        progress_.Announce();  // it has no task to follow, so the last one may have finished
        node = queue.Pop(worker);
        if (node == nullptr) return;
      }
      node = RunAndFinish(node, lane, worker);
    }
  }
  void Close() {
    for (const auto& queue : queues_) queue->Close();
  }
  void Reopen() {
    for (const auto& queue : queues_) queue->Reopen();
  }

 private:
  // Each group of members has cache lines of its own: what other tasks change, the payload, and the task's waits. The
  // vector after these is only touched by pushers.
  struct alignas(64) Node : Links<Sync> {
    Node* next = nullptr;  // the next node in whichever list it is
    int64_t sequence = 0;  // only changes under the lock
    int64_t bytes = 0;
    int32_t priority = 0;
    int32_t stream = -1;
    int16_t queue = 0;
    bool internal = false;
    alignas(64) Payload payload;
    alignas(64) std::array<typename Links<Sync>::Edge, 4> edges = {};
    std::vector<typename Links<Sync>::Edge> more_edges;

    void attributes(const TaskAttributes& a) {
      bytes = a.bytes;
      priority = a.priority;
      stream = a.stream;
      queue = static_cast<int16_t>(a.queue);
      internal = a.internal;
    }
  };
  using Queue = QueueOf<Sync, Node>;

  // A task in the history. If its node has another number by now, the task finished long ago.
  struct Who {
    Node* node = nullptr;
    int64_t sequence = 0;
    friend bool operator==(const Who& a, const Who& b) { return a.sequence == b.sequence; }
  };
  // Collects the tasks to wait for without waiting for their nodes to arrive from other cores: it only prefetches them.
  struct Predecessors {
    std::vector<Who>* found;
    bool Finished(const Who& who) { return who.node->sequence != who.sequence || who.node->finished(); }
    void Wait(const Who& who) {
      if (!found->empty() && found->back() == who) return;
      __builtin_prefetch(who.node, 1);
      found->push_back(who);
    }
  };
  struct alignas(64) Freed {
    typename Sync::template Atomic<Node*> first{nullptr};
  };

  static constexpr int kPushers = 0;               // the lane of all threads that are not workers
  static constexpr size_t kPoolBytes = 64 * 1024;  // so many bytes are in use before nodes are reused, which keeps
                                                   // nodes from travelling between cores

  static int Lanes(absl::Span<const int> workers_of_queue) {
    int lanes = 1;
    for (const int workers : workers_of_queue) lanes += workers;
    return lanes;
  }

  // Returns true if the task is ready; then nobody but the caller knows of it.
  bool Link(Node& node, absl::Span<const Region> reads, absl::Span<const Region> writes) {
    node.sequence = ++last_sequence_;
    node.Open();
    predecessors_.clear();
    Predecessors policy{&predecessors_};
    const Who who{&node, node.sequence};
    for (const Region& r : reads) history_.Add({r, false}, who, policy);
    for (const Region& r : writes) history_.Add({r, true}, who, policy);
    std::erase_if(predecessors_, [](const Who& p) { return p.node->sequence != p.sequence; });
    const auto count = static_cast<int32_t>(predecessors_.size());
    if (predecessors_.size() > node.edges.size() && predecessors_.size() > node.more_edges.size()) {
      node.more_edges.resize(predecessors_.size());
    }
    auto* edges = predecessors_.size() > node.edges.size() ? node.more_edges.data() : node.edges.data();
    node.Expect(count);
    progress_.CountPushed(node.bytes);
    int32_t over = 1;
    for (int32_t i = 0; i < count; ++i) {
      if (!node.WaitFor(*predecessors_[static_cast<size_t>(i)].node, edges[i])) ++over;
    }
    return node.Release(over);
  }

  // Runs the task, and internal tasks that become ready by it. Returns a task for the worker to go on with.
  Node* RunAndFinish(Node* node, int lane, int worker) {
    const int own_queue = worker < 0 ? -1 : node->queue;
    Node* next = nullptr;
    Node* internal = nullptr;
    int64_t finished = 0;
    while (true) {
      client_->Run(node->payload, node->sequence, node->queue, worker);
      Node* ready = nullptr;
      node->Finish([&](Links<Sync>& links) {  // they come last-linked first; this restores their sequence
        auto* successor = static_cast<Node*>(&links);
        successor->next = std::exchange(ready, successor);
      });
      const int64_t bytes = node->bytes;
      Free(node, lane);
      while (ready != nullptr) {
        Node* successor = std::exchange(ready, ready->next);
        if (successor->internal) {
          successor->next = std::exchange(internal, successor);
          continue;
        }
        Queue& queue = *queues_[static_cast<size_t>(successor->queue)];
        if (successor->queue == own_queue && queue.MayPass(*successor, worker) &&
            (next == nullptr || successor->priority > next->priority)) {
          std::swap(next, successor);
          __builtin_prefetch(&next->payload);
        }
        if (successor != nullptr) queues_[static_cast<size_t>(successor->queue)]->Push(successor);
      }
      finished = progress_.CountFinished(lane, bytes);
      if (internal == nullptr) break;
      node = std::exchange(internal, internal->next);
    }
    const int64_t awaited = progress_.awaited();
    if (awaited == ProgressOf<Sync>::kEveryTask || (awaited >= 0 && finished % announce_every_ == 0))
      progress_.Announce();
    return next;
  }

  // Needs the lock.
  bool Fits(int64_t bytes) {
    if (FitsBeside(bytes, known_finished_)) return true;
    known_finished_ = progress_.Finished();
    return FitsBeside(bytes, known_finished_);
  }
  bool FitsBeside(int64_t bytes, const typename ProgressOf<Sync>::Amount& finished) const {
    const auto pushed = progress_.Pushed();
    const int64_t held = pushed.bytes - finished.bytes;
    return pushed.tasks - finished.tasks < limits_.tasks && (bytes == 0 || held <= 0 || held + bytes <= limits_.bytes);
  }
  void AwaitRoom(int64_t bytes) {
    // Does not wake up when there is room for just one task: being woken costs more than running an eighth of most
    // queues.
    const int64_t tasks = bytes != 0 ? ProgressOf<Sync>::kEveryTask : limits_.tasks - limits_.tasks / 8 - 1;
    progress_.Await(tasks, [&] { return FitsBeside(bytes, progress_.Finished()); });
  }

  // Needs the lock.
  Node* Allocate() {
    if (free_ == nullptr && pool_.size() * sizeof(Node) * kChunk >= kPoolBytes) {
      for (size_t i = 0; i < freed_.size() && free_ == nullptr; ++i) {
        free_ = freed_[i].first.exchange(nullptr, std::memory_order_acquire);
      }
    }
    if (free_ == nullptr) {
      pool_.push_back(std::make_unique<std::array<Node, kChunk>>());
      for (Node& node : *pool_.back()) node.next = std::exchange(free_, &node);
    }
    Node* node = std::exchange(free_, free_->next);
    if (free_ != nullptr) {  // the next push will use this one, which another core has changed last
      __builtin_prefetch(free_, 1);
      __builtin_prefetch(&free_->payload, 1);
      __builtin_prefetch(&free_->edges, 1);
    }
    return node;
  }
  void Free(Node* node, int lane) {
    auto& first = freed_[static_cast<size_t>(lane)].first;
    node->next = first.load(std::memory_order_relaxed);
    while (!first.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  static constexpr size_t kChunk = 32;

  Client* const client_;
  const SchedulerLimits limits_;
  const int64_t announce_every_;  // while somebody waits for room, a lane announces after so many tasks
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<int> first_lanes_;  // by queue: the lane of its first worker
  ProgressOf<Sync> progress_;
  std::vector<Freed> freed_;  // indexed by lane

  alignas(64) typename Sync::Mutex push_mu_;  // guards all members below, which lie on cache lines that no worker reads
  AccessHistory<Who> history_;
  int64_t last_sequence_ = 0;
  typename ProgressOf<Sync>::Amount known_finished_;
  std::vector<Who> predecessors_;
  Node* free_ = nullptr;
  std::vector<std::unique_ptr<std::array<Node, kChunk>>> pool_;
};

}  // namespace snug::core
