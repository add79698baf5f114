// Every interleaving of small engines: the scheduler's own code over the model's primitives.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/run/dependency/scheduler.h"
#include "tests/engine/model_sync.h"

namespace snug::core {
namespace {

using model::Model;
using ModelSync = model::ModelSync<false>;

// First, that the checker finds what there is to find.

TEST(Model, FindsALostUpdate) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  const auto result = Model::Explore([](Model& model) {
    const auto counter = std::make_shared<ModelSync::Atomic<int>>(0);
    const auto left = std::make_shared<ModelSync::Atomic<int>>(2);
    for (int i = 0; i < 2; ++i) {
      model.Spawn([counter, left] {
        counter->store(counter->load() + 1);
        if (left->fetch_sub(1) == 1) Model::Expect(counter->load() == 2, "lost");
      });
    }
  });
  EXPECT_NE(result.failure.find("lost"), std::string::npos) << result.failure;
}

TEST(Model, FindsADeadlock) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  const auto result = Model::Explore([](Model& model) {
    const auto locks = std::make_shared<std::pair<ModelSync::Mutex, ModelSync::Mutex>>();
    model.Spawn([locks] {
      const std::lock_guard a(locks->first);
      const std::lock_guard b(locks->second);
    });
    model.Spawn([locks] {
      const std::lock_guard b(locks->second);
      const std::lock_guard a(locks->first);
    });
  });
  EXPECT_NE(result.failure.find("wait for each other"), std::string::npos) << result.failure;
}

TEST(Model, FindsALostWakeup) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  struct Shared {
    ModelSync::Atomic<bool> ready{false};
    ModelSync::Mutex mu;
    ModelSync::Condition changed;
  };
  const auto program = [](bool lock_to_set) {
    return Model::Explore([lock_to_set](Model& model) {
      const auto shared = std::make_shared<Shared>();
      model.Spawn([shared] {
        std::unique_lock lock(shared->mu);
        while (!shared->ready.load()) shared->changed.wait(lock);
      });
      model.Spawn([shared, lock_to_set] {
        std::unique_lock lock(shared->mu, std::defer_lock);
        if (lock_to_set) lock.lock();
        shared->ready.store(true);
        if (lock_to_set) lock.unlock();
        shared->changed.notify_one();
      });
    });
  };
  EXPECT_NE(program(false).failure.find("wait for each other"), std::string::npos);
  EXPECT_EQ(program(true).failure, "");
}

// Two threads of three writes each to places of their own, and one to look at the other's in the end: the 3 + 3 writes
// are found to be independent, in whatever sequence they come.
TEST(Model, FollowsIndependentStepsOnce) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  const auto result = Model::Explore([](Model& model) {
    const auto places = std::make_shared<std::array<ModelSync::Atomic<int>, 6>>();
    for (size_t i = 0; i < 2; ++i) {
      model.Spawn([places, i] {
        for (size_t k = 0; k < 3; ++k) (*places)[3 * i + k].store(1);
      });
    }
    model.Spawn([places] {
      for (const auto& place : *places) place.load();
    });
  });
  EXPECT_EQ(result.failure, "");
  EXPECT_LE(result.executions, 4000);  // of 12!/(3! 3! 6!) = 18480 sequences
}

// A queue and a count of tasks whose operations are single steps: what the scheduler may expect of the real ones.

template <class Sync, class Node>
class IdealQueue {
 public:
  explicit IdealQueue(int /*workers*/) {}
  void Push(Node* node) {
    Model::current->SchedulingPoint(empty_.location);
    nodes_.push_back(node);
    empty_.locked = false;
  }
  Node* TryPop(int /*worker*/) { return nullptr; }
  Node* Pop(int /*worker*/) {
    Model::current->Await(empty_);
    if (nodes_.empty()) return nullptr;
    Node* node = nodes_.front();
    nodes_.erase(nodes_.begin());
    empty_.locked = nodes_.empty() && !closed_;
    return node;
  }
  bool MayPass(const Node& /*node*/, int /*worker*/) const { return true; }
  void Close() {
    Model::current->SchedulingPoint(empty_.location);
    closed_ = true;
    empty_.locked = false;
  }

 private:
  Model::Waitable empty_ = {.locked = true};
  std::vector<Node*> nodes_;
  bool closed_ = false;
};

template <class Sync>
class IdealProgress {
 public:
  using Amount = typename Progress<Sync>::Amount;
  static constexpr int64_t kEveryTask = Progress<Sync>::kEveryTask;

  explicit IdealProgress(int /*lanes*/) {}
  void CountPushed(int64_t /*bytes*/) {
    Model::current->SchedulingPoint(unfinished_.location);
    ++pushed_;
    unfinished_.locked = true;
  }
  int64_t CountFinished(int /*lane*/, int64_t /*bytes*/) {
    Model::current->SchedulingPoint(unfinished_.location);
    unfinished_.locked = ++finished_ < pushed_;
    return finished_;
  }
  Amount Pushed() const { return {pushed_, 0}; }
  Amount Finished() const { return {0, 0}; }  // there is room for all that is pushed
  Amount Unfinished() const { return {pushed_ - finished_, 0}; }
  template <class Done>
  void Await(int64_t /*tasks*/, Done&& done) {
    Model::current->Await(unfinished_);
    Model::Expect(done(), "waited in vain");
  }
  int64_t awaited() const { return -1; }
  void Announce() {}

 private:
  Model::Waitable unfinished_;
  int64_t pushed_ = 0, finished_ = 0;
};

// A small engine: tasks over two variables.

struct SmallTask {
  std::vector<Region> reads, writes;
  bool internal = false;

  bool ConflictsWith(const SmallTask& other) const {
    const auto any = [](const std::vector<Region>& a, const std::vector<Region>& b) {
      return std::any_of(a.begin(), a.end(),
                         [&](const Region& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
    };
    return any(writes, other.writes) || any(writes, other.reads) || any(reads, other.writes);
  }
};

struct Payload {
  int task = -1;
};

template <class TaskScheduler>
class SmallEngine : public TaskScheduler::Client {
 public:
  SmallEngine(std::vector<SmallTask> tasks, int workers, int64_t limit)
      : tasks_(std::move(tasks)),
        ended_(tasks_.size()),
        running_(tasks_.size()),
        scheduler_(this, std::vector<int>{workers}, {.tasks = limit, .bytes = 1}) {}

  void PushOne(int task) {
    const SmallTask& t = tasks_[static_cast<size_t>(task)];
    SNUG_CHECK_OK(scheduler_.Push({.internal = t.internal}, t.reads, t.writes, [&](Payload& payload) {
      payload.task = task;
      pushed_.push_back(task);
      return absl::OkStatus();
    }));
  }
  TaskScheduler& scheduler() { return scheduler_; }
  void CheckAllEnded() const {
    Model::Expect(std::all_of(ended_.begin(), ended_.end(), [](int n) { return n == 1; }), "not all tasks ran once");
  }

 private:
  void Run(Payload& payload, int64_t /*sequence*/, int /*queue*/, int /*worker*/) override {
    const auto me = static_cast<size_t>(payload.task);
    for (const int earlier : pushed_) {
      if (earlier == payload.task) break;
      Model::Expect(
          !tasks_[me].ConflictsWith(tasks_[static_cast<size_t>(earlier)]) || ended_[static_cast<size_t>(earlier)] == 1,
          "task " + std::to_string(me) + " began before task " + std::to_string(earlier) + " had ended");
    }
    running_[me] = 1;
    work_.load();  // it takes time: others may run meanwhile
    for (size_t other = 0; other < tasks_.size(); ++other) {
      Model::Expect(other == me || running_[other] == 0 || !tasks_[me].ConflictsWith(tasks_[other]),
                    "tasks " + std::to_string(me) + " and " + std::to_string(other) + " ran side by side");
    }
    running_[me] = 0;
    ++ended_[me];
  }
  bool MayBlock() override { return true; }

  const std::vector<SmallTask> tasks_;
  std::vector<int> pushed_;  // in sequence
  std::vector<int> ended_, running_;
  ModelSync::Atomic<int> work_{0};
  TaskScheduler scheduler_;
};

struct Setting {
  int workers = 1;
  int pushers = 1;
  int64_t limit = 100;
};

const Region x = Tag{0, 0}, y = Tag{1, 0};
const SmallTask kWriteX{{}, {x}}, kReadX{{x}, {}}, kWriteY{{}, {y}}, kCopy{{x}, {y}}, kBoth{{}, {x, y}};
const SmallTask kWaitForX{.reads = {x}, .internal = true}, kDeleteX{.writes = {x}, .internal = true};

std::string Name(const std::vector<SmallTask>& tasks) {
  std::string name;
  for (const SmallTask& t : tasks) {
    name += t.internal ? " internal" : " task";
    for (const Region& r : t.reads) name += r == x ? " r(x)" : " r(y)";
    for (const Region& r : t.writes) name += r == x ? " w(x)" : " w(y)";
    name += ";";
  }
  return name;
}

// Pushers push the tasks in turn, each its share; the last one to end waits for all and closes.
template <class TaskScheduler>
Model::Result ExploreEngine(const std::vector<SmallTask>& tasks, const Setting& setting) {
  return Model::Explore([&](Model& model) {
    const auto engine = std::make_shared<SmallEngine<TaskScheduler>>(tasks, setting.workers, setting.limit);
    const auto left = std::make_shared<ModelSync::Atomic<int>>(setting.pushers);
    for (int p = 0; p < setting.pushers; ++p) {
      model.Spawn([engine, left, p, pushers = setting.pushers, count = static_cast<int>(tasks.size())] {
        for (int i = p; i < count; i += pushers) engine->PushOne(i);
        if (left->fetch_sub(1) != 1) return;
        engine->scheduler().AwaitAll();
        engine->CheckAllEnded();
        engine->scheduler().Close();
      });
    }
    for (int w = 0; w < setting.workers; ++w) {
      model.Spawn([engine, w] { engine->scheduler().Work(0, w); });
    }
  });
}

template <class TaskScheduler>
void CheckEveryInterleaving(const std::vector<SmallTask>& tasks, const Setting& setting) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  const Model::Result result = ExploreEngine<TaskScheduler>(tasks, setting);
  EXPECT_EQ(result.failure, "") << Name(tasks);
  EXPECT_GT(result.states, 10);
  std::printf("%d workers, %d pushers, limit %d:%s %lld executions, %lld states\n", setting.workers, setting.pushers,
              static_cast<int>(setting.limit), Name(tasks).c_str(), static_cast<long long>(result.executions),
              static_cast<long long>(result.states));
}

using LinksOnly = Scheduler<ModelSync, Payload, IdealQueue, IdealProgress>;
using Everything = Scheduler<ModelSync, Payload>;
using EverythingPolling = Scheduler<model::ModelSync<true>, Payload>;

// The locking protocol: linking and finishing.
TEST(ModelCheck, ThreeTasksTwoVariablesTwoWorkers) {
  CheckEveryInterleaving<LinksOnly>({kWriteX, kCopy, kReadX}, {.workers = 2});
  CheckEveryInterleaving<LinksOnly>({kCopy, kWriteX, kBoth}, {.workers = 2});
  CheckEveryInterleaving<LinksOnly>({kBoth, kReadX, kWriteY}, {.workers = 2});
}
TEST(ModelCheck, InternalTasksRunWhereTheyBecomeReady) {
  CheckEveryInterleaving<LinksOnly>({kWriteX, kWaitForX, kDeleteX}, {.workers = 2});
  CheckEveryInterleaving<LinksOnly>({kCopy, kDeleteX, kWriteY}, {.workers = 2});
}

// The checker sees it if a list of waiting tasks is not closed and taken in one step.
struct TornSync : ModelSync {
  template <class T>
  class Atomic : public ModelSync::Atomic<T> {
   public:
    using ModelSync::Atomic<T>::Atomic;
    T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
      const T old = this->load(order);
      this->store(value, order);
      return old;
    }
  };
};
TEST(ModelCheck, SeesATornOperation) {
  if (!model::kSupported) GTEST_SKIP() << "the model checker does not run under sanitizers";
  using Torn = Scheduler<TornSync, Payload, IdealQueue, IdealProgress>;
  const std::string failure = ExploreEngine<Torn>({kWriteX, kReadX}, {}).failure;
  EXPECT_NE(failure.find("wait for each other"), std::string::npos) << failure;
}

// With the real queue and counts: sleeping, waking, waiting for all and for room.
TEST(ModelCheck, OneWorkerSleepsAndWakes) {
  CheckEveryInterleaving<Everything>({kWriteX, kReadX}, {});
  CheckEveryInterleaving<Everything>({kWriteX, kCopy, kReadX}, {});
  CheckEveryInterleaving<EverythingPolling>({kWriteX, kReadX}, {});
}
TEST(ModelCheck, PushingAheadIsBounded) { CheckEveryInterleaving<Everything>({kWriteX, kReadX}, {.limit = 1}); }
TEST(ModelCheck, TwoPushers) { CheckEveryInterleaving<Everything>({kWriteX, kReadX}, {.pushers = 2}); }

// Minutes each. Of two workers that sleep and wake there is one task: with two, an hour does not see every
// interleaving.
class CampaignModelCheck : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SNUG_CAMPAIGN") == nullptr) GTEST_SKIP() << "a campaign: set SNUG_CAMPAIGN to run it";
  }
};

TEST_F(CampaignModelCheck, EveryThreeTasksOnTwoWorkers) {
  const std::vector<SmallTask> kinds = {kWriteX, kReadX, kCopy, kBoth};
  for (const SmallTask& a : kinds) {
    for (const SmallTask& b : kinds) {
      for (const SmallTask& c : kinds) CheckEveryInterleaving<LinksOnly>({a, b, c}, {.workers = 2});
    }
  }
}
TEST_F(CampaignModelCheck, TwoPushersAndTwoWorkers) {
  CheckEveryInterleaving<LinksOnly>({kWriteX, kReadX, kBoth}, {.workers = 2, .pushers = 2});
}
TEST_F(CampaignModelCheck, TwoWorkersSleepAndWakeForOneTask) {
  CheckEveryInterleaving<Everything>({kWriteX}, {.workers = 2});
}

}  // namespace
}  // namespace snug::core
