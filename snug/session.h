// A compiled network with its memory and its Variables, which can be fed, stepped, fetched and saved.
//
//   snug::Result<snug::Session> session = snug::Session::Create(network, {.batch = 32});
//   if (!session.ok()) return Fail(session.status());
//   for (const Batch& b : batches) {
//     if (snug::Status s = session->Step({{"image", b.images}, {"label", b.labels}}); !s.ok()) return Fail(s);
//   }
//   std::printf("loss %g\n", *session->FetchScalar("loss"));
//
// Sessions share nothing: each may be used from a different thread, but only by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "snug/export.h"
#include "snug/network.h"
#include "snug/option.h"
#include "snug/status.h"
#include "snug/tensor.h"

namespace snug {
inline namespace v0 {

struct SessionOptions {
  std::string device = "cpu";         // where steps run: cpu, cuda, or cuda:N for the N-th GPU
  int64_t batch = 0;                  // samples in a step; 0: `training { batch }`, the network's, or 1
  bool training = true;               // false compiles the forward pass only
  int64_t evaluation_batch = 0;       // > 0 adds a forward-only program of this batch, on the same Variables and memory
  DType precision = DType::kFloat32;  // may also be kBFloat16 (with float32 parameters) or kFloat64
  // In bfloat16: parameters and what optimizers keep are bfloat16 too, and updates round them up or down at random.
  bool stochastic_rounding = false;
  int threads = 1;          // threads of each op; 0: one for every processor
  int streams = 1;          // how many ops may run side by side
  std::string engine = {};  // replay, serial or dynamic; "": replay, or serial where memory is dynamic
  // What these leave open about memory is taken from `training { memory { } }` of the model file, or is the default.
  std::string memory = {};   // how it is planned: `snug plan --help` names the strategies; "": as the file says, or
                             // best
  int64_t memory_limit = 0;  // in bytes; a plan that needs more is an error. 0: as the file says, or none
  // Options for memory = "dynamic", where values come from an allocator: {{"allocator", "buddy"}, {"gc_fraction",
  // 0.5}}. They are the fields of `training { memory { } }` and the flags of `snug plan`; docs/memory.md explains them.
  std::vector<Option> memory_options = {};
  uint64_t seed = 0;
  // When no op has finished for so many seconds, a report says what each stream runs or waits for, and again after
  // twice as long; 0 is off. The report goes to standard error or, on a thread of its own, to watchdog_report, which
  // must not throw.
  double watchdog = 0;
  std::function<void(const std::string& report)> watchdog_report = {};
  bool keep_inputs = false;             // what is fed stays for the next step; otherwise the step may reuse its bytes
  std::vector<std::string> fetch = {};  // values that become outputs in addition to the network's own
  // Inputs and outputs that lie in the caller's own memory (Program::Bind). The session takes no bytes for them.
  std::vector<std::string> bound = {};
};

struct MemoryFigures {
  std::string strategy;
  int64_t state_bytes = 0;  // bytes of the Variables
  int64_t step_bytes = 0;   // bytes of everything else
  int64_t lower_bound = 0;  // no plan has a smaller sum of the two
  bool proven = false;      // the plan reaches the bound, or a search has shown that no plan is better
  int64_t total_bytes() const { return state_bytes + step_bytes; }
};

// A name, and numbers for it.
struct Fed {
  std::string_view name;
  Numbers numbers;
};

// One compiled form of the network within a Session. It is a handle that stays valid as long as the Session lives, even
// if that is moved.
class SNUG_API Program {
 public:
  // Copies the numbers and converts them to the input's own type. There must be one for each element of the batch.
  Status Feed(std::string_view name, const Numbers& numbers) noexcept;
  // Runs one step. An error before any Variable has changed leaves them as they were.
  Status Run(std::initializer_list<Fed> feeds = {}) noexcept;
  template <Element T>
  Result<std::vector<T>> Fetch(std::string_view name) noexcept;
  Result<double> FetchScalar(std::string_view name) noexcept;

  // These give access to the bytes themselves, without a copy: to write before a step (which counts as feeding), and to
  // read after it. They stay at the same place in every step. A step may write over its inputs, unless `keep_inputs`.
  Result<Tensor> Input(std::string_view name) noexcept;
  Result<Tensor> Output(std::string_view name) noexcept;

  // Return the shape and the element type alone; `data` is null.
  Result<Tensor> InputType(std::string_view name) const noexcept;
  Result<Tensor> OutputType(std::string_view name) const noexcept;

  // Lets a value that SessionOptions::bound names use the caller's own memory. From the next step on, until other
  // memory is bound, steps read inputs and write outputs there, without a copy. The memory must hold all elements in
  // the value's own type, and begin at a multiple of kBufferAlignment. On a GPU it must be memory of the device, as
  // cudaMalloc gives it, and begin at a multiple of kCudaBufferAlignment. A step never writes to a bound input. Memory
  // that is written must not overlap anything else that is bound. Binding is cheap and allocates nothing.
  Status Bind(std::string_view name, const Buffer& buffer) noexcept;

  Result<std::vector<std::string>> inputs() const noexcept;
  Result<std::vector<std::string>> outputs() const noexcept;
  int64_t batch() const noexcept;
  Result<MemoryFigures> memory() const noexcept;

 private:
  friend class Session;
  struct Impl;
  explicit Program(Impl* impl) : impl_(impl) {}
  Status FetchInto(std::string_view name, DType dtype, void* out, int64_t size) noexcept;
  Result<int64_t> SizeOfOutput(std::string_view name) noexcept;

  Impl* impl_;
};

struct Variable {
  std::string name;  // "fc1.weight"
  TensorType type;
  bool parameter = false;  // whether it is trained; otherwise it is a statistic, a slot of the optimizer, a constant or
                           // a counter
};

// Says what is taken from a checkpoint.
enum class Load : uint8_t {
  // Takes everything, bit for bit: training goes on as if it had never stopped. A checkpoint is refused if it has
  // another batch, precision or seed, other threads, micro-batches or tuning, or a platform with other kernels; the
  // error names what differs.
  kResume,
  // Takes everything too, and requires the same samples in a step, precision and seed. Threads, micro-batches, tuning
  // and platform may differ, which changes the rounding; other micro-batches also change what batch norm and dropout
  // do. `snug train --resume` does this, with a warning.
  kContinue,
  // Takes parameters and statistics. Floating-point types are converted, so files of other programs can be used.
  kWeights,
};

class SNUG_API Session {
 public:
  static Result<Session> Create(const Network& network, const SessionOptions& options = {}) noexcept;
  // Returns what Create would need, to the byte, without taking it.
  static Result<MemoryFigures> Plan(const Network& network, const SessionOptions& options = {}) noexcept;

  // The same plan as JSON: what lies where and when, and what is live at the peak. The fields are those of
  // `snug plan --json`. It is the plan of the program for training, or of the one that was asked for instead.
  static Result<std::string> PlanReport(const Network& network, const SessionOptions& options = {}) noexcept;
  // The strategies that SessionOptions::memory may name: those that are quick, or those that may search for minutes.
  static Result<std::vector<std::string>> Strategies(bool slow) noexcept;

  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;
  ~Session();

  // The program for training, or the one that was asked for instead.
  Program program() noexcept;
  Status Feed(std::string_view name, const Numbers& numbers) noexcept { return program().Feed(name, numbers); }
  Status Step(std::initializer_list<Fed> feeds = {}) noexcept { return program().Run(feeds); }
  Status Bind(std::string_view name, const Buffer& buffer) noexcept { return program().Bind(name, buffer); }
  template <Element T>
  Result<std::vector<T>> Fetch(std::string_view name) noexcept {
    return program().Fetch<T>(name);
  }
  Result<double> FetchScalar(std::string_view name) noexcept { return program().FetchScalar(name); }
  // The forward-only program; an error unless `evaluation_batch` was given.
  Result<Program> evaluation() noexcept;

  // Couples the session to a stream of a GPU. From now on, a step comes on the device after all that was given to this
  // stream before Step, and before all that is given to it afterwards. `stream` is a cudaStream_t of the same device;
  // null is CUDA's default stream. Step then returns as soon as its work is queued, and the host waits only where it
  // feeds, fetches, looks at Variables or runs the other program; bound buffers need no waiting. The stream must
  // outlive the session, and must not be being captured.
  Status FollowStream(void* stream) noexcept;
  // Waits until all steps are done, and returns the first error. Unless steps follow a stream there is nothing to wait
  // for.
  Status Wait() noexcept;

  // Ends the step under way, and those that begin, as soon as may be, until Stop(false). A step that has not begun to
  // change Variables fails with kCancelled, and they are as before; one that has runs to its end. What a stopped step
  // was fed is to be fed anew. Any thread may call this at any time, and so may a signal handler. Steps on a GPU are
  // not stopped midway.
  void Stop(bool stop = true) noexcept;

  int64_t steps() const noexcept;  // counts training steps, in the state
  Status SetLearningRate(double rate) noexcept;
  Result<double> learning_rate() noexcept;

  Result<std::vector<Variable>> variables() const noexcept;
  // Gives access to the bytes themselves. On a GPU it is a copy, which the next step uses and which is valid until
  // then.
  Result<Tensor> FindVariable(std::string_view name) noexcept;
  Status SetVariable(std::string_view name, const Numbers& numbers) noexcept;

  // Writes a checkpoint `step-N.safetensors` into the directory. Either it is complete and on the disk, or the older
  // ones are as they were; the newest `keep` stay. Returns its path.
  Result<std::string> Save(const std::string& directory, int keep = 3) noexcept;
  // A file, or of a directory (or of what `snug train` left in it) the newest that is complete. All or nothing.
  Status Restore(const std::string& path, Load what = Load::kResume) noexcept;

  int64_t taken_bytes() const noexcept;  // what all programs took from the system

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl) noexcept;

  std::unique_ptr<Impl> impl_;
};

template <Element T>
Result<std::vector<T>> Program::Fetch(std::string_view name) noexcept {
  const Result<int64_t> size = SizeOfOutput(name);
  if (!size.ok()) return size.status();
  std::vector<T> out;
  try {
    out.resize(static_cast<size_t>(*size));
  } catch (...) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
  if (Status status = FetchInto(name, DTypeOf<T>::value, out.data(), *size); !status.ok()) return status;
  return out;
}

}  // namespace v0
}  // namespace snug
