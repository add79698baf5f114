#include "tests/cuda/cudnn/fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/cuda/cudnn/interpreter.h"
#include "tests/cuda/cudnn/operations.h"

namespace snug::core::cuda::fake_cudnn {
namespace {

constexpr int64_t kTooMuch = int64_t{1} << 40;
constexpr int64_t kSome = 64;

// The engines, by number.
enum Engine { kGreedy = 5, kUnsteady = 7, kRounding = 3, kBest = 1, kModest = 2, kLast = 9 };

std::vector<cudnnBackendNumericalNote_t> NotesOf(int engine) {
  if (engine == kUnsteady) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == kRounding) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  return {};
}
int64_t WorkspaceOf(int engine) { return engine == kGreedy ? kTooMuch : engine == kModest ? 0 : kSome; }

cudnnStatus_t FinishGraph(Descriptor& d) {
  const auto parts = Values<cudnnBackendDescriptor_t>(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  if (!parts.has_value() || parts->empty()) return CUDNN_STATUS_BAD_PARAM;
  auto program = std::make_shared<Program>();
  for (const auto& part : *parts) {
    const auto& operation = *static_cast<const Descriptor*>(part);
    if (!operation.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    program->operations.push_back(*OperationOf(operation));
  }
  d.program = std::move(program);
  return CUDNN_STATUS_SUCCESS;
}

std::vector<int> Recommended(cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_A) return {kGreedy, kUnsteady, kRounding, kBest, kModest};
  return {kLast};
}

// Says whether a graph that has products of matrices reads and writes rows that begin at multiples of 16 bytes. The
// real library takes that for granted.
bool RowsAreAligned(const Program& program) {
  const bool products = std::any_of(program.operations.begin(), program.operations.end(), [](const Operation& op) {
    return op.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  });
  for (const Operation& op : program.operations) {
    for (const auto& [name, tensor] : op.tensors) {
      if (!products || tensor.is_virtual || tensor.type != CUDNN_DATA_BFLOAT16) continue;
      for (size_t i = 0; i < tensor.rank(); ++i) {
        if (tensor.dims[i] > 1 && tensor.strides[i] != 1 && tensor.strides[i] * 2 % kAlignment != 0) return false;
      }
    }
  }
  return true;
}

bool Adds(const Program& program) {  // a convolution with something after it
  return program.operations.size() > 1 && IsConvolution(program.operations.front().type);
}

}  // namespace

cudnnStatus_t Set(Descriptor& to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
  if (to.finished) return CUDNN_STATUS_BAD_PARAM;
  size_t size = sizeof(int64_t);
  if (type == CUDNN_TYPE_BOOLEAN) size = sizeof(bool);
  if (type == CUDNN_TYPE_FLOAT) size = sizeof(float);
  const bool is_enum = type == CUDNN_TYPE_DATA_TYPE || type == CUDNN_TYPE_CONVOLUTION_MODE ||
                       type == CUDNN_TYPE_HEUR_MODE || type == CUDNN_TYPE_POINTWISE_MODE ||
                       type == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if (is_enum) size = sizeof(int);
  const auto* const bytes = static_cast<const std::byte*>(values);
  to.attributes[name] = {type, count, {bytes, bytes + static_cast<size_t>(count) * size}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Get(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  int64_t room, int64_t* count, void* values) {
  if (!from.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const std::vector<int> engines =
          Recommended(*Value<cudnnBackendHeurMode_t>(from, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE));
      *count = static_cast<int64_t>(engines.size());
      for (int64_t i = 0; i < std::min(room, *count); ++i) {
        auto& config = *static_cast<Descriptor*>(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
        if (config.type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
        config.finished = true;
        config.program = from.program;
        config.engine = engines[static_cast<size_t>(i)];
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      auto& engine = *static_cast<Descriptor*>(*static_cast<cudnnBackendDescriptor_t*>(values));
      if (engine.type != CUDNN_BACKEND_ENGINE_DESCRIPTOR || room != 1) return CUDNN_STATUS_BAD_PARAM;
      engine.finished = true;
      engine.engine = from.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      if (type != CUDNN_TYPE_INT64 || room != 1) return CUDNN_STATUS_BAD_PARAM;
      *static_cast<int64_t*>(values) = from.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const std::vector<cudnnBackendNumericalNote_t> notes = NotesOf(from.engine);
      *count = static_cast<int64_t>(notes.size());
      std::copy_n(notes.begin(), std::min(room, *count), static_cast<cudnnBackendNumericalNote_t*>(values));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      if (type != CUDNN_TYPE_INT64 || room != 1) return CUDNN_STATUS_BAD_PARAM;
      *static_cast<int64_t*>(values) = WorkspaceOf(from.engine);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t Finish(Descriptor& d, FakeLibraries libraries) {
  if (d.finished) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (d.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    if (!TensorOf(d).has_value()) status = CUDNN_STATUS_BAD_PARAM;
  } else if (PortsOf(d.type) != nullptr) {
    if (!OperationOf(d).has_value()) status = CUDNN_STATUS_BAD_PARAM;
  } else if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    if (d.attributes.count(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == 0) return CUDNN_STATUS_BAD_PARAM;
    status = FinishGraph(d);
    // What it serves alone, it refuses with an activation as a graph, and with a bias when it is asked for engines.
    const bool refused = status == CUDNN_STATUS_SUCCESS && libraries == FakeLibraries::kServeUnfused &&
                         Adds(*d.program) && d.program->operations.size() > 2;
    if (refused) return CUDNN_STATUS_NOT_SUPPORTED;
  } else if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    const Descriptor* const graph = Part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (graph == nullptr || d.attributes.count(CUDNN_ATTR_ENGINEHEUR_MODE) == 0) return CUDNN_STATUS_BAD_PARAM;
    if (libraries == FakeLibraries::kRefuse) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    if (libraries == FakeLibraries::kServeUnfused && Adds(*graph->program)) return CUDNN_STATUS_NOT_SUPPORTED;
    if (!RowsAreAligned(*graph->program)) return CUDNN_STATUS_NOT_SUPPORTED;
    d.program = graph->program;
  } else if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const Descriptor* const config = Part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (config == nullptr || d.attributes.count(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) == 0) return CUDNN_STATUS_BAD_PARAM;
    d.program = config->program;
    d.engine = config->engine;
  }
  d.finished = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t Bind(const Descriptor& plan, const Descriptor& pack, FakeLibraries libraries,
                   std::function<void()>* work) {
  if (!plan.finished || !pack.finished) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  if (libraries == FakeLibraries::kServeOthers && plan.engine == kBest) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto uids = Values<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64);
  const auto pointers = Values<void*>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
  const auto room = Value<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
  if (!uids.has_value() || !pointers.has_value() || uids->size() != pointers->size() || !room.has_value()) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const int64_t workspace_bytes = WorkspaceOf(plan.engine);
  if (workspace_bytes > 0 && *room == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  std::map<int64_t, void*> given;
  for (size_t i = 0; i < uids->size(); ++i) given[(*uids)[i]] = (*pointers)[i];
  std::map<int64_t, float> scalars;  // are read now, not when the stream comes to it
  size_t known = 0;
  std::map<int64_t, bool> seen;
  for (const Operation& op : plan.program->operations) {
    for (const auto& [name, tensor] : op.tensors) {
      if (tensor.is_virtual || !seen.emplace(tensor.uid, true).second) continue;
      ++known;
      const auto found = given.find(tensor.uid);
      if (found == given.end() || found->second == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
      if (tensor.by_value) {
        scalars[tensor.uid] = *static_cast<const float*>(found->second);
      } else if (reinterpret_cast<uintptr_t>(found->second) % kAlignment != 0) {
        return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
      }
    }
  }
  if (known != given.size()) return CUDNN_STATUS_BAD_PARAM;  // it was told of tensors that it does not know
  *work = [program = plan.program, given, scalars, room = *room, workspace_bytes,
           rounds = plan.engine == kRounding]() mutable {
    if (workspace_bytes > 0) std::memset(room, 0xab, static_cast<size_t>(workspace_bytes));
    for (auto& [uid, scalar] : scalars) given[uid] = &scalar;
    Interpret(*program, given, rounds);
  };
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace snug::core::cuda::fake_cudnn