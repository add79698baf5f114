// A compiled network with its memory and its Variables: fed, stepped, fetched, saved.
//
//   snug::Result<snug::Session> session = snug::Session::Create(network, {.batch = 32});
//   if (!session.ok()) return Fail(session.status());
//   for (const Batch& b : batches) {
//     if (snug::Status s = session->Step({{"image", b.images}, {"label", b.labels}}); !s.ok()) return Fail(s);
//   }
//   std::printf("loss %g\n", *session->FetchScalar("loss"));
//
// Sessions share nothing: each may be used by a thread of its own, one thread at a time.
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
  std::string device = "cpu";         // where steps run; or cuda, or cuda:N, the N-th GPU
  int64_t batch = 0;                  // samples in a step; 0: the model file's, or 1
  bool training = true;               // false: forward only
  int64_t evaluation_batch = 0;       // > 0: beside training a forward-only program, on the same Variables and memory
  DType precision = DType::kFloat32;  // or kBFloat16 (with float32 parameters), kFloat64
  int threads = 1;                    // of each op; 0: every processor
  int streams = 1;                    // ops that run side by side
  std::string engine = {};            // replay, serial or dynamic; "": replay, or serial where memory is dynamic
  // What is not said of memory is what `training { memory { } }` of the model file says, else the default.
  std::string memory = {};   // how it is planned: `snug plan --help` names the strategies; "": the file's, or best
  int64_t memory_limit = 0;  // bytes; a plan that needs more is an error. 0: the file's, or none
  // Of memory = "dynamic", where values come from an allocator: {{"allocator", "buddy"}, {"gc_fraction", 0.5}}. The
  // fields of `training { memory { } }` and the flags of `snug plan`; docs/memory.md tells what they do.
  std::vector<Option> memory_options = {};
  uint64_t seed = 0;
  // When no op has finished for so many seconds, a report says what each stream runs or waits for, and again after
  // twice as many; 0: off. It goes to standard error, or to watchdog_report, on a thread of its own; that may not
  // throw.
  double watchdog = 0;
  std::function<void(const std::string& report)> watchdog_report = {};
  bool keep_inputs = false;             // what is fed stays for the next step; otherwise a step uses its bytes again
  std::vector<std::string> fetch = {};  // values to make outputs, beside the network's own
  // Inputs and outputs that lie in the caller's own memory (Program::Bind). The session takes no bytes for them.
  std::vector<std::string> bound = {};
};

struct MemoryFigures {
  std::string strategy;
  int64_t state_bytes = 0;  // Variables
  int64_t step_bytes = 0;   // everything else
  int64_t lower_bound = 0;  // of the sum: no plan needs less
  bool proven = false;      // the plan reaches the bound, or a search has shown that none is better
  int64_t total_bytes() const { return state_bytes + step_bytes; }
};

// Something with a name, and numbers for it.
struct Fed {
  std::string_view name;
  Numbers numbers;
};

// One compiled form of the network within a Session. A handle: as long as the Session lives, wherever it is moved.
class SNUG_API Program {
 public:
  // Copies, converting to the input's own type; one number for each element of the batch.
  Status Feed(std::string_view name, const Numbers& numbers) noexcept;
  // One step. What fails before any Variable has changed leaves them as they were.
  Status Run(std::initializer_list<Fed> feeds = {}) noexcept;
  template <Element T>
  Result<std::vector<T>> Fetch(std::string_view name) noexcept;
  Result<double> FetchScalar(std::string_view name) noexcept;

  // The bytes themselves, to write to before a step (that counts as feeding) and to read after it, without a copy. They
  // lie at the same place in every step. A step may write over its inputs, unless `keep_inputs`.
  Result<Tensor> Input(std::string_view name) noexcept;
  Result<Tensor> Output(std::string_view name) noexcept;

  // The caller's own memory for what SessionOptions::bound names: from the next step on, until other is bound, steps
  // read inputs and write outputs there, without a copy. It holds all elements, of the value's own type, and begins at
  // a multiple of kBufferAlignment; on a GPU it is the device's memory, as cudaMalloc gives it, and begins at a
  // multiple of kCudaBufferAlignment. A step never writes to a bound input. What is written may not overlap anything
  // else that is bound. Cheap; nothing is allocated.
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
  bool parameter = false;  // trained; otherwise a statistic, of the optimizer, a constant, a counter
};

// What is taken from a checkpoint.
enum class Load : uint8_t {
  // Everything, bit for bit: training goes on as if it had never stopped. A checkpoint of another batch, precision or
  // seed, with other threads, micro-batches or tuning, or of a platform with other kernels, is refused, and the error
  // names what differs.
  kResume,
  // Everything too, with the same samples in a step, precision and seed; but threads, micro-batches, tuning and
  // platform
  // may be others, which changes the rounding, and with micro-batches what batch norm and dropout do. `snug train
  // --resume` does this, with a warning.
  kContinue,
  // Parameters and statistics; floating-point types are converted, so files of other programs will do.
  kWeights,
};

class SNUG_API Session {
 public:
  static Result<Session> Create(const Network& network, const SessionOptions& options = {}) noexcept;
  // What Create would need, to the byte, without taking it.
  static Result<MemoryFigures> Plan(const Network& network, const SessionOptions& options = {}) noexcept;

  Session(Session&& other) noexcept;
  Session& operator=(Session&& other) noexcept;
  ~Session();

  // Training, or what was asked for instead.
  Program program() noexcept;
  Status Feed(std::string_view name, const Numbers& numbers) noexcept { return program().Feed(name, numbers); }
  Status Step(std::initializer_list<Fed> feeds = {}) noexcept { return program().Run(feeds); }
  Status Bind(std::string_view name, const Buffer& buffer) noexcept { return program().Bind(name, buffer); }
  template <Element T>
  Result<std::vector<T>> Fetch(std::string_view name) noexcept {
    return program().Fetch<T>(name);
  }
  Result<double> FetchScalar(std::string_view name) noexcept { return program().FetchScalar(name); }
  // Forward only, where `evaluation_batch` was given.
  Result<Program> evaluation() noexcept;

  // On a GPU: from now on a step comes, on the device, after all that this stream (a cudaStream_t of the same device;
  // null: CUDA's default one) was given before Step, and before what it is given after. Step then returns as soon as
  // everything is asked for, and the host waits only where it feeds, fetches, looks at Variables or runs the other
  // program; bound buffers need no waiting. The stream outlives the session, and is not being captured.
  Status FollowStream(void* stream) noexcept;
  // Until all steps are done, and what became of them. After steps that follow no stream there is nothing to wait for.
  Status Wait() noexcept;

  int64_t steps() const noexcept;  // of training, counted in the state
  Status SetLearningRate(double rate) noexcept;
  Result<double> learning_rate() noexcept;

  Result<std::vector<Variable>> variables() const noexcept;
  // The bytes themselves; on a GPU a copy, which the next step uses, and which is good until then.
  Result<Tensor> FindVariable(std::string_view name) noexcept;
  Status SetVariable(std::string_view name, const Numbers& numbers) noexcept;

  // Writes a checkpoint `step-N.safetensors` into the directory: complete and on the disk, or the older ones are as
  // they were; the `keep` newest stay. Returns its path.
  Result<std::string> Save(const std::string& directory, int keep = 3) noexcept;
  // A file, or of a directory the newest that is complete. All or nothing.
  Status Restore(const std::string& path, Load what = Load::kResume) noexcept;

  int64_t taken_bytes() const noexcept;  // from the system, for all programs

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
