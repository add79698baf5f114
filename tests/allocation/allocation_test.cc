// In the steady state our own code allocates nothing, libraries give back within a step what they take for themselves,
// and the process gets no memory from the system: counted by replacing malloc and operator new in this program and
// looking at who called. How much libraries take at once depends on the kernels that they have for this processor; it
// is printed.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "tests/control/lstm_cell.h"
#include "tests/run/train_util.h"
#include "tests/testing/sanitizers.h"

namespace {

struct Allocation {
  void* caller;
  size_t bytes;
};
constexpr size_t kMaxRecorded = 1 << 16;
Allocation recorded[kMaxRecorded];
std::atomic<size_t> allocations{0};
std::atomic<int64_t> held{0}, most_held{0};  // bytes that were taken since recording began and not given back
std::atomic<bool> recording{false};

[[maybe_unused]] void* Record(void* caller, size_t bytes, void* taken) {
  if (!recording.load(std::memory_order_relaxed) || taken == nullptr) return taken;
  const size_t i = allocations.fetch_add(1);
  if (i < kMaxRecorded) recorded[i] = {caller, bytes};
  const auto usable = static_cast<int64_t>(malloc_usable_size(taken));
  const int64_t now = held.fetch_add(usable) + usable;
  int64_t most = most_held.load();
  while (now > most && !most_held.compare_exchange_weak(most, now)) {
  }
  return taken;
}

[[maybe_unused]] void RecordFree(void* given) {
  if (!recording.load(std::memory_order_relaxed) || given == nullptr) return;
  held.fetch_sub(static_cast<int64_t>(malloc_usable_size(given)));
}

}  // namespace

#if !SNUG_SANITIZED
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the names that glibc gives them
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) { return Record(__builtin_return_address(0), bytes, __libc_malloc(bytes)); }
void* calloc(size_t n, size_t bytes) { return Record(__builtin_return_address(0), n * bytes, __libc_calloc(n, bytes)); }
void* realloc(void* p, size_t bytes) {
  RecordFree(p);
  return Record(__builtin_return_address(0), bytes, __libc_realloc(p, bytes));
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return Record(__builtin_return_address(0), bytes, __libc_memalign(alignment, bytes));
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = Record(__builtin_return_address(0), bytes, __libc_memalign(alignment, bytes));
  return *out == nullptr;
}
void free(void* p) {
  RecordFree(p);
  __libc_free(p);
}
}

void* operator new(size_t bytes) { return Record(__builtin_return_address(0), bytes, __libc_malloc(bytes)); }
void* operator new[](size_t bytes) { return Record(__builtin_return_address(0), bytes, __libc_malloc(bytes)); }
void operator delete(void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
#endif

namespace snug::core {
namespace {

std::string LibraryOf(void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "?";
}

// What is mapped, without the heap: reading this grows and trims it, and sbrk tells of the heap exactly.
std::string Maps() {
  std::ifstream file("/proc/self/maps");
  std::string text;
  for (std::string line; std::getline(file, line);) {
    if (line.find("[heap]") == std::string::npos) text += line + "\n";
  }
  return text;
}

void ExpectStepsAllocateNothing(Session& session) {
  // Heaps of several threads settle in some steps, not in one.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(session.Run().ok());

  const std::string maps = Maps();
  const std::string maps_again = Maps();  // reading them allocates, too: settle first
  // Threads that for the first time take at one moment what they took in turn make the heap larger, once. On a machine
  // that does other things, too, they may do so late: what is taken anew again and again is taken in every round.
  constexpr int64_t kSmall = 64 << 10, kHeapSteps = 256 << 10;
  constexpr int kRounds = 4;
  int64_t grown = 0, allowed = 0;
  size_t found = 0, steps = 0;  // of all rounds
  allocations = 0;
  for (int round = 0; round < kRounds; ++round) {
    const void* const brk = sbrk(0);
    held = most_held = 0;
    recording = true;
    bool ok = true;
    for (int i = 0; i < 100; ++i) ok = ok && session.Run().ok();
    recording = false;
    found = allocations;
    steps += 100;
    EXPECT_TRUE(ok);
    EXPECT_EQ(held, 0) << "bytes that were taken in the steps and not given back";
    grown = static_cast<const char*>(sbrk(0)) - static_cast<const char*>(brk);
    allowed = most_held <= kSmall ? 0 : most_held + kHeapSteps;
    if (grown <= allowed) break;
  }
  EXPECT_LE(grown, allowed);
  EXPECT_TRUE(Maps() == maps_again) << "the steps mapped or unmapped memory; before:\n" << maps_again;

  const std::string own = LibraryOf(reinterpret_cast<void*>(&LibraryOf));
  size_t largest = 0;
  for (size_t i = 0; i < std::min(found, kMaxRecorded); ++i) {
    ASSERT_NE(LibraryOf(recorded[i].caller), own) << "our own code allocated " << recorded[i].bytes << " bytes";
    largest = std::max(largest, recorded[i].bytes);
  }
  std::printf("libraries' own: %zu calls a step, the largest %zu bytes, at most %ld bytes at once\n", found / steps,
              largest, static_cast<long>(most_held.load()));
}

class WithCounts : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kSanitized) {
      GTEST_SKIP() << "SKIPPED: sanitizers bring their own malloc; this runs in the release build";
    }
  }
};

class AllocationTest : public WithCounts, public testing::WithParamInterface<const char*> {};

TEST_P(AllocationTest, StepsAllocateNothing) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto session = MakeSession(*loaded, {.batch = 2, .threads = 2});
  ASSERT_TRUE(session.ok()) << session.status().message();
  ExpectStepsAllocateNothing(**session);
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest, testing::Values("mlp", "lenet", "gpt_small"),
                         [](const auto& info) { return std::string(info.param); });

class LoopAllocationTest : public WithCounts {};

// A loop that stays one node, trained: its rounds, forward and backward, run on bytes that the plan gave them.
TEST_F(LoopAllocationTest, RoundsOfAnLstmAllocateNothing) {
  const std::string lstm = test::LstmCell(/*units=*/16) + R"(
    batch: 8
    input { name: "x" shape { dim: [8, 16] } }
    input { name: "count" dtype: INT32 max_value: 9 }
    layer { name: "h" input: "x" state { dim: 16 } }
    layer { name: "lstm" input: "x" input: "h" input: "h" $count loop { body: "cell" scan { input: "x" } $counted
      carry { input: "h" output: "h_next" } carry { input: "c" output: "c_next" } collect { output: "h_next" } } }
    layer { name: "squares" input: "lstm:2" square {} }
    layer { name: "loss" input: "squares" reduce_mean {} }
    objective: "loss")";
  for (const bool counted : {false, true}) {
    for (const int64_t anew : {0, 3}) {
      if (counted && anew != 0) continue;  // computes nothing anew, as it may end early
      SCOPED_TRACE(absl::StrCat("counted: ", counted, ", computed anew: ", anew));
      const std::string text = absl::StrReplaceAll(
          lstm, {{"$counted", counted ? "counted: true" : ""}, {"$count", counted ? "input: \"count\"" : ""}});
      const CompileOptions options{.threads = 1, .loops = LoopRule::kRolled, .recompute_rounds = anew};
      auto session = MakeSession(text, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      ASSERT_TRUE((*session)->compiled().loops[0].rolled);
      ExpectStepsAllocateNothing(**session);
    }
  }
}

class StreamAllocationTest : public AllocationTest {};

TEST_P(StreamAllocationTest, StepsOnTwoStreamsAllocateNothing) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  CompileOptions options{.batch = 2, .threads = 1};
  options.memory.streams = 2;
  auto session = MakeSession(*loaded, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_EQ((*session)->compiled().executable.schedule.count(), 2);
  ExpectStepsAllocateNothing(**session);
}

INSTANTIATE_TEST_SUITE_P(Models, StreamAllocationTest, testing::Values("mlp", "lenet"),
                         [](const auto& info) { return std::string(info.param); });

// Once the allocator has grown: what dies goes back to it, and comes from it again.
class DynamicAllocationTest : public AllocationTest {};

TEST_P(DynamicAllocationTest, StepsAllocateNothing) {
  const absl::StatusOr<LoadedNetwork> loaded = LoadModel(GetParam());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const char* allocator : {"auto_growth", "buddy", "prealloc"}) {
    SCOPED_TRACE(allocator);
    CompileOptions options{.batch = 2, .threads = 2, .keep_inputs = true};
    options.memory = {.strategy = "dynamic",
                      .dynamic = {.allocator = {.allocator = allocator, .initial_mb = 500, .buddy_max_pool_mb = 64},
                                  .garbage = {.gc_threshold_gb = 1e-4}}};
    auto compiled = Compile(loaded->network, loaded->source_map, OpRegistry::Builtin(), options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    auto session = Session::Create(*std::move(compiled), {.seed = 1, .engine = ExecutorKind::kSerial});
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(FeedRandom(**session, OpRegistry::Builtin(), 1).ok());
    ExpectStepsAllocateNothing(**session);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DynamicAllocationTest, testing::Values("mlp", "lenet"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace snug::core
