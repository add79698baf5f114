// A computation described to cuDNN as a graph of operations on tensors, and what the library has to compute it.
//
//   CudnnGraph graph(api, "the product of ...");
//   const CudnnTensor a = graph.InMemory(kA, CUDNN_DATA_BFLOAT16, {8, 16, 32}, {512, 32, 1}), ...;
//   graph.MatMul(a, b, c);
//   SNUG_RETURN_IF_ERROR(graph.Finish(target));
//   CudnnPlans plans(target, "the product of ...", {.workspace_bytes = 4096});
//   SNUG_RETURN_IF_ERROR(plans.Add(std::move(graph)));
//   SNUG_RETURN_IF_ERROR(plans.Settle());
//   SNUG_ASSIGN_OR_RETURN(int graph_number, plans.Run({{kA, address}, ...}, workspace));
//
// Errors: Unimplemented, with what the library said, where it does not have something. Internal where it takes our
// description for wrong, which is a fault of ours and must not pass for the former.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/cuda_stream.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

#if SNUG_HAS_CUDNN

// What plans are made for: the device of a handle, or one that `device` describes and that need not be there (tests ask
// the real library so).
struct CudnnTarget {
  const Api* api = nullptr;
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t device = nullptr;
};

// Owns one of the library's descriptors.
class CudnnDescriptor {
 public:
  static absl::StatusOr<CudnnDescriptor> Create(const Api& api, cudnnBackendDescriptorType_t type,
                                                absl::string_view doing);
  CudnnDescriptor() = default;
  CudnnDescriptor(CudnnDescriptor&& other) noexcept { *this = std::move(other); }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();

  cudnnBackendDescriptor_t get() const { return handle_; }

  absl::Status Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                   const void* values, absl::string_view doing);
  absl::Status Finish(absl::string_view doing);

 private:
  const Api* api_ = nullptr;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

using CudnnDims = std::vector<int64_t>;

// A tensor of a graph, which owns it.
struct CudnnTensor {
  cudnnBackendDescriptor_t descriptor = nullptr;
  CudnnDims dims, strides;
};

enum class CudnnConvKind : uint8_t;  // cudnn_conv.h

struct CudnnWindow {  // one number for each spatial dimension
  CudnnDims pad_begin, pad_end, stride, dilation;
};

// The first error of a description is kept, what comes after it does nothing, and Finish returns it.
class CudnnGraph {
 public:
  CudnnGraph(const Api& api, const std::string& what);

  // `uid` is how Run is told where the values lie. Addresses are multiples of 16 bytes.
  CudnnTensor InMemory(int64_t uid, cudnnDataType_t type, CudnnDims dims, CudnnDims strides);
  // Exists between operations only.
  CudnnTensor Virtual(cudnnDataType_t type, CudnnDims dims, CudnnDims strides);
  // One float that Run reads on the host.
  CudnnTensor Scalar(int64_t uid, int rank);

  // Convolves; in sums of float32.
  void Convolve(CudnnConvKind kind, const CudnnWindow& window, const CudnnTensor& x, const CudnnTensor& w,
                const CudnnTensor& y);
  // Sets y to the operation on x, b (binary ones) and t (a selection's), in numbers of that type.
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t in, const CudnnTensor& y, const CudnnTensor& x,
                 const CudnnTensor* b = nullptr, const CudnnTensor* t = nullptr);
  void GenerateIndex(int64_t axis, const CudnnTensor& y, const CudnnTensor& x);   // of x's shape
  void MatMul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c);  // of the last two dimensions
  void Reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y);
  void Reshape(const CudnnTensor& x, const CudnnTensor& y);  // y is x's elements with y's dimensions and strides

  absl::Status Finish(const CudnnTarget& target);
  cudnnBackendDescriptor_t get() const { return graph_.get(); }
  bool Knows(int64_t uid) const;  // says whether one of its tensors is called so

 private:
  CudnnTensor Tensor(int64_t uid, cudnnDataType_t type, CudnnDims dims, CudnnDims strides, bool is_virtual,
                     bool by_value);
  CudnnDescriptor* New(cudnnBackendDescriptorType_t type);
  void Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  void Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, const CudnnTensor& tensor);
  void Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, const CudnnDescriptor* other);
  void Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, cudnnDataType_t type);
  void FinishOne(CudnnDescriptor* one, bool operation = false);
  CudnnDescriptor* PointwiseKind(cudnnPointwiseMode_t mode, cudnnDataType_t in, int64_t axis);

  const Api* api_;
  std::string what_;
  absl::Status status_;
  std::vector<std::unique_ptr<CudnnDescriptor>> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::vector<int64_t> uids_;
  int64_t next_virtual_ = int64_t{1} << 32;  // uids of tensors that Run need not know
  CudnnDescriptor graph_;
};

// Which of the library's engines may compute a graph.
struct CudnnLicence {
  bool varies = false;  // may add in another sequence each time
  // May round float32 factors to what tensor cores take (TF32), and use Winograd's transformations of large tiles. Of
  // bfloat16 nothing is lost by it.
  bool rounds = false;
  int64_t workspace_bytes = 0;
  int rank = 1;  // which of those that serve is taken, counted from 1; beyond the end the last
};

// The ways that the library knows to compute one of a few graphs, which say the same: as its heuristics list them, the
// best of the first graph first; those to fall back to, which serve almost anything slowly, stand behind those of all
// graphs.
class CudnnPlans {
 public:
  CudnnPlans(const CudnnTarget& target, std::string what, const CudnnLicence& licence);

  // Has the heuristics list engines for the graph, before Settle. That there are none is no error.
  absl::Status Add(std::shared_ptr<const CudnnGraph> graph);
  // Notes that the library does not take a graph. It has a number all the same, and if nothing serves in the end this
  // is why.
  void Refuse(std::string why);
  // Prepares engines, which may mean to compile their code, until the one that is wanted serves. Fails with
  // Unimplemented if none does.
  absl::Status Settle();
  // Asks for the work on the handle's stream. `operands` may name more than the graph that serves knows; its number is
  // returned (0: the first that was added). If it fails with Unimplemented, nothing was asked for.
  absl::StatusOr<int> Run(const std::vector<std::pair<int64_t, const void*>>& operands, void* workspace);

  // What the library said last when it refused to run an engine that it had prepared; null: it did not.
  const std::string* refused() const { return refused_.empty() ? nullptr : &refused_; }
  int64_t workspace_bytes() const { return ready_.empty() ? 0 : ready_.back().workspace_bytes; }
  // What the engine that serves is called in messages, such as "engine 17 of graph 0"; empty: none does.
  std::string Name() const;

 private:
  struct Engine {
    int graph = 0;
    int64_t number = 0;
    CudnnDescriptor config;
  };
  struct Ready {
    int graph = 0;
    int64_t number = 0;
    int64_t workspace_bytes = 0;
    CudnnDescriptor plan;
  };
  absl::Status List(const CudnnGraph& graph, cudnnBackendHeurMode_t mode, int number, std::vector<Engine>& to);
  absl::StatusOr<bool> Permits(const CudnnDescriptor& engine) const;
  absl::Status Prepare(Engine& engine);

  CudnnTarget target_;
  std::string what_;
  CudnnLicence licence_;
  std::vector<std::shared_ptr<const CudnnGraph>> graphs_;  // by number; null: refused
  std::vector<Engine> engines_, fallbacks_;
  size_t next_ = 0;           // those before it are in ready_, or do not serve
  std::vector<Ready> ready_;  // the last of them is taken
  int64_t least_bytes_ = -1;  // the least workspace that is wanted by those that want too much
  std::string refusal_;       // why none serves
  std::string refused_;       // as refused() says
};

// Settles a computation, which PlansOf(target, computation) describes, once for a stream, and returns its plans.
template <class Computation>
absl::StatusOr<CudnnPlans*> SettleOnce(const CudaStream& stream, cudnnHandle_t handle, const Computation& computation,
                                       std::map<Computation, std::unique_ptr<CudnnPlans>>& known) {
  SNUG_RETURN_IF_ERROR(stream.device().MakeCurrent());
  std::unique_ptr<CudnnPlans>& plans = known[computation];
  if (plans == nullptr) {
    SNUG_ASSIGN_OR_RETURN(plans, PlansOf({.api = &stream.device().api(), .handle = handle}, computation));
  }
  SNUG_RETURN_IF_ERROR(plans->Settle());
  return plans.get();
}

#else

class CudnnPlans {};

#endif

}  // namespace snug::core::cuda
