#include "engine/cuda/cudnn_graph.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"

namespace snug::core::cuda {

#if SNUG_HAS_CUDNN

namespace {

constexpr int64_t kAlignment = 16;  // bytes
constexpr int64_t kMostEngines = 128;

}  // namespace

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Create(const Api& api, cudnnBackendDescriptorType_t type,
                                                        absl::string_view doing) {
  CudnnDescriptor made;
  made.api_ = &api;
  SNUG_CUDA_CALL(api, cudnnBackendCreateDescriptor, (type, &made.handle_), doing);
  return made;
}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ != nullptr) api_->table().cudnnBackendDestroyDescriptor(handle_);
}

absl::Status CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                  const void* values, absl::string_view doing) {
  SNUG_CUDA_CALL(*api_, cudnnBackendSetAttribute, (handle_, name, type, count, values),
                 absl::StrCat(doing, " (attribute ", static_cast<int>(name), ")"));
  return absl::OkStatus();
}

absl::Status CudnnDescriptor::Finish(absl::string_view doing) {
  SNUG_CUDA_CALL(*api_, cudnnBackendFinalize, (handle_), doing);
  return absl::OkStatus();
}

CudnnGraph::CudnnGraph(const Api& api, const std::string& what)
    : api_(&api), what_(absl::StrCat("describing ", what)) {}

CudnnDescriptor* CudnnGraph::New(cudnnBackendDescriptorType_t type) {
  auto made = std::make_unique<CudnnDescriptor>();
  if (status_.ok()) {
    absl::StatusOr<CudnnDescriptor> created = CudnnDescriptor::Create(*api_, type, what_);
    status_ = created.status();
    if (created.ok()) *made = std::move(*created);
  }
  parts_.push_back(std::move(made));
  return parts_.back().get();
}

void CudnnGraph::Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void* values) {
  if (status_.ok()) status_ = to->Set(name, type, count, values, what_);
}
void CudnnGraph::Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, const CudnnTensor& tensor) {
  Set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor.descriptor);
}
void CudnnGraph::Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, const CudnnDescriptor* other) {
  cudnnBackendDescriptor_t descriptor = other->get();
  Set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
}
void CudnnGraph::Set(CudnnDescriptor* to, cudnnBackendAttributeName_t name, cudnnDataType_t type) {
  Set(to, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

void CudnnGraph::FinishOne(CudnnDescriptor* one, bool operation) {
  if (!status_.ok()) return;
  status_ = one->Finish(what_);
  if (operation) operations_.push_back(one->get());
}

CudnnTensor CudnnGraph::Tensor(int64_t uid, cudnnDataType_t type, CudnnDims dims, CudnnDims strides, bool is_virtual,
                               bool by_value) {
  CudnnDescriptor* const tensor = New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto rank = static_cast<int64_t>(dims.size());
  Set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims.data());
  Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment);
  if (is_virtual) Set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  if (by_value) Set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  FinishOne(tensor);
  if (!is_virtual) uids_.push_back(uid);
  return {tensor->get(), std::move(dims), std::move(strides)};
}

CudnnTensor CudnnGraph::InMemory(int64_t uid, cudnnDataType_t type, CudnnDims dims, CudnnDims strides) {
  return Tensor(uid, type, std::move(dims), std::move(strides), /*is_virtual=*/false, /*by_value=*/false);
}
CudnnTensor CudnnGraph::Virtual(cudnnDataType_t type, CudnnDims dims, CudnnDims strides) {
  return Tensor(next_virtual_++, type, std::move(dims), std::move(strides), /*is_virtual=*/true, /*by_value=*/false);
}
CudnnTensor CudnnGraph::Scalar(int64_t uid, int rank) {
  const CudnnDims ones(static_cast<size_t>(rank), 1);
  return Tensor(uid, CUDNN_DATA_FLOAT, ones, ones, /*is_virtual=*/false, /*by_value=*/true);
}

void CudnnGraph::Convolve(CudnnConvKind kind, const CudnnWindow& window, const CudnnTensor& x, const CudnnTensor& w,
                          const CudnnTensor& y) {
  CudnnDescriptor* const conv = New(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto spatial = static_cast<int64_t>(window.stride.size());
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Set(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
  Set(conv, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Set(conv, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  Set(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, spatial, window.pad_begin.data());
  Set(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, spatial, window.pad_end.data());
  Set(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, spatial, window.stride.data());
  Set(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, spatial, window.dilation.data());
  FinishOne(conv);

  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
  };
  constexpr std::array<Names, 3> kNames = {
      {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
       {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
       {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}};
  const Names& names = kNames[static_cast<size_t>(kind)];
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  CudnnDescriptor* const operation = New(names.type);
  Set(operation, names.conv, conv);
  Set(operation, names.x, x);
  Set(operation, names.w, w);
  Set(operation, names.y, y);
  Set(operation, names.alpha, CUDNN_TYPE_FLOAT, 1, &kOne);
  Set(operation, names.beta, CUDNN_TYPE_FLOAT, 1, &kZero);
  FinishOne(operation, /*operation=*/true);
}

// `axis` below 0: the mode has none.
CudnnDescriptor* CudnnGraph::PointwiseKind(cudnnPointwiseMode_t mode, cudnnDataType_t in, int64_t axis) {
  CudnnDescriptor* const kind = New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  Set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  Set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, in);
  if (axis >= 0) Set(kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  FinishOne(kind);
  return kind;
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t in, const CudnnTensor& y, const CudnnTensor& x,
                           const CudnnTensor* b, const CudnnTensor* t) {
  const CudnnDescriptor* const kind = PointwiseKind(mode, in, -1);
  CudnnDescriptor* const operation = New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  if (t != nullptr) Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  FinishOne(operation, /*operation=*/true);
}

void CudnnGraph::GenerateIndex(int64_t axis, const CudnnTensor& y, const CudnnTensor& x) {
  const CudnnDescriptor* const kind = PointwiseKind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis);
  CudnnDescriptor* const operation = New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  FinishOne(operation, /*operation=*/true);
}

void CudnnGraph::MatMul(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& c) {
  CudnnDescriptor* const kind = New(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  Set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  FinishOne(kind);
  CudnnDescriptor* const operation = New(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  Set(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  Set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  Set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  Set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  FinishOne(operation, /*operation=*/true);
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t op, const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor* const kind = New(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  Set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  Set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  FinishOne(kind);
  CudnnDescriptor* const operation = New(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  FinishOne(operation, /*operation=*/true);
}

void CudnnGraph::Reshape(const CudnnTensor& x, const CudnnTensor& y) {
  CudnnDescriptor* const operation = New(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  Set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  Set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  FinishOne(operation, /*operation=*/true);
}

absl::Status CudnnGraph::Finish(const CudnnTarget& target) {
  SNUG_RETURN_IF_ERROR(status_);
  SNUG_ASSIGN_OR_RETURN(graph_, CudnnDescriptor::Create(*api_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what_));
  SNUG_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  static_cast<int64_t>(operations_.size()), operations_.data(), what_));
  if (target.handle != nullptr) {
    SNUG_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle, what_));
  }
  return graph_.Finish(what_);
}

bool CudnnGraph::Knows(int64_t uid) const { return std::find(uids_.begin(), uids_.end(), uid) != uids_.end(); }

CudnnPlans::CudnnPlans(const CudnnTarget& target, std::string what, const CudnnLicence& licence)
    : target_(target), what_(std::move(what)), licence_(licence) {
  refusal_ = absl::StrCat("choosing an engine for ", what_, ": its heuristics list none",
                          licence_.varies ? "" : " that gives the same bits each time");
}

absl::Status CudnnPlans::Add(std::shared_ptr<const CudnnGraph> graph) {
  const int number = static_cast<int>(graphs_.size());
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const absl::Status listed = List(*graph, mode, number, mode == CUDNN_HEUR_MODE_A ? engines_ : fallbacks_);
    if (!absl::IsUnimplemented(listed)) {
      SNUG_RETURN_IF_ERROR(listed);
    } else if (engines_.empty() && fallbacks_.empty()) {
      refusal_ = std::string(listed.message());
    }
  }
  graphs_.push_back(std::move(graph));
  return absl::OkStatus();
}

void CudnnPlans::Refuse(std::string why) {
  graphs_.push_back(nullptr);
  refusal_ = std::move(why);
}

absl::Status CudnnPlans::List(const CudnnGraph& graph, cudnnBackendHeurMode_t mode, int number,
                              std::vector<Engine>& to) {
  const Api& api = *target_.api;
  const std::string doing = absl::StrCat("choosing an engine for ", what_);
  SNUG_ASSIGN_OR_RETURN(CudnnDescriptor heuristics,
                        CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, doing));
  cudnnBackendDescriptor_t operations = graph.get();
  SNUG_RETURN_IF_ERROR(
      heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operations, doing));
  SNUG_RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, doing));
  if (target_.device != nullptr) {
    SNUG_RETURN_IF_ERROR(
        heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target_.device, doing));
  }
  SNUG_RETURN_IF_ERROR(heuristics.Finish(doing));

  // The library fills descriptors that we have to have made.
  int64_t count = 0;
  SNUG_CUDA_CALL(api, cudnnBackendGetAttribute,
                 (heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                 doing);
  count = std::min(count, kMostEngines);
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    SNUG_ASSIGN_OR_RETURN(CudnnDescriptor config,
                          CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, doing));
    handles.push_back(config.get());
    configs.push_back(std::move(config));
  }
  if (count == 0) return absl::OkStatus();
  SNUG_CUDA_CALL(
      api, cudnnBackendGetAttribute,
      (heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
      doing);
  for (int64_t i = 0; i < count; ++i) {
    CudnnDescriptor& config = configs[static_cast<size_t>(i)];
    SNUG_ASSIGN_OR_RETURN(const CudnnDescriptor engine,
                          CudnnDescriptor::Create(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR, doing));
    cudnnBackendDescriptor_t handle = engine.get();
    int64_t found = 0;
    SNUG_CUDA_CALL(api, cudnnBackendGetAttribute,
                   (config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &handle),
                   doing);
    int64_t engine_number = 0;
    SNUG_CUDA_CALL(api, cudnnBackendGetAttribute,
                   (handle, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &found, &engine_number), doing);
    SNUG_ASSIGN_OR_RETURN(const bool permits, Permits(engine));
    if (permits) to.push_back({number, engine_number, std::move(config)});
  }
  return absl::OkStatus();
}

// Says whether the engine is as exact and as steady as the licence wants it.
absl::StatusOr<bool> CudnnPlans::Permits(const CudnnDescriptor& engine) const {
  std::array<cudnnBackendNumericalNote_t, 32> notes = {};
  int64_t count = 0;
  SNUG_CUDA_CALL(*target_.api, cudnnBackendGetAttribute,
                 (engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()),
                 absl::StrCat("asking for the notes of an engine for ", what_));
  for (int64_t i = 0; i < std::min<int64_t>(count, notes.size()); ++i) {
    switch (notes[static_cast<size_t>(i)]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (!licence_.varies) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return false;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // of float32 it means TF32, often without the next one
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        if (!licence_.rounds) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

absl::Status CudnnPlans::Prepare(Engine& engine) {
  const Api& api = *target_.api;
  const std::string doing = absl::StrCat("preparing engine ", engine.number, " for ", what_);
  SNUG_ASSIGN_OR_RETURN(CudnnDescriptor plan,
                        CudnnDescriptor::Create(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, doing));
  cudnnBackendDescriptor_t config = engine.config.get();
  SNUG_RETURN_IF_ERROR(
      plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config, doing));
  if (target_.handle != nullptr) {
    SNUG_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target_.handle, doing));
  }
  if (target_.device != nullptr) {
    SNUG_RETURN_IF_ERROR(
        plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target_.device, doing));
  }
  // An engine that the library listed itself is no description of ours: whatever it is refused for, the next one may
  // serve. Where there is no compiler for it, too.
  if (const cudnnStatus_t code = api.table().cudnnBackendFinalize(plan.get()); code != CUDNN_STATUS_SUCCESS) {
    const absl::Status status = api.Error(Library::kCudnn, "cudnnBackendFinalize", static_cast<int>(code), doing);
    const bool refused = absl::IsUnimplemented(status) || CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_BAD_PARAM ||
                         code == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
    return refused ? absl::UnimplementedError(status.message()) : status;
  }
  int64_t bytes = 0;
  int64_t count = 0;
  SNUG_CUDA_CALL(api, cudnnBackendGetAttribute,
                 (plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes), doing);
  if (bytes > licence_.workspace_bytes) {
    if (least_bytes_ < 0 || bytes < least_bytes_) least_bytes_ = bytes;
    return absl::UnimplementedError(absl::StrCat("choosing an engine for ", what_, ": at least ", least_bytes_,
                                                 " bytes of workspace are wanted, and ", licence_.workspace_bytes,
                                                 " are planned"));
  }
  ready_.push_back({engine.graph, engine.number, bytes, std::move(plan)});
  return absl::OkStatus();
}

absl::Status CudnnPlans::Settle() {
  engines_.insert(engines_.end(), std::make_move_iterator(fallbacks_.begin()),
                  std::make_move_iterator(fallbacks_.end()));
  fallbacks_.clear();
  for (; next_ < engines_.size() && ready_.size() < static_cast<size_t>(licence_.rank); ++next_) {
    const absl::Status prepared = Prepare(engines_[next_]);
    if (absl::IsUnimplemented(prepared)) {
      refusal_ = std::string(prepared.message());
    } else {
      SNUG_RETURN_IF_ERROR(prepared);
    }
  }
  return ready_.empty() ? absl::UnimplementedError(refusal_) : absl::OkStatus();
}

absl::StatusOr<int> CudnnPlans::Run(const std::vector<std::pair<int64_t, const void*>>& operands, void* workspace) {
  const Api& api = *target_.api;
  const std::string doing = absl::StrCat("asking for ", what_);
  for (;;) {
    SNUG_RETURN_IF_ERROR(Settle());
    const Ready& taken = ready_.back();
    std::vector<int64_t> uids;
    std::vector<const void*> addresses;
    for (const auto& [uid, address] : operands) {
      if (!graphs_[static_cast<size_t>(taken.graph)]->Knows(uid)) continue;
      uids.push_back(uid);
      addresses.push_back(address);
    }
    const auto count = static_cast<int64_t>(uids.size());
    SNUG_ASSIGN_OR_RETURN(CudnnDescriptor pack,
                          CudnnDescriptor::Create(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, doing));
    void* const room = taken.workspace_bytes > 0 ? workspace : nullptr;
    SNUG_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids.data(), doing));
    SNUG_RETURN_IF_ERROR(
        pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data(), doing));
    SNUG_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room, doing));
    SNUG_RETURN_IF_ERROR(pack.Finish(doing));
    const cudnnStatus_t code = api.table().cudnnBackendExecute(target_.handle, taken.plan.get(), pack.get());
    if (code == CUDNN_STATUS_SUCCESS) return taken.graph;
    const absl::Status status = api.Error(Library::kCudnn, "cudnnBackendExecute", static_cast<int>(code), doing);
    if (!absl::IsUnimplemented(status)) return status;
    refused_ = refusal_ = std::string(status.message());
    ready_.pop_back();
  }
}

std::string CudnnPlans::Name() const {
  if (ready_.empty()) return "";
  return absl::StrCat("engine ", ready_.back().number, " of graph ", ready_.back().graph);
}

#endif

}  // namespace snug::core::cuda
